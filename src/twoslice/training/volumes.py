"""From a scan to what the network sees: intensities made comparable, one voxel spacing, labels on
the same grid; and the way back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from twoslice.errors import ScanError
from twoslice.io.grid import Shape

LOW, HIGH = 0.5, 99.5
"""Percentiles that intensities are clipped to: a few bright voxels must not set the scale."""
_MOST_VOXELS = 2_000_000


def prepare_image(
    data: NDArray[np.float32],
    spacing: Sequence[float],
    target: Sequence[float] | None,
) -> NDArray[np.float32]:
    """An image (C, I, J, K) as the network takes it: resampled, clipped, z-scored by channel."""
    scaled = normalise_intensity(data)
    shape = shape_at(data.shape[1:], spacing, target)
    return resample_image(scaled, shape)


def normalise_intensity(data: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each channel clipped at its 0.5 and 99.5 percentile, then to mean 0 and deviation 1."""
    out = np.empty_like(data, dtype=np.float32)
    for index, channel in enumerate(data):
        every = max(1, round((channel.size / _MOST_VOXELS) ** (1 / 3)))
        low, high = np.percentile(channel[::every, ::every, ::every], [LOW, HIGH])
        clipped = np.clip(channel, low, high, out=out[index])  # in place: scans may fill the memory
        mean, deviation = moments(clipped)
        clipped -= mean
        clipped /= deviation if deviation > 0 else 1.0
    return out


def moments(channel: NDArray[np.float32]) -> tuple[float, float]:
    """Mean and deviation, or one line where 32 bits cannot hold their sums.

    Slice by slice: numpy's own deviation makes a copy of the whole scan on the way.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = channel.mean()
        squares = [np.square(part - mean).sum(dtype=np.float64) for part in channel]
        deviation = math.sqrt(sum(squares) / channel.size)
    if not math.isfinite(deviation):
        low, high = float(channel.min()), float(channel.max())
        raise ScanError(
            f"intensities from {low:.3g} to {high:.3g} are too large for 32-bit sums. Is the scan "
            f"damaged? If not, divide it by {max(-low, high):.0e} and try again."
        )
    return float(mean), deviation


def shape_at(
    shape: Sequence[int], spacing: Sequence[float], target: Sequence[float] | None
) -> Shape:
    """How many voxels a scan has at the target spacing; its own where there is no target."""
    if target is None:
        return shape[0], shape[1], shape[2]
    sides = [
        max(1, round(side * mm / wanted))
        for side, mm, wanted in zip(shape, spacing, target, strict=True)
    ]
    return sides[0], sides[1], sides[2]


def resample_image(data: NDArray[np.float32], shape: Shape) -> NDArray[np.float32]:
    """A (C, I, J, K) array brought to another voxel count over the same extent, linearly."""
    if data.shape[1:] == shape:
        return data
    tensor = torch.from_numpy(np.ascontiguousarray(data))[None]
    moved = F.interpolate(tensor, size=shape, mode="trilinear", align_corners=False)
    out: NDArray[np.float32] = moved[0].numpy()
    return out


def resample_view(
    label: NDArray[np.uint8], distance: NDArray[np.int16], shape: Shape
) -> tuple[NDArray[np.uint8], NDArray[np.int16]]:
    """A label view at another voxel count: nearest voxel; but no drawn voxel may fall between
    two new ones, so the drawn ones (distance 0) are carried over one by one as well.
    """
    if label.shape == shape:
        return label, distance
    sources = [_nearest(old, new) for old, new in zip(label.shape, shape, strict=True)]
    pick = np.ix_(*sources)
    new_label, new_distance = label[pick], distance[pick]
    drawn = np.nonzero(distance == 0)
    targets = tuple(
        _nearest(new, old)[index] for index, old, new in zip(drawn, label.shape, shape, strict=True)
    )
    between = new_distance[targets] != 0  # where the nearest voxel is drawn, it says it better
    targets, drawn = tuple(t[between] for t in targets), tuple(d[between] for d in drawn)
    new_label[targets] = label[drawn]
    new_distance[targets] = 0
    return new_label, new_distance


def resample_labels(labels: NDArray[np.uint8], shape: Shape) -> NDArray[np.uint8]:
    """Labels at another voxel count: those of the nearest voxel."""
    return labels[np.ix_(*map(_nearest, labels.shape, shape))]


def _nearest(old: int, new: int) -> NDArray[np.intp]:
    """For each of `new` voxels over an extent of `old` ones, the old one that holds its centre."""
    centres = (np.arange(new) + 0.5) * old / new
    return np.clip(centres.astype(np.intp), 0, old - 1)
