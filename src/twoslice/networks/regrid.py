"""From slabs on the network's grid to slabs on the scan's: linear, a few slices at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from twoslice.networks.windows import Slab, Triple

_AT_ONCE = 64 * 2**20
"""Bytes of finished slices handed on at a time."""


def regrid(slabs: Iterable[Slab], *, source: Triple, target: Triple, axis: int) -> Iterator[Slab]:
    """The same maps over the same extent with `target` voxels, as one trilinear resampling of the
    whole would give them. Slabs come in order along `axis`; what lies past `source` is cut off.
    """
    if source == target:
        for slab in slabs:
            yield from _pieces(_cropped(slab, source, axis), axis)
        return
    low, high, share = _neighbours(source[axis], target[axis])
    held: Tensor | None = None
    first = done = 0  # the first slice that is held, and the next one to hand on
    for slab in slabs:
        _start, stop, maps = _cropped(slab, source, axis)
        held = maps if held is None else torch.cat([held, maps], dim=axis + 1)
        ready = int(torch.searchsorted(high, stop))
        step = max(1, _AT_ONCE // _slice_bytes(maps.shape[0], target, axis))
        for begin in range(done, ready, step):
            end = min(begin + step, ready)
            wanted = slice(begin, end)
            below, above = low[wanted] - first, high[wanted] - first
            near = held.narrow(axis + 1, int(below[0]), int(above[-1] - below[0]) + 1)
            wide = _in_plane(near, target, axis)
            ends = [torch.index_select(wide, axis + 1, at - below[0]) for at in (below, above)]
            weight = share[wanted].view([-1 if dim == axis + 1 else 1 for dim in range(4)])
            yield Slab(begin, end, torch.lerp(ends[0], ends[1], weight))
        done = ready
        if done < target[axis]:
            keep = min(int(low[done]), stop)  # a coarser grid may skip what is held altogether
            held = held.narrow(axis + 1, keep - first, stop - keep).clone()
            first = keep


def _neighbours(source: int, target: int) -> tuple[Tensor, Tensor, Tensor]:
    """For each target voxel the two source voxels around its centre, and the upper one's share."""
    centres = ((torch.arange(target, dtype=torch.float64) + 0.5) * source / target - 0.5).clamp_(0)
    low = centres.floor().long().clamp_max(source - 1)
    return low, (low + 1).clamp_max(source - 1), (centres - low).float()


def _in_plane(maps: Tensor, target: Triple, axis: int) -> Tensor:
    size = list(target)
    size[axis] = maps.shape[axis + 1]
    if list(maps.shape[1:]) == size:
        return maps
    return F.interpolate(maps[None], size=size, mode="trilinear", align_corners=False)[0]


def _cropped(slab: Slab, shape: Triple, axis: int) -> Slab:
    """Without the voxels that only filled up a window."""
    sides = list(shape)
    sides[axis] = max(0, min(slab.stop, shape[axis]) - slab.start)
    i, j, k = sides
    return Slab(slab.start, slab.start + sides[axis], slab.maps[:, :i, :j, :k])


def _pieces(slab: Slab, axis: int) -> Iterator[Slab]:
    step = max(1, _AT_ONCE // _slice_bytes(slab.maps.shape[0], slab.maps.shape[1:], axis))
    for begin in range(slab.start, slab.stop, step):
        end = min(begin + step, slab.stop)
        yield Slab(begin, end, slab.maps.narrow(axis + 1, begin - slab.start, end - begin))


def _slice_bytes(channels: int, shape: Iterable[int], axis: int) -> int:
    voxels = 1
    for dim, side in enumerate(shape):
        voxels *= 1 if dim == axis else side
    return 4 * channels * voxels
