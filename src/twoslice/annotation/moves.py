"""What tools do to a slice on its way into a file: flip it, turn it, shift it by some voxels.

Each move comes as the step that undoes it, so that a check can ask whether two drawings would
agree had it not happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.types import AnnotatedSlice, SparseAnnotation
from twoslice.planes import Plane

Mask = NDArray[np.uint8]
DIRECTIONS = ("left-right", "posterior-anterior", "inferior-superior")
FURTHEST = 5
"""Shifts of up to this many voxels are tried."""


@dataclass(frozen=True, eq=False)
class Side:
    """One of two slices that cross: its `rows` run along the crossing line, which is row `at`."""

    plane: Plane
    index: int
    rows: Mask
    at: int
    across: int

    def __str__(self) -> str:
        return f"{self.plane} slice {self.index}"


@dataclass(frozen=True, eq=False)
class Crossing:
    """Two slices in different planes, and the axis `along` which the line that they share runs."""

    first: Side
    second: Side
    along: int

    def voxels(self, on_line: NDArray[np.bool_]) -> str:
        """The marked voxels of the line by their RAS indices, such as `(12-15, 40, 31)`."""
        places = np.flatnonzero(on_line)
        runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
        spans = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
        shown = ", ".join(spans[:4]) + (", …" if len(spans) > 4 else "")
        place = {self.first.across: self.first.at, self.second.across: self.second.at}
        return f"({', '.join(str(place.get(axis, shown)) for axis in range(3))})"


@dataclass(frozen=True, eq=False)
class Move:
    """`name` in words, and `undo`, which brings moved rows back."""

    name: str
    undo: Callable[[Mask], Mask]


def crossings(annotation: SparseAnnotation) -> Iterator[Crossing]:
    """Every pair of drawn slices that cross."""
    slices = annotation.slices
    for number, one in enumerate(slices):
        for other in slices[number + 1 :]:
            if one.plane != other.plane:
                yield crossing_of(one, other)


def crossing_of(one: AnnotatedSlice, other: AnnotatedSlice) -> Crossing:
    """Two slices of different planes, laid along the line that they share."""
    along = 3 - one.plane.axis - other.plane.axis
    return Crossing(_side(one, other), _side(other, one), along)


def _side(drawn: AnnotatedSlice, other: AnnotatedSlice) -> Side:
    axes = [axis for axis in range(3) if axis != drawn.plane.axis]
    rows = drawn.mask if axes[0] == other.plane.axis else drawn.mask.T
    return Side(drawn.plane, drawn.index, rows, other.index, other.plane.axis)


def moves(side: Side, along: int) -> Iterator[Move]:
    """What may have happened to a slice, the simplest first."""
    line, across = DIRECTIONS[along], DIRECTIONS[side.across]
    yield Move(f"flipped {line}", lambda rows: rows[:, ::-1])
    yield Move(f"flipped {across}", lambda rows: rows[::-1])
    for size, sign in product(range(1, FURTHEST + 1), (1, -1)):
        name = f"off by {size} voxel{'s' if size > 1 else ''}"
        yield Move(f"{name} {line}", _shift(0, -sign * size))
        yield Move(f"{name} {across}", _shift(-sign * size, 0))
    yield Move("turned by half a turn", lambda rows: rows[::-1, ::-1])
    if side.rows.shape[0] == side.rows.shape[1]:
        yield Move("transposed", lambda rows: rows.T)


def _shift(down: int, right: int) -> Callable[[Mask], Mask]:
    """Shift the content of an array; background comes in at the border."""

    def shifted(rows: Mask) -> Mask:
        padded = np.pad(rows, ((abs(down),) * 2, (abs(right),) * 2))
        height, width = rows.shape
        top, left = abs(down) - down, abs(right) - right
        return padded[top : top + height, left : left + width]

    return shifted
