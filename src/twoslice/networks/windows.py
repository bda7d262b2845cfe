"""Windows over a volume: which size fits the memory, and their results put together slab by slab.

The Gaussian weight of a window is a product of one weight an axis. So windows are blended in the
plane first, by MONAI's sliding window, and then along the longest axis, of which only the slices
still under some window are held: the same average as over the whole volume, in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from twoslice.networks.build import NetworkPlan

Triple = tuple[int, int, int]
WindowChoice = Literal["auto", "whole", "patch", "paper"]
Blend = Literal["gaussian", "constant"]

MOST_BYTES = 2 * 2**30
"""For the network's own feature maps, however much is free: with a scan of 512×512×600, its
intensities and its probabilities all of it then stays under 6 GB, and results do not depend on
the machine unless it is a small one."""
_MOST_HELD = 2**30
"""For the slices that wait for their last window: these and the window's own, along one axis."""
_SHARE, _SHARE_HELD = 0.4, 0.2
_PAPER_PATCH, _PAPER_STRIDE = (112, 112, 80), (18, 18, 4)
_STEP = 16
_SIGMA = 0.125  # of a window's side, as MONAI and nnU-Net have it
_FLOOR = 1e-3  # of a Gaussian's height: far corners keep a say where no other window reaches
_LIVE_MAPS = 6
"""Feature maps of full size that live at once; measured 4.2 to 4.9 (docs/LOG.md), with a margin."""


@dataclass(frozen=True)
class Window:
    """What goes through the network at once, how far the next one is, and how they are averaged."""

    size: Triple
    stride: Triple
    blend: Blend = "gaussian"


class Slab(NamedTuple):
    """Finished slices `start` up to `stop` along one axis, all of the other two: (C, I, J, K)."""

    start: int
    stop: int
    maps: Tensor


