"""Trust without ground truth: what a plane's propagation says on the slices drawn in the others.

Each plane is carried once more knowing nothing but its own drawn slices, and scored on the slices
drawn in the other planes, which are truth. From that, per scan: a Dice per class and per distance,
a decay rate, and what to expect of the views.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoslice.planes import Plane

PAPER_DECAY = 0.95
POOR = 0.8
"""An expected Dice below this is worth a look: the estimate ranks scans well but is hopeful where
little was drawn (Hippocampus: 0.81 expected, 0.71 true; docs/results.md).
"""

_DECAYS = np.round(np.arange(0.80, 0.9991, 0.001), 3)


@dataclass(frozen=True, eq=False)
class Check:
    """One plane's propagation on one slice drawn in another plane.

    `odds` (classes - 1, slices, pixels) is what was known without that slice, `truth` (slices,
    pixels) what was drawn, `away` (slices) how far each line lies from the plane's own source.
    """

    plane: Plane
    odds: NDArray[np.float32]
    truth: NDArray[np.uint8]
    away: NDArray[np.int64]

    @property
    def guess(self) -> NDArray[np.uint8]:
        """(slices, pixels): the class that propagation gave."""
        best = self.odds.argmax(axis=0)
        above = np.take_along_axis(self.odds, best[None], axis=0)[0] > 0
        return np.where(above, best + 1, 0).astype(np.uint8)


@dataclass(frozen=True)
class ViewQuality:
    """How one plane's propagation did on the other planes' drawn slices."""

    dice: float | None
    per_class: tuple[float | None, ...]
    per_distance: tuple[tuple[int, float, int], ...]
    decay: float | None

    def to_tree(self, class_names: Sequence[str]) -> dict[str, Any]:
        """Plain values for JSON; per_distance rows are distance, Dice, drawn voxels."""
        classes = zip(class_names[1:], self.per_class, strict=True)
        return {
            "dice": _rounded(self.dice),
            "per_class": {name: _rounded(value) for name, value in classes},
            "per_distance": [[d, round(dice, 4), size] for d, dice, size in self.per_distance],
            "decay": self.decay,
        }


@dataclass(frozen=True)
class Quality:
    """The self-check of one scan; None where a single plane leaves nothing to check against."""

    views: dict[str, ViewQuality]
    agreement: float | None
    expected: float | None
    per_class: tuple[float | None, ...] | None = None

    def to_tree(self, class_names: Sequence[str]) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "expected_dice": _rounded(self.expected),
            "expected_per_class": self._by_class(class_names),
            "agreement": _rounded(self.agreement),
            "views": {name: view.to_tree(class_names) for name, view in self.views.items()},
        }

    def _by_class(self, class_names: Sequence[str]) -> dict[str, float | None] | None:
        if self.per_class is None:
            return None
        pairs = zip(class_names[1:], self.per_class, strict=True)
        return {name: _rounded(value) for name, value in pairs}


def judge(checks: Sequence[Check], classes: int) -> ViewQuality:
    """One plane's quality from its checks."""
    hits, sizes = _overlaps(checks, classes)
    dice = [2 * h / s if s else None for h, s in zip(hits, sizes, strict=True)]
    shown = [value for value in dice if value is not None]
    rows = _by_distance(checks)
    return ViewQuality(
        dice=float(np.mean(shown)) if shown else None,
        per_class=tuple(dice),
        per_distance=tuple(rows),
        decay=fit_decay(rows) if rows else None,
    )


def confusion(checks: Iterable[Check], classes: int) -> NDArray[np.int64]:
    """(classes, classes): voxels by the class that was drawn and the one that was carried there."""
    counts = np.zeros((classes, classes), dtype=np.int64)
    for check in checks:
        np.add.at(counts, (check.truth, check.guess), 1)
    return counts


def fit_decay(rows: Sequence[tuple[int, float, int]]) -> float:
    """The α for which α ** distance fits the Dice per distance best, weighted by voxels."""
    away, dice, size = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    misfit = [(size * (dice - alpha**away) ** 2).sum() for alpha in _DECAYS]
    return float(_DECAYS[int(np.argmin(misfit))])


def agreement(one: NDArray[np.uint8], other: NDArray[np.uint8], classes: int) -> float | None:
    """The mean Dice between two views, over the classes that either shows."""
    found = []
    for value in range(1, classes):
        mine, theirs = one == value, other == value
        size = int(mine.sum()) + int(theirs.sum())
        if size:
            found.append(2 * int((mine & theirs).sum()) / size)
    return float(np.mean(found)) if found else None


def _overlaps(checks: Sequence[Check], classes: int) -> tuple[list[int], list[int]]:
    """Per class: voxels that guess and truth share, and the sum of both; over all checks."""
    hits, sizes = [0] * (classes - 1), [0] * (classes - 1)
    for check in checks:
        for value in range(1, classes):
            guess, truth = check.guess == value, check.truth == value
            hits[value - 1] += int((guess & truth).sum())
            sizes[value - 1] += int(guess.sum()) + int(truth.sum())
    return hits, sizes


def _by_distance(checks: Sequence[Check]) -> list[tuple[int, float, int]]:
    """Rows of distance, Dice over all classes, and voxels that either calls a target."""
    hits: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for check in checks:
        right = ((check.guess == check.truth) & (check.truth > 0)).sum(axis=1)
        size = (check.guess > 0).sum(axis=1) + (check.truth > 0).sum(axis=1)
        for away, hit, count in zip(check.away.tolist(), right, size, strict=True):
            hits[away] = hits.get(away, 0) + int(hit)
            sizes[away] = sizes.get(away, 0) + int(count)
    return [
        (away, 2 * hits[away] / sizes[away], sizes[away])
        for away in sorted(sizes)
        if sizes[away] and away > 0
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
