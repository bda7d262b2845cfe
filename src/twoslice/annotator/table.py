"""One case on the desk: its drawing, its file, who has the pen.

Every edit is in the file before it is acknowledged: `labelsTr/CASE.nii.gz`, written whole or not
at all, in the form that check, propagate and train read. If the write fails, the edit is taken
back, and the page keeps it until it can be sent again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from twoslice.annotation.cover import Slot
from twoslice.annotation.reading import DenseLabelError, read_annotation
from twoslice.annotation.types import SparseAnnotation
from twoslice.annotator import edits as e
from twoslice.annotator.drawing import Drawing
from twoslice.annotator.errors import (
    ChangedOnDiskError,
    HeldError,
    LockedError,
    RequestError,
    StaleError,
    UnsavedError,
)
from twoslice.annotator.files import LabelFile
from twoslice.annotator.notes import Notes, read_notes, write_notes
from twoslice.annotator.runs import Mask, encode
from twoslice.annotator.suggest import Extent
from twoslice.errors import AnnotationError, InputError, OutputError
from twoslice.io.dataset import Dataset

HOLD_SECONDS = 12.0
"""A page says every few seconds that it is still there; after this long it is taken as gone."""


class Table:
    """One case. All methods may be called from any thread."""

    def __init__(self, dataset: Dataset, case: str, *, wanted: int = 2) -> None:
        self.dataset, self.case, self.wanted = dataset, case, wanted
        self.notes: Notes = read_notes(dataset.root, case)
        self.file = LabelFile(dataset, case)
        self.locked: str | None = None
        self.drawn: tuple[Slot, ...] | None = None
        self._lock = threading.RLock()
        self._drawing: Drawing | None = None
        self._holder: tuple[str, float] | None = None

    @property
    def status(self) -> str:
        """reading, locked, todo, started, drawn or done, for the list of scans."""
        drawn = self.drawn
        if self.locked is not None:
            return "locked"
        if drawn is None:
            return "reading" if self.file.path.exists() or self.file.parts else "todo"
        if not drawn:
            return "todo"
        if self.notes.finished:
            return "done"
        return "drawn" if len(drawn) >= max(self.wanted, len(self.notes.chosen)) else "started"

    def read(self) -> None:
        """Read the label file, if that has not been done yet."""
        with self._lock:
            self._load()

    def untouched(self) -> bool:
        """True while nobody has drawn or chosen anything in this case."""
        with self._lock:
            drawing = self._load()
            if drawing is None or self.notes.chosen:
                return False
            return not drawing.state.sheets and drawing.undos == 0

    def choose(self, slots: Sequence[Slot]) -> None:
        """Choose the slices to begin with in an untouched case; not a step of the history."""
        with self._lock:
            drawing = self._load()
            if drawing is not None and self.untouched():
                self._drawing = Drawing(drawing.annotation(), slots, self.dataset.classes)

    def complete(self, slots: Sequence[Slot]) -> None:
        """Beside slices that were drawn elsewhere, choose those of planes that have none yet."""
        with self._lock:
            drawing = self._load()
            if drawing is None or self.notes.chosen or drawing.undos or not drawing.state.sheets:
                return
            there = {plane for plane, _ in drawing.state.sheets}
            chosen = [*drawing.state.sheets, *(slot for slot in slots if slot[0] not in there)]
            self._drawing = Drawing(drawing.annotation(), chosen, self.dataset.classes)

    def remember_extent(self, extent: Extent) -> None:
        """Note where the body lies; written with the next change of the notes."""
        with self._lock:
            self.notes = self.notes.model_copy(update={"extent": extent})

    def reload(self) -> None:
        """Forget the drawing and its history, and read the file anew."""
        with self._lock:
            self._drawing, self.locked, self.drawn = None, None, None
            self.file = LabelFile(self.dataset, self.case)
            self._load()

    def hold(self, client: str, *, take: bool = False) -> bool:
        """True if `client` has the pen now: it had it, nobody had, or it takes it."""
        with self._lock:
            now = time.monotonic()
            if not take and self._held_by_another(client):
                return False
            self._holder = (client, now + HOLD_SECONDS)
            return True

    def release(self, client: str) -> None:
        """Give the pen away, if `client` has it."""
        with self._lock:
            if self._holder is not None and self._holder[0] == client:
                self._holder = None

    def edit(self, request: e.EditRequest, *, preview: Mask | None = None) -> dict[str, object]:
        """Do the edits, save, and tell the new state; all of them or none."""
        with self._lock:
            drawing = self._editable(request.client)
            if drawing.state.version() != request.base:
                raise StaleError(
                    f"case {self.case}: the drawing has changed since this page saw it last. The "
                    f"page shows it as it is now."
                )
            mark, notes = drawing.mark(), self.notes
            try:
                for each in request.edits:
                    self._apply(drawing, each, preview)
                self._save(drawing)
                self.drawn = tuple(drawing.state.sheets)
            except OutputError as error:
                drawing.back_to(mark)
                raise UnsavedError(str(error)) from error
            except AnnotationError as error:
                drawing.back_to(mark)
                raise RequestError(str(error)) from error
            except BaseException:
                drawing.back_to(mark)
                self.notes = notes
                raise
            return self.state()

    def note(self, request: e.NoteRequest) -> None:
        """Finish, reopen, flag, unflag."""
        with self._lock:
            changes: dict[str, object] = {}
            if request.finished is not None:
                changes["finished"] = request.finished
            if request.flag is not None:
                changes["flag"] = request.flag.strip() or "flagged"
            if request.unflag:
                changes["flag"] = None
            notes = self.notes.model_copy(update=changes)
            write_notes(self.dataset.root, self.case, notes)
            self.notes = notes

    def annotation(self) -> SparseAnnotation:
        """The drawn slices as they are now."""
        with self._lock:
            drawing = self._load()
            if drawing is None:
                raise LockedError(self.locked or "")
            return drawing.annotation()

    def chosen(self) -> tuple[Slot, ...]:
        """The slices that are drawn or to be drawn."""
        with self._lock:
            drawing = self._load()
            return drawing.state.chosen if drawing else ()

    def state(self) -> dict[str, object]:
        """The drawing for the page."""
        with self._lock:
            drawing = self._load()
            if drawing is None:
                return {"locked": self.locked, "version": "", "slices": [], "undo": 0, "redo": 0}
            slices = [self._slice(drawing, slot) for slot in drawing.state.chosen]
            return {
                "locked": None,
                "version": drawing.state.version(),
                "slices": slices,
                "undo": drawing.undos,
                "redo": drawing.redos,
            }

    def _slice(self, drawing: Drawing, slot: Slot) -> dict[str, object]:
        near = drawing.neighbour(slot)
        return {
            "plane": slot[0].value,
            "index": slot[1],
            "drawn": slot in drawing.state.sheets,
            "mask": encode(drawing.seen(slot)),
            "neighbour": None if near is None else near[0],
        }

    def _apply(self, drawing: Drawing, edit: e.Edit, preview: Mask | None) -> None:
        if isinstance(edit, e.Undo | e.Redo):
            if not (drawing.undo() if isinstance(edit, e.Undo) else drawing.redo()):
                raise RequestError(f"case {self.case}: there is nothing to {edit.kind}.")
            return
        slot = (edit.plane, edit.index)
        if isinstance(edit, e.Paint):
            drawing.paint(slot, edit.runs)
        elif isinstance(edit, e.Clear):
            drawing.clear(slot)
        elif isinstance(edit, e.Add):
            drawing.add(slot)
        elif isinstance(edit, e.Remove):
            drawing.remove(slot)
        elif isinstance(edit, e.Move):
            drawing.move(slot, edit.to, carry=edit.carry)
        else:
            drawing.copy(slot, self._source(drawing, slot, preview))

    def _source(self, drawing: Drawing, slot: Slot, preview: Mask | None) -> Mask:
        near = drawing.neighbour(slot)
        if near is not None:
            return near[1]
        if preview is None:
            raise RequestError(
                f"no neighbouring {slot[0]} slice is drawn, and there is no preview to copy from."
            )
        return preview

    def _save(self, drawing: Drawing) -> None:
        """The labels first: they are the work. Then which slices are chosen, if that changed."""
        self.file.write(drawing.annotation())
        notes = self.notes.with_chosen(drawing.state.chosen)
        if notes != self.notes:
            write_notes(self.dataset.root, self.case, notes)
            self.notes = notes

    def _editable(self, client: str) -> Drawing:
        drawing = self._load()
        if drawing is None:
            raise LockedError(self.locked or "")
        if not self.hold(client):
            raise HeldError(f"case {self.case}: is open in another tab, which has the pen.")
        if self.file.changed():
            raise ChangedOnDiskError(
                f"{self.file.path}: was changed by another program since it was opened here. Read "
                f"it again to go on from there."
            )
        return drawing

    def _held_by_another(self, client: str) -> bool:
        if self._holder is None:
            return False
        holder, until = self._holder
        return holder != client and time.monotonic() < until

    def _load(self) -> Drawing | None:
        if self._drawing is None and self.locked is None:
            try:
                annotation = self._read()
            except DenseLabelError:
                self.locked = (
                    f"case {self.case}: its label is dense, every voxel of the scan has one. It "
                    f"can be looked at here, not drawn on."
                )
                return None
            except InputError as error:
                self.locked = str(error)
                return None
            slots = [each.slot for each in self.notes.chosen]
            inside = [slot for slot in slots if slot[1] < annotation.shape[slot[0].axis]]
            self._drawing = Drawing(annotation, inside, self.dataset.classes)
            self.drawn = tuple(self._drawing.state.sheets)
        return self._drawing

    def _read(self) -> SparseAnnotation:
        case = self.dataset.case(self.case)
        if case.label is None and not case.parts and not self.file.path.exists():
            return SparseAnnotation(self.dataset.read_grid(self.case).ras.shape, ())
        known = case.label is not None or bool(case.parts)
        dataset = self.dataset if known else Dataset.open(self.dataset.root)
        return read_annotation(dataset, self.case)
