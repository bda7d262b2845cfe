"""Dice between label maps, on chosen voxels: for the training curves, never a loss."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@torch.no_grad()
def hard_dice(
    logits: Float[Tensor, "B C I J K"],
    label: Int[Tensor, "B I J K"],
    where: Bool[Tensor, "B I J K"],
) -> float:
    """Mean Dice of the foreground classes that show in `label` under `where`; NaN if none does."""
    predicted, known = logits.movedim(1, -1)[where].argmax(dim=-1), label[where]
    scores = []
    for index in range(1, logits.shape[1]):
        p, y = predicted == index, known == index
        if y.any():
            scores.append(2.0 * float((p & y).sum()) / float(p.sum() + y.sum()))
    return sum(scores) / len(scores) if scores else float("nan")
