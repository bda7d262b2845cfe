"""Boxes in a RAS volume: where the body or a target lies, cut out, and brought to a voxel count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from twoslice.io.grid import Grid, Shape

_COARSE = 4
"""The body is sought on every fourth voxel: its box is as good, in a sixtieth of the time."""


@dataclass(frozen=True)
class Box:
    """Voxels from `low` up to but not including `high`, along I, J, K."""

    low: Shape
    high: Shape

    @property
    def shape(self) -> Shape:
        """Voxels along I, J, K."""
        i, j, k = (high - low for low, high in zip(self.low, self.high, strict=True))
        return i, j, k

    @property
    def slices(self) -> tuple[slice, slice, slice]:
        """As an index of an array."""
        i, j, k = (slice(low, high) for low, high in zip(self.low, self.high, strict=True))
        return i, j, k

    def grown(self, margin: Sequence[int], *, within: Shape, least: Sequence[int]) -> Box:
        """`margin` more voxels at each side, and as many as it takes to be `least` wide, as far as
        the scan goes.
        """
        low, high = [], []
        for a, b, more, end, side in zip(self.low, self.high, margin, within, least, strict=True):
            more += max(0, side - (b - a)) // 2
            low.append(max(0, a - more))
            high.append(min(end, b + more))
        return _box(low, high)


def whole(shape: Shape) -> Box:
    """All of a scan."""
    return Box((0, 0, 0), shape)


def box_of(mask: NDArray[np.bool_]) -> Box | None:
    """The smallest box that holds every true voxel; None if there is none."""
    low, high = [], []
    for axis in range(3):
        others = tuple(other for other in range(3) if other != axis)
        places = np.flatnonzero(mask.any(axis=others))
        if not places.size:
            return None
        low.append(int(places[0]))
        high.append(int(places[-1]) + 1)
    return _box(low, high)


def body_box(data: NDArray[np.float32], *, above: float) -> Box:
    """The box of the largest connected piece brighter than `above`; all of the scan if none is."""
    coarse = data[::_COARSE, ::_COARSE, ::_COARSE] > above
    opened = ndimage.binary_opening(coarse, np.ones((3, 3, 1), bool))  # cuts thin ties to the table
    pieces, count = cast(tuple[NDArray[np.int32], int], ndimage.label(opened))
    shape: Shape = (data.shape[0], data.shape[1], data.shape[2])
    if not count:
        return whole(shape)
    sizes = np.bincount(pieces.ravel())
    found = box_of(pieces == 1 + int(sizes[1:].argmax()))
    assert found is not None
    low = [_COARSE * place for place in found.low]
    return _box(low, [min(_COARSE * p, side) for p, side in zip(found.high, shape, strict=True)])


def cut(grid: Grid, box: Box) -> Grid:
    """The grid of a box of a RAS grid."""
    affine = grid.affine.copy()
    affine[:3, 3] = (grid.affine @ [*box.low, 1.0])[:3]
    return Grid(box.shape, affine)


def resample(data: NDArray[Any], shape: Shape, *, linear: bool) -> NDArray[Any]:
    """Voxels over the same extent, `shape` many: linear for images, the nearest for labels."""
    if data.shape == shape:
        return data
    step = np.array(data.shape) / np.array(shape)
    out: NDArray[Any] = ndimage.affine_transform(
        data,
        np.diag(step),
        offset=(step - 1) / 2,
        output_shape=shape,
        order=1 if linear else 0,
        mode="nearest",
    )
    return out


def resampled_grid(grid: Grid, shape: Shape) -> Grid:
    """The grid of the same extent in `shape` voxels."""
    step = np.array(grid.shape) / np.array(shape)
    inner = np.eye(4)
    inner[:3, :3] = np.diag(step)
    inner[:3, 3] = (step - 1) / 2
    return Grid(shape, grid.affine @ inner)


def _box(low: Sequence[int], high: Sequence[int]) -> Box:
    return Box((low[0], low[1], low[2]), (high[0], high[1], high[2]))
