"""Supervised: one network on the labels alone. The partial loss, when the setting is sparse."""

from __future__ import annotations

import torch

from twoslice.methods.base import Batch, Losses, Method
from twoslice.objectives.agreement import hard_dice
from twoslice.objectives.losses import segmentation_loss
from twoslice.objectives.weights import slice_weight
from twoslice.settings import Settings


class Supervised(Method):
    """One network; `sparse`: loss on the drawn voxels only, as an ignore label gives it;
    `dense`: every plane's pseudo labels taken as labels.
    """

    @classmethod
    def learns_from_unlabeled(cls, settings: Settings) -> bool:
        """It does not."""
        return False

    def losses(self, batch: Batch, progress: float) -> Losses:
        """Eq. 5 with weight 1 on every labelled voxel, the mean over the views."""
        scores = self.networks[0](batch.labeled)
        terms = [
            segmentation_loss(scores, view.label, slice_weight(view.distance, 1.0))
            for view in batch.views
        ]
        losses = Losses()
        losses.add(supervised=torch.stack(terms).mean())
        first = batch.views[0]
        losses.log(dice_drawn=hard_dice(scores, first.label, first.distance == 0))
        return losses
