"""Probes: one scan put to a run's networks in several ways, to see how firm the answer is.

Two networks, the scan moved by two voxels, and the scan mirrored left to right: where these answers
differ, no label is needed to know that something is doubtful. (Mirrored front to back or head to
foot, a hippocampus is no hippocampus any more: networks find nothing, and that says nothing.)
Everything stays on the networks' own grid and comes slab by slab, so that large scans need no more
memory than a prediction does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from twoslice.inference.volume import Predictor
from twoslice.io.volume import Volume
from twoslice.networks.windows import Triple, Window, sweep

_FEW_PATCHES = 4
SHIFT = 2
"""Voxels: less than any target, but another place on the grid of every halving."""


@dataclass(frozen=True)
class Probe:
    """A change of the image (B, C, I, J, K) and the way back for what the networks answer."""

    name: str
    change: Callable[[Tensor], Tensor]
    undo: Callable[[Tensor], Tensor]


def moved(image: Tensor, by: int) -> Tensor:
    """The image moved by some voxels along all three axes, its border repeated."""
    first, last = max(by, 0), max(-by, 0)
    padded = F.pad(image, (first, last) * 3, mode="replicate")
    i, j, k = image.shape[2:]
    return padded[:, :, last : last + i, last : last + j, last : last + k]


def mirrored(image: Tensor, axis: int) -> Tensor:
    """The image mirrored along one of its three axes."""
    return image.flip((axis + 2,))


PROBES = (
    Probe("shift", lambda image: moved(image, SHIFT), lambda maps: moved(maps, -SHIFT)),
    Probe("mirror", lambda image: mirrored(image, 0), lambda maps: mirrored(maps, 0)),
)


@dataclass(frozen=True, eq=False)
class Answers:
    """Some slices along `axis`, from `start` on: `members` (N, C, …) are the networks' softmax,
    `probes` (P, C, …) what they say on average to each changed image, moved back.
    """

    axis: int
    start: int
    members: Tensor
    probes: Tensor


def probe(predictor: Predictor, volume: Volume, *, name: str = "the scan") -> Iterator[Answers]:
    """All answers about one scan, in slabs on the networks' grid."""
    image = predictor.prepare(volume, name=name)
    method, classes = predictor.method, predictor.plan.network.classes
    count = len(method.predicting)

    def ask(window: Tensor) -> Tensor:
        maps = [method.member_probabilities(window).transpose(0, 1).flatten(1, 2)]
        for each in PROBES:
            maps.append(each.undo(method.probabilities(each.change(window))))
        return torch.cat(maps, dim=1)

    i, j, k = image.shape[2:]
    shape: Triple = (i, j, k)
    axis = shape.index(max(shape))
    window = _window(predictor, shape, classes * (count + len(PROBES)))
    with torch.inference_mode():
        for slab in sweep(ask, image, window, axis=axis):
            stop = min(slab.stop, shape[axis])
            maps = slab.maps[:, :i, :j, :k].narrow(axis + 1, 0, max(0, stop - slab.start)).cpu()
            if maps.shape[axis + 1]:
                each = maps.reshape(count + len(PROBES), classes, *maps.shape[1:])
                yield Answers(axis, slab.start, each[:count], each[count:])


def _window(predictor: Predictor, shape: Triple, maps: int) -> Window:
    """The whole scan where it is a few patches large; else windows that overlap by a quarter.

    Several passes are dear, and what they find is compared with itself, not shown as a label map.
    """
    patch = predictor.plan.patch
    if math.prod(shape) <= _FEW_PATCHES * math.prod(patch):
        return Window(shape, shape)
    window = predictor.choose_window(shape, maps=maps)
    sides = zip(window.stride, window.size, shape, strict=True)
    i, j, k = (max(step, 3 * side // 4) if side < whole else step for step, side, whole in sides)
    return Window(window.size, (i, j, k), window.blend)
