"""What the methods share where labels are concerned."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from twoslice.methods.base import View
from twoslice.objectives.agreement import hard_dice
from twoslice.objectives.losses import segmentation_loss
from twoslice.objectives.weights import slice_weight


def supervise(scores: Float[Tensor, "B C I J K"], views: Sequence[View]) -> Float[Tensor, ""]:
    """Eq. 5 with weight 1 on every labelled voxel, the mean over the views."""
    terms = [
        segmentation_loss(scores, view.label, slice_weight(view.distance, 1.0)) for view in views
    ]
    return torch.stack(terms).mean()


def drawn_dice(scores: Float[Tensor, "B C I J K"], views: Sequence[View]) -> float:
    """Dice on the drawn voxels, which are the same in every view; for the curves."""
    return hard_dice(scores, views[0].label, views[0].distance == 0)


def hard_labels(scores: Float[Tensor, "B C I J K"]) -> Int[Tensor, "B I J K"]:
    """The likeliest class of every voxel, which carries no gradient."""
    return scores.detach().max(dim=1).indices  # faster than argmax on a CPU
