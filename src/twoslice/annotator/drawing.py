"""Drawing: the chosen slices of one scan, what is drawn on them, and the way back.

The voxels on the line where two drawn slices cross belong to both. They are kept equal in both
masks: an edit in one slice is at once an edit in the other. A state is never changed, only
followed by another, so undo and redo are walks along a list, without end.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twoslice.annotation.cover import Slot
from twoslice.annotation.types import AnnotatedSlice, SparseAnnotation
from twoslice.annotator.runs import UNDRAWN, Mask, paint
from twoslice.errors import AnnotationError
from twoslice.io.grid import Shape

MOST_SLICES = 6


@dataclass(frozen=True)
class Sheet:
    """One drawn mask, packed: a history of thousands of strokes stays small."""

    size: tuple[int, int]
    packed: bytes

    @classmethod
    def of(cls, mask: Mask) -> Sheet:
        """Pack a mask."""
        return cls((mask.shape[0], mask.shape[1]), zlib.compress(mask.tobytes(), 1))

    def mask(self) -> Mask:
        """A mask of one's own to write on."""
        return np.frombuffer(zlib.decompress(self.packed), np.uint8).reshape(self.size).copy()


@dataclass(frozen=True)
class State:
    """The slices that were chosen, in their order, and the sheets of those that are drawn."""

    chosen: tuple[Slot, ...]
    sheets: Mapping[Slot, Sheet]

    def version(self) -> str:
        """A name of the content: equal content has an equal name, also after a restart."""
        digest = hashlib.blake2b(digest_size=12)
        for slot in self.chosen:
            digest.update(f"{slot[0]} {slot[1]};".encode())
        for slot in sorted(self.sheets):
            digest.update(f"{slot[0]} {slot[1]}:".encode() + self.sheets[slot].packed)
        return digest.hexdigest()


Mark = tuple[tuple[State, ...], int]