def choose_window(
    choice: WindowChoice,
    shape: Triple,
    patch: Triple,
    network: NetworkPlan,
    *,
    memory: int,
    maps: int = 2,
) -> Window:
    """The window for a volume of `shape`, when `memory` bytes are free on the device and `maps`
    numbers a voxel come out.

    `auto`: the whole volume where that fits, else the largest window that does. Networks with
    instance norm take their statistics from what they see, so for them a larger field than in
    training is another thing (one seed of phantoms: 79.0 Dice in one pass, 80.3 in windows of the
    patch's size); they get patches.
    """
    if choice == "paper":
        return Window(patch, paper_stride(patch), "constant")
    half = _triple(max(1, side // 2) for side in patch)
    if choice == "patch":
        return Window(patch, half)
    whole = _triple(map(max, shape, patch))
    fixed = network.normalisation in ("batch", "none")
    if choice == "whole" or _voxels(shape) <= _voxels(patch):
        return Window(whole, whole)
    if not fixed:
        return Window(patch, half)
    most = min(MOST_BYTES, int(_SHARE * memory)) // bytes_per_voxel(network)
    if _voxels(whole) <= most:
        return Window(whole, whole)
    axis = shape.index(max(shape))
    held = min(_MOST_HELD, int(_SHARE_HELD * memory))
    deepest = int(held // (8 * maps * _voxels(shape) // shape[axis]))
    limits = [*whole]
    limits[axis] = min(whole[axis], max(patch[axis], deepest))
    grown = _grown(patch, _triple(limits), most)
    size = _triple(_snug(*sides) for sides in zip(grown, whole, patch, half, strict=True))
    # Half a patch of overlap, whatever the window: each voxel is then a quarter of a patch or
    # more away from the border of some window that holds it.
    stride = _triple(side - back for side, back in zip(size, half, strict=True))
    return Window(size, stride)


def paper_stride(patch: Triple) -> Triple:
    """18, 18, 4 for the paper's patch of 112×112×80; the same shares of other patches."""
    shares = (step / side for step, side in zip(_PAPER_STRIDE, _PAPER_PATCH, strict=True))
    return _triple(max(1, round(side * share)) for side, share in zip(patch, shares, strict=True))


def bytes_per_voxel(network: NetworkPlan) -> int:
    """Memory of one pass, a voxel: feature maps at full size, scores and probabilities."""
    return 4 * (network.filters * _LIVE_MAPS + 4 * network.classes)


def window_bytes(
    window: Window, shape: Triple, axis: int, network: NetworkPlan, *, maps: int
) -> int:
    """Memory of a sweep along `axis` at its highest: a window in the network, and the slices under
    a row of windows, once as sums, once as they come, and once on their way out.
    """
    plane = _voxels(shape) // shape[axis]
    depth = min(window.size[axis], shape[axis])
    return _voxels(window.size) * bytes_per_voxel(network) + 12 * maps * plane * depth


def sweep(
    function: Callable[[Tensor], Tensor], image: Tensor, window: Window, *, axis: int
) -> Iterator[Slab]:
    """`function` over every window of `image` (1, C, I, J, K), averaged; slabs along `axis`.

    `function` takes (1, C, i, j, k) and gives (1, D, i, j, k). Slabs come in order, without gap
    or overlap, on the device of `image`.
    """
    image = _at_least(image, window.size)
    side, length = window.size[axis], image.shape[axis + 2]
    if side == length:
        yield Slab(0, length, _in_plane(function, image, window, axis)[0])
        return
    starts = [*range(0, length - side, window.stride[axis]), length - side]
    weight = _profile(side, window.blend).to(image.device)
    weight = weight.view([-1 if dim == axis + 1 else 1 for dim in range(4)])
    total: Tensor | None = None
    for start, following in zip(starts, [*starts[1:], length], strict=True):
        part = _in_plane(function, image.narrow(axis + 2, start, side), window, axis)[0]
        if total is None:
            total, weights = torch.zeros_like(part), torch.zeros_like(weight)
        total += part.mul_(weight)
        weights += weight
        ready = following - start
        done, counted = (each.narrow(axis + 1, 0, ready) for each in (total, weights))
        yield Slab(start, following, done / counted)
        if ready < side:
            total, weights = (_shifted(each, ready, axis + 1) for each in (total, weights))


def _in_plane(
    function: Callable[[Tensor], Tensor], image: Tensor, window: Window, axis: int
) -> Tensor:
    """MONAI's sliding window over the two axes that are not `axis`."""
    sides = tuple(image.shape[2:])
    if sides == window.size:
        return function(image)
    from monai.inferers import sliding_window_inference

    profiles = [
        torch.ones(side) if dim == axis else _profile(side, window.blend)
        for dim, side in enumerate(window.size)
    ]
    weight = torch.einsum("i,j,k->ijk", *profiles).to(image.device)
    # MONAI takes shares and rounds down; half a voxel more keeps the stride a whole number.
    overlap = [
        0.0 if dim == axis else max(0.0, 1 - (step + 0.5) / side)
        for dim, (step, side) in enumerate(zip(window.stride, window.size, strict=True))
    ]
    joined: Tensor = sliding_window_inference(
        image, window.size, 1, function, overlap=overlap, roi_weight_map=weight
    )
    return joined


def _profile(side: int, blend: Blend) -> Tensor:
    """The weight of a window along one of its axes."""
    if blend == "constant":
        return torch.ones(side)
    from_middle = torch.arange(side) - (side - 1) / 2
    return torch.exp(-0.5 * (from_middle / (_SIGMA * side)) ** 2).clamp_min(_FLOOR)


def _shifted(tensor: Tensor, by: int, dim: int) -> Tensor:
    """The tensor moved down by `by` along `dim`, in place; zeros come after."""
    kept = tensor.shape[dim] - by
    for start in range(0, kept, by):  # pieces that do not overlap with where they go
        size = min(by, kept - start)
        tensor.narrow(dim, start, size).copy_(tensor.narrow(dim, start + by, size))
    tensor.narrow(dim, kept, by).zero_()
    return tensor


def _at_least(image: Tensor, size: Triple) -> Tensor:
    """The image grown at its far sides to at least the size of a window, the border repeated."""
    i, j, k = (max(0, side - have) for side, have in zip(size, image.shape[2:], strict=True))
    if not any((i, j, k)):
        return image
    return torch.nn.functional.pad(image, (0, k, 0, j, 0, i), mode="replicate")


def _grown(patch: Triple, whole: Triple, most: int) -> Triple:
    """The patch with its sides lengthened in turn while the window stays within `most` voxels."""
    size = list(patch)
    growing = [axis for axis in range(3) if size[axis] < whole[axis]]
    while growing:
        axis = min(growing, key=lambda each: size[each] / patch[each])
        longer = [*size]
        longer[axis] = min(size[axis] + _STEP, whole[axis])
        if _voxels(longer) > most:
            growing.remove(axis)
            continue
        size = longer
        if size[axis] == whole[axis]:
            growing.remove(axis)
    return size[0], size[1], size[2]


def _snug(side: int, whole: int, patch: int, overlap: int) -> int:
    """The shortest side that covers an axis in as many windows; the network halves it four times,
    so a multiple of 16.
    """
    if side >= whole:
        return side
    count = -(-(whole - side) // (side - overlap)) + 1
    shortest = -(-(whole + (count - 1) * overlap) // count)
    return min(side, max(patch, -(-shortest // _STEP) * _STEP))


def _voxels(sides: Sequence[int]) -> int:
    return sides[0] * sides[1] * sides[2]


def _triple(sides: Iterable[int]) -> Triple:
    i, j, k = sides
    return i, j, k
