"""Supervised: one network on the labels alone. The partial loss, when the setting is sparse."""

from __future__ import annotations

from twoslice.methods.base import Batch, Losses, Method
from twoslice.methods.supervision import drawn_dice, supervise
from twoslice.settings import Settings


class Supervised(Method):
    """One network; `sparse`: loss on the drawn voxels only, as an ignore label gives it;
    `dense`: every plane's pseudo labels taken as labels; `full`: the fully supervised bound.
    """

    @classmethod
    def learns_from_unlabeled(cls, settings: Settings) -> bool:
        """It does not."""
        return False

    def losses(self, batch: Batch, progress: float) -> Losses:
        """Eq. 5 with weight 1 on every labelled voxel, the mean over the views."""
        scores = self.networks[0](batch.labeled)
        losses = Losses()
        losses.add(supervised=supervise(scores, batch.views))
        losses.log(dice_drawn=drawn_dice(scores, batch.views))
        return losses
