"""DeSCO: dense-sparse co-training (Cai et al., CVPR 2023)."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from twoslice.abreast import abreast
from twoslice.methods.base import Batch, Losses, Method, view_of
from twoslice.objectives import schedules
from twoslice.objectives.agreement import hard_dice
from twoslice.objectives.losses import cross_supervision, segmentation_loss
from twoslice.objectives.uncertainty import entropy, monte_carlo_probabilities, softmax_entropy
from twoslice.objectives.weights import slice_weight
from twoslice.settings import Settings


class Desco(Method):
    """Two networks, each taught by one plane's labels and by its peer.

    The dense pseudo labels lead at first; their weight α ** distance then falls to the drawn
    slices alone, while the cross supervision on unlabelled scans grows (Eq. 7).
    """

    trained: ClassVar[int] = 2

    @classmethod
    def planes_needed(cls, settings: Settings) -> int:
        """Two, one for each network; the drawn slices alone ask for nothing."""
        return 2 if cls.label_source(settings) == "planes" else 1

    def losses(self, batch: Batch, progress: float) -> Losses:
        """Eq. 7 for both networks: (1 − λ) supervised + λ cross supervision."""
        trust, images = self.cross_weight(progress), batch.images
        jobs = [partial(network, images) for network in self.networks]
        scores = [out.split(batch.sizes) for out in abreast(jobs, images.device)]
        learning = [partial(self.learn, index, scores, batch, progress) for index in range(2)]
        losses = Losses()
        shares, dices = [], []
        for index, learned in enumerate(abreast(learning, images.device)):
            supervised, cross, share, dice = learned
            losses.add(index, supervised=(1 - trust) * supervised, cross=trust * cross)
            shares.append(share)
            dices.append(dice)
        losses.log(
            alpha=self.slice_decay(progress),
            trust=trust,
            mask_fraction=sum(shares) / 2,
            dice_drawn=sum(dices) / 2,
        )
        return losses

    def learn(
        self, index: int, scores: list[tuple[Tensor, Tensor]], batch: Batch, progress: float
    ) -> tuple[Tensor, Tensor, float, float]:
        """Network `index`: its loss to the labels of its plane and to its peer, the share of voxels
        of which the peer is certain, and the Dice where somebody drew.
        """
        (labeled, unlabeled), view, peer = scores[index], view_of(batch, index), 1 - index
        weight = slice_weight(view.distance, self.slice_decay(progress))
        supervised = segmentation_loss(labeled, view.label, weight)
        pseudo, certain = self.teach(peer, scores[peer][1].detach(), batch.unlabeled, progress)
        cross = cross_supervision(unlabeled, pseudo, certain)
        dice = hard_dice(labeled, view.label, view.distance == 0)
        return supervised, cross, float(certain.float().mean()), dice

    def teach(
        self, teacher: int, scores: Tensor, image: Tensor, progress: float
    ) -> tuple[Tensor, Tensor]:
        """The teacher's hard labels on `image`, and the voxels where it is certain enough.

        `scores` are those the teacher gave for the same patches as a learner; unless passes are
        shared, it looks at them once more, by themselves, as the paper's training does.
        """
        options = self.settings.desco
        if not options.shared_pass:
            with torch.no_grad():
                scores = self.networks[teacher](image)
        pseudo = scores.max(dim=1).indices  # faster than argmax on a CPU
        if not options.uncertainty_mask:
            return pseudo, torch.ones_like(pseudo, dtype=torch.bool)
        if options.passes > 1:
            mean = monte_carlo_probabilities(self.networks[teacher], image, passes=options.passes)
            uncertainty = entropy(mean)
        else:
            uncertainty = softmax_entropy(scores)
        limit = schedules.uncertainty_threshold(progress, classes=self.classes)
        return pseudo, uncertainty < limit

    def slice_decay(self, progress: float) -> float:
        """α at this point of the training, as the ablation's switches have it."""
        options = self.settings.desco
        if not options.slice_weights:
            return 1.0 if not options.dense_to_sparse else float(progress < 0.5)
        if not options.dense_to_sparse:
            return options.decay
        return schedules.slice_decay(progress, start=options.decay)

    def cross_weight(self, progress: float) -> float:
        """λ at this point of the training; its final value throughout without the ramp."""
        full = self.settings.desco.cross_weight
        if not self.settings.desco.cross_ramp:
            return full
        return schedules.cross_weight(progress, full=full)
