"""CPS: cross pseudo supervision (Chen et al., CVPR 2021)."""

from __future__ import annotations

import torch
from torch import Tensor

from twoslice.methods.cross_taught import CrossTaught
from twoslice.objectives.losses import cross_supervision


class CrossPseudoSupervision(CrossTaught):
    """Two networks of one kind that began differently; each learns the other's hard labels by
    cross entropy, on labelled and unlabelled patches alike.
    """

    def teach(self, scores: Tensor, pseudo: Tensor, *, unlabeled: int) -> Tensor:
        """Cross entropy on the whole batch."""
        return cross_supervision(scores, pseudo, torch.ones_like(pseudo, dtype=torch.bool))
