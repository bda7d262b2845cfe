"""Slice weights: how much a voxel of a label view is trusted, from its distance (Eq. 2)."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

NEVER = 32767
"""The distance of a voxel without any label (ignored, or outside the scan): its weight is 0."""


def slice_weight(distance: Int[Tensor, "B I J K"], decay: float) -> Float[Tensor, "B I J K"]:
    """α ** distance: 1 on every drawn voxel also at α = 0, and 0 where nothing is known."""
    known = distance != NEVER
    steps = distance.float()
    return known.float() * (decay**steps)
