"""Poses: where in a scan a patch is taken from, turned, scaled or mirrored, in one cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from twoslice.io.grid import Shape

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pose:
    """The patch voxel p (from the patch's middle) lies at `matrix @ p + centre` in the scan, moved
    by `bend` where there is one: offsets (3, n, n, n) in scan voxels on a lattice over the patch.
    """

    centre: NDArray[np.float64]
    matrix: Matrix
    bend: NDArray[np.float64] | None = None

    @property
    def exact(self) -> bool:
        """Only mirrored or turned by quarters: voxels are copied, none is interpolated."""
        if self.bend is not None:
            return False
        rounded = np.round(self.matrix)
        return bool(
            (rounded == self.matrix).all()
            and (np.abs(rounded).sum(axis=0) == 1).all()
            and (np.abs(rounded).sum(axis=1) == 1).all()
        )


def extent(matrix: Matrix, patch: Shape) -> NDArray[np.int64]:
    """Voxels that a turned patch takes up along each axis of the scan."""
    sides: NDArray[np.int64] = np.ceil(np.abs(matrix) @ np.array(patch) - 1e-6).astype(np.int64)
    return sides


def cut_image(array: NDArray[Any], pose: Pose, patch: Shape) -> Tensor:
    """A patch (C, I, J, K) of an image, linear between voxels; the border repeats outside."""
    if pose.exact:
        return _copy(array, pose, patch, outside=None)
    return _sample(array, pose, patch, mode="bilinear", outside=None)


def cut_labels(array: NDArray[Any], pose: Pose, patch: Shape, *, outside: int) -> Tensor:
    """A patch of whole numbers (C, I, J, K), the nearest voxel's; `outside` beyond the scan."""
    if pose.exact:
        return _copy(array, pose, patch, outside=outside)
    return _sample(array, pose, patch, mode="nearest", outside=outside)


def _copy(array: NDArray[Any], pose: Pose, patch: Shape, *, outside: int | None) -> Tensor:
    """Cut the box, then permute and mirror it: exact, and no arithmetic."""
    size = extent(pose.matrix, patch)
    start = np.round(pose.centre - (size - 1) / 2).astype(np.int64)
    box = _box(array, start, size, outside=outside)
    source = np.abs(pose.matrix).argmax(axis=0)  # patch axis -> scan axis
    turned = box.transpose(0, *(1 + source))
    mirrored = [1 + axis for axis in range(3) if pose.matrix[source[axis], axis] < 0]
    turned = np.flip(turned, mirrored) if mirrored else turned
    return torch.from_numpy(np.array(turned, dtype=np.float32, order="C"))


def _sample(
    array: NDArray[Any], pose: Pose, patch: Shape, *, mode: str, outside: int | None
) -> Tensor:
    """Cut the box that holds the turned patch, and look every patch voxel up in it."""
    size = extent(pose.matrix, patch) + 2
    if pose.bend is not None:
        size = size + 2 * np.ceil(np.abs(pose.bend).max(axis=(1, 2, 3))).astype(np.int64)
    start = np.floor(pose.centre - (size - 1) / 2).astype(np.int64)
    box = torch.from_numpy(_box(array, start, size, outside=outside).astype(np.float32))[None]
    half, span = (np.array(patch) - 1) / 2, (size - 1) / 2
    linear = pose.matrix * half[None, :] / span[:, None]
    offset = (pose.centre - start - span) / span
    theta = np.concatenate([linear, offset[:, None]], axis=1)
    theta = np.concatenate([theta[::-1, 2::-1], theta[::-1, 3:]], axis=1)  # torch counts K, J, I
    affine = torch.from_numpy(np.ascontiguousarray(theta, dtype=np.float32))[None]
    grid = F.affine_grid(affine, [1, 1, *patch], align_corners=True)
    if pose.bend is not None:
        offsets = pose.bend[::-1] / span[::-1, None, None, None]
        lattice = torch.from_numpy(offsets.astype(np.float32))[None]
        bent = F.interpolate(lattice, size=patch, mode="trilinear", align_corners=True)
        grid = grid + bent.movedim(1, -1)
    return F.grid_sample(box, grid, mode=mode, padding_mode="border", align_corners=True)[0]


def _box(
    array: NDArray[Any], start: NDArray[np.int64], size: NDArray[np.int64], *, outside: int | None
) -> NDArray[Any]:
    """The voxels from `start` on, of a (C, I, J, K) array; beyond it `outside`, or its border."""
    sides = np.array(array.shape[1:])
    first = np.clip(start, 0, sides - 1)
    last = np.clip(start + size, first + 1, sides)
    inner = array[:, first[0] : last[0], first[1] : last[1], first[2] : last[2]]
    before = np.clip(first - start, 0, size)
    after = size - before - (last - first)
    if not before.any() and not after.any():
        return inner
    missing = [(0, 0), *zip(before.tolist(), after.tolist(), strict=True)]
    if outside is None:
        return np.pad(inner, missing, mode="edge")
    return np.pad(inner, missing, constant_values=outside)
