"""Entropy minimisation (Grandvalet & Bengio, 2004): be sure of what nobody labelled.

One network. On labelled patches it learns as every method does; on unlabelled ones it is asked to
make up its mind: λ times the mean entropy of its softmax.
"""

from __future__ import annotations

from twoslice.methods.base import Batch, Losses, Method
from twoslice.methods.registry import METHODS
from twoslice.methods.supervision import drawn_dice, supervise
from twoslice.objectives.schedules import cross_weight
from twoslice.objectives.uncertainty import softmax_entropy


class EntropyMinimisation(Method):
    """Supervised learning, and sharp predictions on unlabelled patches."""

    def losses(self, batch: Batch, progress: float) -> Losses:
        """Eq. 5 on the labels, and λ times the mean entropy elsewhere."""
        labeled, unlabeled = self.networks[0](batch.images).split(batch.sizes)
        doubt = softmax_entropy(unlabeled).mean()
        trust = cross_weight(progress, full=self.settings.semi.weight)
        losses = Losses()
        losses.add(supervised=supervise(labeled, batch.views), entropy=trust * doubt)
        losses.log(trust=trust, doubt=float(doubt.detach()))
        losses.log(dice_drawn=drawn_dice(labeled, batch.views))
        return losses


METHODS["entropy"] = EntropyMinimisation

if __name__ == "__main__":  # python entropy.py DATASET RUN
    import sys
    from pathlib import Path

    import twoslice

    dataset, run = map(Path, sys.argv[1:])
    twoslice.train(twoslice.Dataset.open(dataset), run, twoslice.load_settings(method="entropy"))
