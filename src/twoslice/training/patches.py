"""Batches of patches, without state: the batch of iteration t depends on the seed and t alone, so
a resumed training sees what an uninterrupted one would have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from twoslice.io.grid import Shape
from twoslice.methods.base import Batch, View
from twoslice.objectives.weights import NEVER
from twoslice.training.augment import Augmentation
from twoslice.training.poses import Pose, cut_image, cut_labels, extent

_ORDER, _PATCH = 0, 1
Opener = Callable[[str], NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class LabeledScan:
    """The labels of one scan: `views` is (2 V, I, J, K), label and distance of each view in turn;
    `targets` are up to some thousand foreground voxels of each class, for centring patches.
    """

    name: str
    views: NDArray[np.int16]
    targets: tuple[NDArray[np.int32], ...]


def label_scan(
    name: str, views: Sequence[tuple[NDArray[np.uint8], NDArray[np.int16]]], *, most: int = 2000
) -> LabeledScan:
    """Stack a scan's views, and note where its drawn target lies (where none is, any target)."""
    stacked = np.concatenate([np.stack([label, distance]) for label, distance in views])
    targets = []
    label, distance = stacked[0], stacked[1]
    drawn = np.where(distance == 0, label, 0)
    for source in (drawn, np.where(distance != NEVER, label, 0)):
        for value in sorted(set(np.unique(source).tolist()) - {0}):
            voxels = np.argwhere(source == value)
            every = -(-len(voxels) // most)
            targets.append(voxels[::every].astype(np.int32))
        if targets:
            break
    return LabeledScan(name, stacked.astype(np.int16), tuple(targets))


@dataclass(frozen=True, eq=False)
class PatchSource:
    """Draws the batch of any iteration: a labelled and an unlabelled stream.

    Several processes share an iteration: process `rank` of `world` takes its own slots of a batch
    that is `world` times as large, the same patches that one process would take of that batch.
    """

    labeled: Sequence[LabeledScan]
    unlabeled: Sequence[str]
    open_image: Opener
    patch: Shape
    voxel: tuple[float, float, float]
    augmentation: Augmentation
    sizes: tuple[int, int]
    foreground_share: float
    seed: int
    rank: int = 0
    world: int = 1

    def batch(self, iteration: int) -> Batch:
        """The batch of this iteration."""
        images, views, others = [], [], []
        wanted, more = self.sizes
        for slot in self._slots(wanted):
            scan = self._labeled_at(iteration, slot)
            rng = np.random.default_rng([self.seed, _PATCH, iteration, slot])
            image, pose = self._cut(rng, scan.name, scan.targets)
            images.append(image)
            labels = cut_labels(scan.views, pose, self.patch, outside=NEVER)
            views.append(labels.round_().to(torch.int64))
        for slot in self._slots(more):
            place = self.world * wanted + slot
            rng = np.random.default_rng([self.seed, _PATCH, iteration, place])
            others.append(self._cut(rng, self._unlabeled_at(iteration, slot), ())[0])
        cases = self.cases(iteration, self._slots(wanted), self._slots(more))
        return _join(images, others, views, cases)

    def all_cases(self, iteration: int) -> tuple[str, ...]:
        """The cases that the processes have together at this iteration."""
        wanted, more = self.sizes
        return self.cases(iteration, range(self.world * wanted), range(self.world * more))

    def cases(self, iteration: int, labeled: range, unlabeled: range) -> tuple[str, ...]:
        """The cases of these slots, the labelled ones first."""
        return (
            *(self._labeled_at(iteration, slot).name for slot in labeled),
            *(self._unlabeled_at(iteration, slot) for slot in unlabeled),
        )

    def _slots(self, size: int) -> range:
        return range(self.rank * size, (self.rank + 1) * size)

    def _labeled_at(self, iteration: int, slot: int) -> LabeledScan:
        position = iteration * self.sizes[0] * self.world + slot
        return self.labeled[self._turn(position, len(self.labeled), 0)]

    def _unlabeled_at(self, iteration: int, slot: int) -> str:
        position = iteration * self.sizes[1] * self.world + slot
        return self.unlabeled[self._turn(position, len(self.unlabeled), 1)]

    def _turn(self, position: int, count: int, stream: int) -> int:
        """Whose turn it is: every scan once, in a new order each round."""
        rounds, place = divmod(position, count)
        order = np.random.default_rng([self.seed, _ORDER, stream, rounds]).permutation(count)
        return int(order[place])

    def _cut(
        self, rng: np.random.Generator, name: str, targets: Sequence[NDArray[np.int32]]
    ) -> tuple[Tensor, Pose]:
        """One patch of a scan, and where it came from."""
        image = self.open_image(name)
        matrix = self.augmentation.matrix(rng, self.voxel)
        middle: NDArray[np.float64] | None = None
        if targets and rng.random() < self.foreground_share:
            voxels = targets[int(rng.integers(len(targets)))]
            middle = voxels[int(rng.integers(len(voxels)))].astype(float)
        size = extent(matrix, self.patch)
        overhang = (self.augmentation.overhang * size).astype(np.float64)
        centre = _centre(rng, np.array(image.shape[1:]), size, overhang, middle)
        pose = Pose(centre, matrix, self.augmentation.lattice(rng, self.patch))
        return self.augmentation.intensity(rng, cut_image(image, pose, self.patch)), pose


def _centre(
    rng: np.random.Generator,
    sides: NDArray[np.int64],
    size: NDArray[np.int64],
    overhang: NDArray[np.float64],
    middle: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """A centre that keeps the patch inside the scan, but for `overhang` voxels on each side; near
    `middle` if one is given: that voxel then falls in the middle half of the patch.
    """
    half = (size - 1) / 2
    lowest = np.minimum(half, (sides - 1) / 2) - overhang
    highest = np.maximum(sides - 1 - half, (sides - 1) / 2) + overhang
    if middle is None:
        centre = rng.uniform(lowest, highest)
    else:
        centre = np.clip(middle + rng.uniform(-size / 4, size / 4), lowest, highest)
    # Whole voxels: an unturned patch then starts exactly on one.
    return np.floor(centre - half + 0.5) + half


def _join(
    images: list[Tensor], others: list[Tensor], views: list[Tensor], cases: tuple[str, ...]
) -> Batch:
    labeled = torch.stack(images).contiguous(memory_format=torch.channels_last_3d)
    unlabeled = torch.stack(others) if others else labeled[:0]
    stacked = torch.stack(views)
    pairs = tuple(
        View(label=stacked[:, 2 * index], distance=stacked[:, 2 * index + 1])
        for index in range(stacked.shape[1] // 2)
    )
    # Outside the scan the label channel holds NEVER as well: any class will do, its weight is 0.
    known = tuple(
        View(torch.where(view.distance == NEVER, 0, view.label), view.distance) for view in pairs
    )
    return Batch(labeled, unlabeled, known, cases)
