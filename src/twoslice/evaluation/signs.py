"""Signs of quality that need no label: how firm, how much agreed upon, how ordinary a label map is.

For each label of a scan: the Dice that the softmax itself expects, the Dice between the two
networks, between the answer and the answers to the moved and mirrored scan, and the certainty in
and around the label; each from 0 to 1, 1 the better. From the label map: volume, extent, pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from twoslice.inference.probes import PROBES, Answers
from twoslice.objectives.uncertainty import entropy

Counts = NDArray[np.float64]
NEAR = 0.05
"""A voxel belongs to the surroundings of a label where its probability is above this."""


@dataclass(eq=False)
class Tally:
    """Sums over voxels, an entry a foreground label, from which all signs follow.

    `pairs` holds for each comparison of two label maps the voxels they share and the sum of both.
    """

    classes: int
    expected: Counts = field(init=False)
    pairs: dict[str, Counts] = field(init=False)
    doubt: Counts = field(init=False)
    size: Counts = field(init=False)

    def __post_init__(self) -> None:
        labels = self.classes - 1
        self.expected, self.doubt = np.zeros((2, labels)), np.zeros((2, labels))
        self.pairs, self.size = {}, np.zeros(labels)

    def add(self, members: Tensor, probes: Tensor, truth: Tensor | None = None) -> None:
        """Voxels (N, C, V), (P, C, V), and their true labels (V) where somebody drew them."""
        mean = members.mean(dim=0)
        answer = mean.argmax(dim=0)
        doubt = entropy(mean[None])[0] / float(np.log(self.classes))
        for index in range(self.classes - 1):
            mine, share = answer == index + 1, mean[index + 1]
            near = share > NEAR
            self.size[index] += int(mine.sum())
            self.expected[:, index] += [float(share[mine].sum()), float(share.sum() + mine.sum())]
            self.doubt[:, index] += [float(doubt[near].sum()), int(near.sum())]
        if len(members) > 1:
            self._compare("networks", members[0].argmax(dim=0), members[-1].argmax(dim=0))
        for kind, said in zip(PROBES, probes, strict=True):
            self._compare(kind.name, answer, said.argmax(dim=0))
        if truth is not None:
            self._compare("truth", answer, truth)

    def _compare(self, name: str, one: Tensor, other: Tensor) -> None:
        sums = self.pairs.setdefault(name, np.zeros((2, self.classes - 1)))
        for index in range(self.classes - 1):
            mine, theirs = one == index + 1, other == index + 1
            sums[:, index] += [int((mine & theirs).sum()), int(mine.sum() + theirs.sum())]

    def dice(self, name: str) -> Counts:
        """The Dice of a comparison; 1 where neither shows the label."""
        shared, both = self.pairs[name]
        return np.where(both > 0, 2 * shared / np.maximum(both, 1), 1.0)

    def signs(self) -> list[dict[str, float]]:
        """The signs of every foreground label, by name."""
        shared, both = self.expected
        doubtful, near = self.doubt
        found = {
            "softmax": np.where(self.size > 0, 2 * shared / np.maximum(both, 1e-6), 0.0),
            "certainty": np.where(near > 0, 1 - doubtful / np.maximum(near, 1), 0.0),
            **{name: self.dice(name) for name in self.pairs if name != "truth"},
        }
        for values in found.values():  # all agree that it is not there: that is no firm answer
            values[self.size == 0] = 0.0
        return [
            {name: round(float(values[index]), 5) for name, values in found.items()}
            for index in range(self.classes - 1)
        ]


@dataclass(eq=False)
class Reading:
    """What the answers about one scan say: sums over all of it and over each drawn slice, the
    doubt on every slice along each of its three axes, and the label map (I, J, K) that they give.
    """

    whole: Tally
    drawn: list[Tally]
    doubt: list[Counts]
    labels: NDArray[np.uint8]


def read_answers(
    answers: Iterable[Answers],
    classes: int,
    shape: Sequence[int],
    drawn: Sequence[tuple[NDArray[np.bool_], NDArray[np.uint8]]] = (),
    allowed: Mapping[int, NDArray[np.bool_]] | None = None,
) -> Reading:
    """Go once through the answers about a scan of `shape` on the networks' grid. `drawn` says of
    each drawn slice where it lies and its labels, both (I, J, K); `allowed` where some labels may
    lie: where one of them is found elsewhere, the answer counts as background.
    """
    reading = Reading(
        Tally(classes),
        [Tally(classes) for _ in drawn],
        [np.zeros(side) for side in shape],
        np.zeros(shape, np.uint8),
    )
    for given in answers:
        where = [slice(None)] * 3
        where[given.axis] = slice(given.start, given.start + given.members.shape[given.axis + 2])
        place = (where[0], where[1], where[2])
        found = given.members.mean(dim=0).argmax(dim=0)
        reading.labels[place] = found.numpy()
        stray = torch.zeros_like(found, dtype=torch.bool)
        for value, region in (allowed or {}).items():
            stray |= (found == value) & ~torch.from_numpy(region[place])
        slab = _with_background(given, stray) if stray.any() else given
        reading.whole.add(slab.members.flatten(2), slab.probes.flatten(2))
        doubt = entropy(slab.members.mean(dim=0)[None])[0].double().numpy()
        for axis, profile in enumerate(reading.doubt):
            across = tuple(other for other in range(3) if other != axis)
            profile[place[axis]] += doubt.sum(axis=across)
        for sums, (mask, labels) in zip(reading.drawn, drawn, strict=True):
            inside = torch.from_numpy(np.ascontiguousarray(mask[place]))
            if inside.any():
                truth = torch.from_numpy(labels[place].astype(np.int64))[inside]
                sums.add(slab.members[:, :, inside], slab.probes[:, :, inside], truth)
    return reading


def _with_background(slab: Answers, where: Tensor) -> Answers:
    """The same answers, but background at the voxels `where`, whatever was asked."""
    members, probes = slab.members.clone(), slab.probes.clone()
    for maps in (members, probes):
        maps[:, :, where], maps[:, 0, where] = 0.0, 1.0
    return replace(slab, members=members, probes=probes)


_ABSENT = {
    "ml": 0.0,
    "extent_mm": [0.0, 0.0, 0.0],
    "thickness_mm": 0.0,
    "pieces": 0,
    "largest": 0.0,
}
"""The shape of a label that is nowhere."""


def shapes(
    labels: NDArray[np.uint8], spacing: Sequence[float], classes: int
) -> list[dict[str, Any]]:
    """Of each foreground label of a label map: volume, extent, thickness (volume over surface),
    pieces, and the largest's share.
    """
    from scipy import ndimage

    found: list[dict[str, Any]] = []
    boxes = ndimage.find_objects(labels, max_label=classes - 1)
    for value, box in enumerate(boxes, start=1):
        if box is None:
            found.append(dict(_ABSENT))
            continue
        numbered = np.zeros(labels[box].shape, np.int32)
        ndimage.label(labels[box] == value, output=numbered)
        sizes = np.bincount(numbered.ravel())[1:]
        sides = [(part.stop - part.start) * mm for part, mm in zip(box, spacing, strict=True)]
        found.append(
            {
                "ml": round(float(sizes.sum() * np.prod(spacing) / 1000), 3),
                "extent_mm": [round(float(side), 1) for side in sides],
                "thickness_mm": round(_thickness(labels[box] == value, spacing), 4),
                "pieces": int(numbered.max()),
                "largest": round(float(sizes.max() / sizes.sum()), 4),
            }
        )
    return found


def _thickness(mask: NDArray[np.bool_], spacing: Sequence[float]) -> float:
    """Volume over surface, in mm; the surface is that of the voxels' outer faces."""
    padded, voxel = np.pad(mask, 1), float(np.prod(spacing))
    faces = [int((padded ^ np.roll(padded, 1, axis)).sum()) for axis in range(3)]
    surface = sum(count * voxel / mm for count, mm in zip(faces, spacing, strict=True))
    return float(mask.sum() * voxel / surface)
