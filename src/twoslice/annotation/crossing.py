"""The line where two drawn slices cross: does it fit both of them?

In one file the voxels of the line have one label, written by whichever slice came last. If a tool
flipped or shifted one of the slices, the line fits that slice and breaks the other: there the
rows on either side of the line agree with each other and not with it. Such *jumps* are counted
and judged by how ragged the slice is elsewhere, so that a rough outline is not blamed. The
numbers below are from `bench/crossing.py`; see docs/LOG.md for what they find and miss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.moves import Crossing, Move, Side, crossing_of, crossings, moves
from twoslice.annotation.types import AnnotatedSlice, SparseAnnotation
from twoslice.errors import AnnotationError

FEWEST_JUMPS = 2
OVER_ROUGHNESS = 2
"""A line must jump on this many voxels more than any other row of its slice."""
EXPLAINED = 1 / 3
"""A move is a likely cause if it leaves no more than this share of the jumps."""
UNEXPLAINED_JUMPS = 6
"""From here on a line is at fault even if no move explains it."""

Misfit = tuple[int, int]
"""Jumps that are left on a line, and, to choose among equals, voxels that differ from its
neighbours.
"""
_NEVER = (1 << 30, 0)

_Row = NDArray[np.uint8]
_Marks = NDArray[np.bool_]


def broken_lines(annotation: SparseAnnotation) -> list[str]:
    """One message for each pair of slices whose crossing line breaks the outline of one of them."""
    found = (_broken_line(crossing) for crossing in crossings(annotation))
    return [message for message in found if message is not None]


def merge_annotations(one: SparseAnnotation, other: SparseAnnotation) -> SparseAnnotation:
    """The slices of two annotations of one scan, drawn in separate files or tools.

    They must agree on every voxel that they share; a slice that is in both is taken once.
    """
    if one.shape != other.shape:
        raise AnnotationError(
            f"the slices to merge lie on scans of {one.shape} and {other.shape} voxels. Export "
            f"both on the image's own grid."
        )
    merged = {(drawn.plane, drawn.index): drawn for drawn in one.slices}
    for drawn in other.slices:
        twin = merged.get((drawn.plane, drawn.index))
        if twin is not None and not np.array_equal(twin.mask, drawn.mask):
            raise AnnotationError(
                f"{drawn.plane} slice {drawn.index} is drawn twice, with "
                f"{int((twin.mask != drawn.mask).sum())} differing voxels. Keep one drawing of it."
            )
        for against in one.slices:
            if against.plane != drawn.plane:
                _refuse_disagreement(against, drawn)
        merged[drawn.plane, drawn.index] = drawn
    # Axial first, as in a single file: the order of the planes says which network learns which.
    ordered = sorted(merged, key=lambda slot: (-slot[0].axis, slot[1]))
    return SparseAnnotation(one.shape, tuple(merged[slot] for slot in ordered))


def _refuse_disagreement(one: AnnotatedSlice, other: AnnotatedSlice) -> None:
    """Raise if two slices differ on the line where they cross."""
    crossing = crossing_of(one, other)
    first, second = crossing.first, crossing.second
    wrong = first.rows[first.at] != second.rows[second.at]
    count = int(wrong.sum())
    if count == 0:
        return

    def left(side: Side, move: Move) -> Misfit:
        other = second if side is first else first
        return int((move.undo(side.rows)[side.at] != other.rows[other.at]).sum()), 0

    best = _likeliest(crossing, left)
    explained = best.jumps <= EXPLAINED * count
    cause = best.cause if explained else "one of them may belong to another case"
    raise AnnotationError(
        f"{first} and {second} differ on {count} of the voxels that they share, RAS "
        f"{crossing.voxels(wrong)}: {cause}. Export both on the image's own grid and redraw "
        f"the one that is wrong."
    )


def _broken_line(crossing: Crossing) -> str | None:
    sides = (crossing.first, crossing.second)
    for seen, other in (sides, sides[::-1]):
        if not 0 < seen.at < len(seen.rows) - 1:
            continue
        marks = jumps(*seen.rows[seen.at - 1 : seen.at + 2])
        count = int(marks.sum())
        cause = _cause(crossing, seen, other, count)
        if cause is not None:
            return (
                f"the outline on {seen} breaks at {count} voxel(s), RAS {crossing.voxels(marks)}, "
                f"of the line where it crosses {other}: {cause}. Look at both slices in a viewer "
                f"and redraw the one that is wrong."
            )
    return None


def _cause(crossing: Crossing, seen: Side, other: Side, count: int) -> str | None:
    """Why the line jumps on `count` voxels of a slice; None if the slice is as rough elsewhere."""
    usual, change = _roughness(seen)
    if count < max(FEWEST_JUMPS, usual + OVER_ROUGHNESS, change / 2):
        return None
    best = _likeliest(crossing, _jumps_left(seen, other))
    plain = count >= change
    if best.jumps == 0 and (plain or count >= 2 * FEWEST_JUMPS):
        return best.cause
    if plain and count > FEWEST_JUMPS and best.jumps <= EXPLAINED * count:
        return best.cause
    if count >= max(UNEXPLAINED_JUMPS, 2 * (usual + OVER_ROUGHNESS), 2 * change):
        return "one of them may belong to another case"
    return None


def jumps(before: _Row, line: _Row, after: _Row) -> _Marks:
    """True where the rows on either side agree with each other and not with the line."""
    return np.asarray((before == after) & (line != before))


def _roughness(side: Side) -> tuple[int, int]:
    """The most jumps on any row away from the line, and the most that labels change next to it."""
    rows, at = side.rows, side.at
    each = jumps(rows[:-2], rows[1:-1], rows[2:]).sum(axis=1)
    away = np.abs(np.arange(1, len(rows) - 1) - at) > 1
    pairs = [(at - 2, at - 1), (at + 1, at + 2)]
    changes = [(rows[a] != rows[b]).sum() for a, b in pairs if a >= 0 and b < len(rows)]
    return int(each[away].max(initial=0)), int(max(changes, default=0))


@dataclass(frozen=True)
class _Guess:
    """What would be left of the jumps if this cause were undone."""

    jumps: int
    cause: str


def _jumps_left(seen: Side, other: Side) -> Callable[[Side, Move], Misfit]:
    """How badly the line fits when a move is undone.

    If the other slice was moved and written last, the line should have been another of its rows;
    if the seen slice was moved and then overwritten, other rows of it should lie beside the line.
    """
    before, line, after = seen.rows[seen.at - 1 : seen.at + 2]

    def left(side: Side, move: Move) -> Misfit:
        undone = move.undo(side.rows)
        if side is other:
            return _misfit(before, undone[side.at], after)
        on_line = np.zeros_like(side.rows)
        on_line[side.at] = 1
        beside = [side.at - 1, side.at + 1]
        if move.undo(on_line)[beside].any():
            return _NEVER  # The line would lie beside itself: nothing to compare it with.
        return _misfit(undone[beside[0]], line, undone[beside[1]])

    return left


def _misfit(before: _Row, line: _Row, after: _Row) -> Misfit:
    differing = int((line != before).sum() + (line != after).sum())
    return int(jumps(before, line, after).sum()), differing


def _likeliest(crossing: Crossing, left: Callable[[Side, Move], Misfit]) -> _Guess:
    """The move after which the line fits best, the simplest of them if there are several."""
    misfits: dict[str, dict[str, Misfit]] = {}
    for side in (crossing.first, crossing.second):
        for move in moves(side, crossing.along):
            # A shift comes under one name with either sign; the better one counts.
            by_side = misfits.setdefault(move.name, {})
            by_side[str(side)] = min(by_side.get(str(side), _NEVER), left(side, move))
    name, by_side = min(misfits.items(), key=lambda item: min(item[1].values()))
    least = min(by_side.values())
    suspects = [side for side, misfit in by_side.items() if misfit == least]
    who = "one of them" if len(suspects) > 1 else suspects[0]
    return _Guess(least[0], f"{who} looks {name}")