class Drawing:
    """What is drawn in one scan of `shape` with labels 0 to `classes` - 1."""

    def __init__(self, annotation: SparseAnnotation, chosen: Sequence[Slot], classes: int) -> None:
        self.shape: Shape = annotation.shape
        self.classes = classes
        sheets = {(each.plane, each.index): Sheet.of(each.mask) for each in annotation.slices}
        every = tuple(dict.fromkeys([*chosen, *sheets]))
        self._states = [State(every, sheets)]
        self._at = 0
        self._put_away: dict[Slot, Sheet] = {}

    @property
    def state(self) -> State:
        """What is there now."""
        return self._states[self._at]

    @property
    def undos(self) -> int:
        """How many steps lie behind."""
        return self._at

    @property
    def redos(self) -> int:
        """How many steps lie ahead."""
        return len(self._states) - 1 - self._at

    def annotation(self) -> SparseAnnotation:
        """The drawn slices, axial ones first."""
        slots = sorted(self.state.sheets, key=lambda slot: (-slot[0].axis, slot[1]))
        masks = [(slot, self.state.sheets[slot].mask()) for slot in slots]
        return SparseAnnotation(
            self.shape, tuple(AnnotatedSlice(plane, index, mask) for (plane, index), mask in masks)
        )

    def seen(self, slot: Slot) -> Mask:
        """The mask of any slice: its own, or what drawn slices leave on it where they cross."""
        sheet = self.state.sheets.get(slot)
        if sheet is not None:
            return sheet.mask()
        mask = np.full(self._size(slot), UNDRAWN, np.uint8)
        return self._with_lines(slot, mask)

    def mark(self) -> Mark:
        """The history as it stands, for `back_to`."""
        return tuple(self._states), self._at

    def back_to(self, mark: Mark) -> None:
        """Forget what was done since the mark: it could not be saved."""
        self._states, self._at = list(mark[0]), mark[1]

    def undo(self) -> bool:
        """One step back; False at the beginning."""
        return self._walk(-1)

    def redo(self) -> bool:
        """One step on again; False at the end."""
        return self._walk(1)

    def paint(self, slot: Slot, runs: Sequence[int]) -> None:
        """Paint runs of labels on a chosen slice, which counts as drawn from then on."""
        self._require(slot)
        self._draw(slot, paint(self._begun(slot), runs, classes=self.classes))

    def clear(self, slot: Slot) -> None:
        """Make a slice undrawn; its line on other drawn slices stays theirs."""
        self._require(slot)
        sheets = {other: sheet for other, sheet in self.state.sheets.items() if other != slot}
        self._put_aside(slot)
        self._follow(replace(self.state, sheets=sheets))

    def add(self, slot: Slot) -> None:
        """Choose one more slice."""
        self._refuse_taken(slot)
        if len(self.state.chosen) >= MOST_SLICES:
            raise AnnotationError(f"{MOST_SLICES} slices are chosen already. Remove one first.")
        self._follow(replace(self.state, chosen=(*self.state.chosen, slot)))

    def remove(self, slot: Slot) -> None:
        """Choose a slice no longer, and forget what is drawn on it."""
        self._require(slot)
        self._put_aside(slot)
        chosen = tuple(other for other in self.state.chosen if other != slot)
        sheets = {other: sheet for other, sheet in self.state.sheets.items() if other != slot}
        self._follow(State(chosen, sheets))

    def move(self, slot: Slot, to: int, *, carry: bool) -> None:
        """Choose slice `to` in the place of `slot`, with the drawing or without it."""
        self._require(slot)
        target = (slot[0], to)
        self._refuse_taken(target)
        self._put_aside(slot)
        sheets = {other: sheet for other, sheet in self.state.sheets.items() if other != slot}
        chosen = tuple(target if other == slot else other for other in self.state.chosen)
        moved = State(chosen, sheets)
        sheet = self.state.sheets.get(slot)
        if carry and sheet is not None:
            mask = self._with_lines(target, sheet.mask(), moved)
            moved = replace(moved, sheets={**sheets, target: Sheet.of(mask)})
        self._follow(moved)

    def copy(self, slot: Slot, source: Mask) -> None:
        """Draw on a slice what a neighbour shows; lines of other drawn slices stay as they are."""
        self._require(slot)
        self._draw(slot, self._with_lines(slot, source.copy()))

    def neighbour(self, slot: Slot) -> tuple[int, Mask] | None:
        """The nearest drawing in the same plane, there now or put away, that `copy` may take."""
        known = {**self._put_away, **self.state.sheets}
        near = [other for other in known if other[0] == slot[0] and other != slot]
        if not near:
            return None
        best = min(near, key=lambda other: (abs(other[1] - slot[1]), other[1]))
        return best[1], known[best].mask()

    def _begun(self, slot: Slot) -> Mask:
        """The slice's own mask; of an undrawn one, background and the lines of drawn slices."""
        mask = self.seen(slot)
        mask[mask == UNDRAWN] = 0
        return mask

    def _draw(self, slot: Slot, mask: Mask) -> None:
        """Put a mask in its place, and its lines onto the slices that it crosses."""
        sheets = {**self.state.sheets, slot: Sheet.of(mask)}
        for other, sheet in self.state.sheets.items():
            if other[0] != slot[0]:
                crossed = sheet.mask()
                line = _line(crossed, other, slot)
                if not np.array_equal(line, _line(mask, slot, other)):
                    line[...] = _line(mask, slot, other)
                    sheets[other] = Sheet.of(crossed)
        self._follow(replace(self.state, sheets=sheets))

    def _with_lines(self, slot: Slot, mask: Mask, state: State | None = None) -> Mask:
        """`mask` with the lines of the drawn slices that cross it."""
        for other, sheet in (state or self.state).sheets.items():
            if other[0] != slot[0]:
                _line(mask, slot, other)[...] = _line(sheet.mask(), other, slot)
        return mask

    def _follow(self, state: State) -> None:
        del self._states[self._at + 1 :]
        self._states.append(state)
        self._at += 1

    def _walk(self, step: int) -> bool:
        if not 0 <= self._at + step < len(self._states):
            return False
        self._at += step
        return True

    def _put_aside(self, slot: Slot) -> None:
        """Keep a drawing that is about to go, as something to copy from."""
        sheet = self.state.sheets.get(slot)
        if sheet is not None and sheet.mask().any():
            self._put_away[slot] = sheet

    def _size(self, slot: Slot) -> tuple[int, int]:
        plane, index = slot
        side = self.shape[plane.axis]
        if not 0 <= index < side:
            raise AnnotationError(f"{plane} slices run from 0 to {side - 1}, not to {index}.")
        first, second = (self.shape[axis] for axis in range(3) if axis != plane.axis)
        return first, second

    def _require(self, slot: Slot) -> None:
        self._size(slot)
        if slot not in self.state.chosen:
            raise AnnotationError(f"{slot[0]} slice {slot[1]} is not one of the chosen slices.")

    def _refuse_taken(self, slot: Slot) -> None:
        self._size(slot)
        if slot in self.state.chosen:
            raise AnnotationError(f"{slot[0]} slice {slot[1]} is chosen already.")


def _line(mask: Mask, slot: Slot, other: Slot) -> Mask:
    """The pixels of `slot`'s mask on the line that `other` cuts into it (a view)."""
    axes = [axis for axis in range(3) if axis != slot[0].axis]
    rows: Mask = np.moveaxis(mask, axes.index(other[0].axis), 0)
    line: Mask = rows[other[1]]
    return line
