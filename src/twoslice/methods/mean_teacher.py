"""Mean Teacher (Tarvainen & Valpola, 2017), as the field uses it on volumes."""

from __future__ import annotations

from jaxtyping import Bool
from torch import Tensor

from twoslice.methods.base import Batch, Losses, Method
from twoslice.methods.supervision import drawn_dice, supervise
from twoslice.methods.teacher import Teacher
from twoslice.networks.build import NetworkPlan
from twoslice.objectives.consistency import softmax_distance
from twoslice.objectives.schedules import cross_weight
from twoslice.settings import Settings


class MeanTeacher(Method):
    """One network, which on unlabelled patches agrees with the exponential mean of itself."""

    def __init__(self, plan: NetworkPlan, settings: Settings) -> None:
        super().__init__(plan, settings)
        self.teacher = Teacher(self.networks[0], settings.semi.teacher_decay)

    def losses(self, batch: Batch, progress: float) -> Losses:
        """Eq. 5 on the labels, and λ times the distance to the teacher's softmax."""
        labeled, unlabeled = self.networks[0](batch.images).split(batch.sizes)
        target = self.teacher.scores(batch.unlabeled).softmax(dim=1)
        certain = self.certain(batch.unlabeled, progress)
        trust = cross_weight(progress, full=self.settings.semi.weight)
        losses = Losses()
        losses.add(
            supervised=supervise(labeled, batch.views),
            consistency=trust * softmax_distance(unlabeled, target, certain),
        )
        losses.log(trust=trust, dice_drawn=drawn_dice(labeled, batch.views))
        if certain is not None:
            losses.log(mask_fraction=float(certain.float().mean()))
        return losses

    def certain(self, image: Tensor, progress: float) -> Bool[Tensor, "B I J K"] | None:
        """Where the teacher is to be heard; None: everywhere."""
        return None

    def after_step(self, progress: float) -> None:
        """The teacher follows."""
        self.teacher.follow(self.networks[0])
