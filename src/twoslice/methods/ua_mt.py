"""UA-MT: uncertainty-aware Mean Teacher (Yu et al., MICCAI 2019)."""

from __future__ import annotations

from jaxtyping import Bool
from torch import Tensor

from twoslice.methods.mean_teacher import MeanTeacher
from twoslice.objectives.schedules import uncertainty_threshold
from twoslice.objectives.uncertainty import entropy, monte_carlo_probabilities


class UncertaintyAwareMeanTeacher(MeanTeacher):
    """Mean Teacher that hears its teacher only where that one is certain."""

    def certain(self, image: Tensor, progress: float) -> Bool[Tensor, "B I J K"]:
        """Where the entropy of the teacher's mean over stochastic passes is below the threshold,
        which rises until every voxel counts.
        """
        passes = self.settings.semi.passes
        mean = monte_carlo_probabilities(self.teacher.network, image, passes=passes)
        return entropy(mean) < uncertainty_threshold(progress, classes=self.classes)
