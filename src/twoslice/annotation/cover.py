"""The fewest slices that hold every painted voxel: an exact search.

A painted voxel lies on three slices, one in each plane, and any cover has at least one of them.
So branching on one uncovered voxel after the other visits every smallest cover: at most 3 ** n
branches for n slices, and nearly all of them end at once, since what is left must fit on the
slices that may still be taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from twoslice.planes import Plane

Slot = tuple[Plane, int]
"""Where a slice lies: its plane and its index in the RAS volume."""

_Voxels = NDArray[np.intp]


def smallest_covers(
    painted: NDArray[np.bool_], *, planes: Sequence[Plane] = tuple(Plane), at_most: int
) -> list[tuple[Slot, ...]]:
    """All sets of slices of the least size, up to `at_most`, that hold every painted voxel."""
    voxels = np.argwhere(painted)
    for size in range(at_most + 1):
        covers = {frozenset(cover) for cover in _covers(voxels, planes, size)}
        if covers:
            return sorted(tuple(sorted(cover)) for cover in covers)
    return []


def _covers(voxels: _Voxels, planes: Sequence[Plane], size: int) -> Iterator[tuple[Slot, ...]]:
    """Every cover of `voxels` by `size` slices that the branching reaches."""
    if len(voxels) == 0:
        yield ()
        return
    fullest = max(int(np.bincount(voxels[:, plane.axis]).max()) for plane in planes)
    if len(voxels) > size * fullest:
        return
    for plane in planes:
        index = int(voxels[0, plane.axis])
        left = voxels[voxels[:, plane.axis] != index]
        for rest in _covers(left, planes, size - 1):
            yield ((plane, index), *rest)
