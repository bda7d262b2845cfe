"""CoraNet: certain where costs do not matter (Shi et al., TMI 2022)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from twoslice.methods.base import Batch, Losses, Method, View
from twoslice.methods.supervision import drawn_dice, hard_labels, supervise
from twoslice.methods.teacher import Teacher
from twoslice.networks.build import NetworkPlan
from twoslice.objectives.consistency import softmax_distance
from twoslice.objectives.losses import cross_supervision, weighted_cross_entropy
from twoslice.objectives.schedules import cross_weight
from twoslice.objectives.weights import slice_weight
from twoslice.settings import Settings


class CoraNet(Method):
    """One network with three heads: the main one, and a conservative and a radical one that pay
    differently for missed and for invented foreground. Unlabelled voxels on which those two agree
    are certain and train the main head on that label; on the others it follows a teacher.
    """

    def __init__(self, plan: NetworkPlan, settings: Settings) -> None:
        super().__init__(plan, settings)
        self.teacher = Teacher(self.networks[0], settings.semi.teacher_decay)

    @classmethod
    def plans(cls, plan: NetworkPlan) -> list[NetworkPlan]:
        """The heads are the outputs of one last layer: main, conservative, radical."""
        return [plan.model_copy(update={"classes": 3 * plan.classes})]

    def losses(self, batch: Batch, progress: float) -> Losses:
        """Eq. 5 and both heads' costs on the labels; λ times self-training and consistency."""
        labeled, unlabeled = self.networks[0](batch.images).split(batch.sizes)
        main, conservative, radical = torch.split(labeled, self.classes, dim=1)
        own = unlabeled[:, : self.classes]
        target = self.teacher.scores(batch.unlabeled)[:, : self.classes].softmax(dim=1)
        pseudo, certain = self.agreed(unlabeled)
        trust, cost = (
            cross_weight(progress, full=self.settings.semi.weight),
            self.settings.semi.cost,
        )
        losses = Losses()
        losses.add(
            supervised=supervise(main, batch.views),
            conservative=costly(conservative, batch.views, background=cost, foreground=1.0),
            radical=costly(radical, batch.views, background=1.0, foreground=cost),
            cross=trust * cross_supervision(own, pseudo, certain),
            consistency=trust * softmax_distance(own, target, ~certain),
        )
        share = float(certain.float().mean())
        losses.log(trust=trust, mask_fraction=share, dice_drawn=drawn_dice(main, batch.views))
        return losses

    def agreed(
        self, scores: Float[Tensor, "B C3 I J K"]
    ) -> tuple[Int[Tensor, "B I J K"], Bool[Tensor, "B I J K"]]:
        """The conservative head's labels, and where the radical head gives the same."""
        _, conservative, radical = torch.split(scores, self.classes, dim=1)
        pseudo = hard_labels(conservative)
        return pseudo, pseudo == hard_labels(radical)

    def after_step(self, progress: float) -> None:
        """The teacher follows."""
        self.teacher.follow(self.networks[0])


def costly(
    scores: Float[Tensor, "B C I J K"],
    views: Sequence[View],
    *,
    background: float,
    foreground: float,
) -> Float[Tensor, ""]:
    """Cross entropy in which a voxel counts by what its class costs when missed."""
    terms = []
    for view in views:
        price = torch.where(view.label > 0, foreground, background)
        weight = price * slice_weight(view.distance, 1.0)
        terms.append(weighted_cross_entropy(scores, view.label, weight))
    return torch.stack(terms).mean()
