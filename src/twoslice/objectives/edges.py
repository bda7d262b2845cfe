"""Labels that change where the image does: a pairwise loss between neighbouring voxels."""

from __future__ import annotations

from typing import Any

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
    p = logits.softmax(dim=1).contiguous()  # class by class takes half the time of channels last
    size = sum_everywhere(p[:, 1:].detach().sum()).clamp_min(1.0)
    summed: Tensor = _Outlines.apply(p, images, spread)  # type: ignore[no-untyped-call]
    return sum_everywhere(summed) / (size * len(OFFSETS))


class _Outlines(torch.autograd.Function):
    """The sum over pairs. Its gradient is a sum over the same pairs, Σ −alike · p' for each voxel,
    so both are found on the way and nothing of a pair is kept.
    """

    @staticmethod
    def forward(ctx: Any, p: Tensor, images: Tensor, spread: float) -> Tensor:
        summed, gradient = p.new_zeros(()), torch.zeros_like(p)
        images = images.contiguous()
        for offset in OFFSETS:
            here, there = _pair(offset, p.shape[2:])
            apart = (images[here] - images[there]).square_().mean(dim=1, keepdim=True)
            alike = apart.mul_(-0.5 / spread**2).exp_()
            agreed = torch.zeros_like(alike)
            for c in range(p.shape[1]):
                first, second = p[:, c : c + 1][here], p[:, c : c + 1][there]
                agreed.addcmul_(first, second)
                gradient[:, c : c + 1][here].addcmul_(alike, second, value=-1.0)
                gradient[:, c : c + 1][there].addcmul_(alike, first, value=-1.0)
            summed += alike.mul_(agreed.neg_().add_(1.0)).sum()
        ctx.save_for_backward(gradient)
        return summed

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * outer[0], None, None


def _pair(offset: tuple[int, ...], sides: torch.Size) -> tuple[tuple[slice, ...], ...]:
    """Where the first and where the second voxels of all pairs lie."""
    every = (slice(None), slice(None))
    first = (slice(max(0, -o), max(0, n - max(0, o))) for o, n in zip(offset, sides, strict=True))
    second = (slice(max(0, o), max(0, n - max(0, -o))) for o, n in zip(offset, sides, strict=True))
    return (*every, *first), (*every, *second)
