"""Patches of any size: padded up to the network's stride on the way in, cut back on the way out."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

Triple = tuple[int, int, int]


def pad_to_multiple(x: Tensor, multiple: Triple) -> Tensor:
    """`x` (B, C, I, J, K) with its far sides grown to a multiple, the border voxels repeated."""
    missing = [-side % step for side, step in zip(x.shape[2:], multiple, strict=True)]
    if not any(missing):
        return x
    i, j, k = missing
    return F.pad(x, (0, k, 0, j, 0, i), mode="replicate")


def crop_to(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The first `shape` voxels of each of the last three axes."""
    i, j, k = shape
    return x[..., :i, :j, :k]
