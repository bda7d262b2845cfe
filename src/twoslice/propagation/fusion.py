"""The fused view: what all planes together say of each voxel.

Each plane's log odds count by α ** distance to its source slice, with the decay α that the
self-check measured on this scan and plane, so the plane that is nearer and held better decides;
and, class by class, by how much of the class its drawn slices show: a slice that grazes an organ
knows little of it. Intensity has a smaller say. A smoothing of at most one voxel lets neighbours
agree. Which part of a body a voxel belongs to, where labels meet, is said by its place (`parting`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from twoslice.planes import Plane
from twoslice.propagation.intensity import Appearance
from twoslice.propagation.operators import gaussian_matrix
from twoslice.propagation.parting import Parting

# Measured on LA, Hippocampus and BTCV together. A weight learned for each scan from its drawn
# slices jumped between 0 and 1 and was worse on every set (docs/LOG.md).
_INTENSITY = 0.3
_SMOOTHING = 1.0
_SMOOTHING_SHARE = 1 / 30  # of the smallest class's radius: what suits an atrium erases a sliver
_SLAB = 24
_SURE = 6.0  # radius in voxels at which the probabilities' own Dice needs no scaling
_FAINT = 0.02  # a probability below this is the floor of the log odds, not a belief


@dataclass(frozen=True, eq=False)
class Carried:
    """One plane's result: log odds (N, classes - 1, H, W) as float16, slices to the source (N),
    and the trust in each class (classes - 1).
    """

    plane: Plane
    odds: Tensor
    away: Tensor
    decay: float
    trust: Tensor

    def slab(self, axis: int, where: slice) -> Tensor:
        """(S, classes - 1, rows, columns): slices of the plane across `axis`, in float32."""
        return _across(self.odds, self.plane.axis, axis)[where].float()

    def weight(self, axis: int, where: slice) -> Tensor:
        """Trust · α ** distance, to be multiplied with the same slab."""
        weight = (self.decay ** self.away.float()).view(-1, 1, 1, 1) * self.trust.view(1, -1, 1, 1)
        turned = _across(weight, self.plane.axis, axis)
        return turned[where] if axis == self.plane.axis else turned


def _across(slices: Tensor, own: int, axis: int) -> Tensor:
    """Slices (N, C, H, W) stacked along volume axis `own`, seen as stacked along `axis`."""
    volume = slices.movedim(1, 0).movedim(1, 1 + own)
    return volume.movedim(1 + axis, 0)


@dataclass(frozen=True, eq=False)
class Fused:
    """The fused classes (I, J, K), and the Dice to expect of each class; None for an absent one.

    Were the fused probabilities true, 2 Σ p·y / (Σ p + Σ y) would be the Dice of the label y. They
    are not quite: doubt reaches a few voxels, while true errors grow with the object. So what is
    missing to 1 is scaled by the root of the class's radius (docs/results.md has how well it fits).
    """

    label: NDArray[np.uint8]
    expected: tuple[float | None, ...]


def _belief(odds: Tensor, label: Tensor) -> NDArray[np.float64]:
    """(2, classes - 1): Σ p·y and Σ p + Σ y of a slab."""
    soft = _soft(odds)[:, 1:]
    soft = torch.where(soft < _FAINT, 0, soft)
    rows = []
    for value in range(soft.shape[1]):
        chosen = label == value + 1
        one = soft[:, value].double()
        rows.append([float(one[chosen].sum()), float(one.sum()) + float(chosen.sum())])
    return np.array(rows).T


def _expected(sums: NDArray[np.float64], radii: Sequence[float]) -> tuple[float | None, ...]:
    """The Dice to expect of each class, doubt growing with the root of its radius."""
    shared, whole = sums
    return tuple(
        float(max(0.0, 1 - (1 - 2 * a / b) * math.sqrt(radius / _SURE))) if b > 0 else None
        for a, b, radius in zip(shared, whole, radii, strict=True)
    )


def fuse(
    planes: Sequence[Carried],
    slices: Tensor,
    *,
    appearance: Appearance | None,
    radii: Sequence[float],
    spacing: tuple[float, float, float],
    partings: Sequence[Parting] = (),
) -> Fused:
    """All planes' say on each voxel. `slices` is the first plane's stack of the normalized image,
    `radii` the classes' in voxels.

    Slab by slab, so that memory hardly grows with the number of classes.
    """
    first = planes[0].plane
    sigma = min(_SMOOTHING, _SMOOTHING_SHARE * min(radii))
    sigmas = [sigma * min(spacing) / side for side in spacing]
    halo = int(np.ceil(3 * _SMOOTHING))
    total = len(slices)
    label = np.empty((total, *slices.shape[-2:]), dtype=np.uint8)
    sums = np.zeros((2, planes[0].odds.shape[1]))
    for start in range(0, total, _SLAB):
        low, high = max(0, start - halo), min(total, start + _SLAB + halo)
        odds = _weighted(planes, first.axis, slice(low, high))
        if appearance is not None:
            odds = odds + _INTENSITY * appearance.evidence(slices[low:high].contiguous())
        if sigma > 0.3:  # below, a Gaussian's neighbours weigh nothing
            odds = _smooth(odds, first.axis, sigmas)
        stop = min(total, start + _SLAB)
        kept = odds[start - low : stop - low]
        for parting in partings:
            kept = parting.settle(kept, first.axis, start)
        found = classify(kept)
        label[start:stop] = found.numpy()
        sums += _belief(kept, found)
    return Fused(np.ascontiguousarray(first.unstack(label)), _expected(sums, radii))


def classify(odds: Tensor) -> Tensor:
    """The likeliest class of (N, classes - 1, H, W) log odds; background where none is above 0."""
    label = torch.empty(len(odds), *odds.shape[2:], dtype=torch.uint8)
    for start in range(0, len(odds), _SLAB):  # the indices that torch finds take 8 bytes each
        best, which = odds[start : start + _SLAB].max(1)
        label[start : start + _SLAB] = torch.where(best > 0, which + 1, 0)
    return label


def disagreement(one: Carried, other: Carried) -> NDArray[np.uint8]:
    """(I, J, K): percent of probability that two planes place on different classes."""
    axis = one.plane.axis
    total = len(one.odds)
    result: NDArray[np.uint8] | None = None
    for start in range(0, total, _SLAB):
        where = slice(start, min(total, start + _SLAB))
        apart = _soft(one.slab(axis, where)) - _soft(other.slab(axis, where))
        percent = (50 * apart.abs().sum(1)).round().to(torch.uint8).numpy()
        if result is None:
            result = np.empty((total, *percent.shape[1:]), dtype=np.uint8)
        result[where] = percent
    assert result is not None
    return np.ascontiguousarray(one.plane.unstack(result))


def _soft(odds: Tensor) -> Tensor:
    return torch.cat((torch.zeros_like(odds[:, :1]), odds), 1).softmax(1)


def _weighted(planes: Sequence[Carried], axis: int, where: slice) -> Tensor:
    weights = [plane.weight(axis, where) for plane in planes]
    odds = sum(
        weight * plane.slab(axis, where) for plane, weight in zip(planes, weights, strict=True)
    )
    assert isinstance(odds, Tensor)
    return odds / sum(weights)


def _smooth(odds: Tensor, axis: int, sigmas: Sequence[float]) -> Tensor:
    """Smooth along all three axes; a slab's ends are cut off by the caller."""
    rest = [sigma for number, sigma in enumerate(sigmas) if number != axis]
    rows = gaussian_matrix(odds.shape[-2], rest[0], odds.device)
    columns = gaussian_matrix(odds.shape[-1], rest[1], odds.device)
    through = gaussian_matrix(len(odds), sigmas[axis], odds.device)
    odds = rows @ (odds @ columns.T)
    return (through @ odds.flatten(1)).view_as(odds)
