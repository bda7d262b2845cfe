"""Labels that change where the image does: a pairwise loss between neighbouring voxels."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from twoslice.objectives.everywhere import sum_everywhere

OFFSETS = (
    *((1, 0, 0), (0, 1, 0), (0, 0, 1), (2, 0, 0), (0, 2, 0), (0, 0, 2)),
    *((1, 1, 0), (1, -1, 0), (1, 0, 1), (1, 0, -1), (0, 1, 1), (0, 1, -1)),
)
"""The neighbours of a voxel, each pair once: along the axes one and two away, and diagonal."""


def edge_loss(
    logits: Float[Tensor, "B C I J K"],
    images: Float[Tensor, "B C2 I J K"],
    spread: float,
) -> Float[Tensor, ""]:
    """Σ exp(−Δ² / 2 spread²) · (1 − Σ p p') over pairs of neighbours whose intensities differ by Δ,
    for each target voxel and offset: how much of a target's outline runs through tissue that looks
    the same on both sides. It asks for no label, so it holds far from the drawn slices too.
    """
    p = logits.softmax(dim=1)
    size = sum_everywhere(p[:, 1:].detach().sum()).clamp_min(1.0)
    summed = logits.new_zeros(())
    for offset in OFFSETS:
        here, there = _pair(offset, images.shape[2:])
        apart = (images[here] - images[there]).square().mean(dim=1)
        alike = torch.exp(apart / (-2 * spread**2))
        summed = summed + (alike * (1.0 - (p[here] * p[there]).sum(dim=1))).sum()
    return sum_everywhere(summed) / (size * len(OFFSETS))


def _pair(offset: tuple[int, ...], sides: torch.Size) -> tuple[tuple[slice, ...], ...]:
    """Where the first and where the second voxels of all pairs lie."""
    every = (slice(None), slice(None))
    first = (slice(max(0, -o), max(0, n - max(0, o))) for o, n in zip(offset, sides, strict=True))
    second = (slice(max(0, o), max(0, n - max(0, -o))) for o, n in zip(offset, sides, strict=True))
    return (*every, *first), (*every, *second)
