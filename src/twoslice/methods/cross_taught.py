"""Two networks that teach each other by their hard labels: what CPS and CTBCT share."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from twoslice.abreast import abreast
from twoslice.methods.base import Batch, Losses, Method
from twoslice.methods.supervision import drawn_dice, hard_labels, supervise
from twoslice.objectives.schedules import cross_weight


class CrossTaught(Method):
    """Both learn from all labels; λ times `teach` is what each learns from the other."""

    trained: ClassVar[int] = 2

    def losses(self, batch: Batch, progress: float) -> Losses:
        """Eq. 5 on the labels, and the peer's hard labels on what `teach` chooses."""
        trust = cross_weight(progress, full=self.settings.semi.weight)
        images = batch.images
        scores = abreast([partial(network, images) for network in self.networks], images.device)
        losses = Losses()
        for index, (own, peer) in enumerate(zip(scores, reversed(scores), strict=True)):
            labeled = own[: batch.sizes[0]]
            cross = self.teach(own, hard_labels(peer), unlabeled=batch.sizes[1])
            losses.add(index, supervised=supervise(labeled, batch.views), cross=trust * cross)
        losses.log(trust=trust, dice_drawn=drawn_dice(scores[0][: batch.sizes[0]], batch.views))
        return losses

    @abstractmethod
    def teach(
        self,
        scores: Float[Tensor, "B C I J K"],
        pseudo: Int[Tensor, "B I J K"],
        *,
        unlabeled: int,
    ) -> Float[Tensor, ""]:
        """The loss to the peer's labels; the last `unlabeled` patches are the unlabelled ones."""
