"""The desk: every case of a dataset, what is suggested for it, and what comes next.

Case names lead to files through the dataset's own list alone: no name becomes a path here.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from twoslice.annotation.check import annotation_faults
from twoslice.annotation.cover import Slot
from twoslice.annotator import edits as e
from twoslice.annotator import suggest
from twoslice.annotator.errors import RequestError, UnknownError
from twoslice.annotator.pictures import Picture, Pictures
from twoslice.annotator.plan import Plan
from twoslice.annotator.preview import Preview, import_registrar, make_preview
from twoslice.annotator.runs import Mask
from twoslice.annotator.table import Table
from twoslice.errors import InputError
from twoslice.io.dataset import Dataset
from twoslice.planes import Plane
from twoslice.propagation.quality import POOR
from twoslice.propagation.views import FOLDER, read_record, view_path

log = logging.getLogger("twoslice.annotator")

_NEXT = {"started": 0, "drawn": 1, "todo": 2}
"""Which scans to go on with: those begun before those untouched."""
_LOOKED_AT = 5
"""Scans drawn elsewhere that are read to learn where in the body their slices lie."""
_EXAMPLES = 12
"""Drawn scans that say where the next one's slices should lie."""


@dataclass
class Desk:
    """All cases of one dataset. Methods may be called from any thread."""

    dataset: Dataset
    plan: Plan = field(default_factory=Plan)

    def __post_init__(self) -> None:
        self.pictures = Pictures(self.dataset)
        self.tables = {
            case: Table(self.dataset, case, wanted=len(self.plan.wanted.planes))
            for case in self.dataset.cases
        }
        self._previews: dict[str, Preview] = {}
        self._previewing = threading.Lock()
        self._extents: dict[str, suggest.Extent] = {}
        self._doubt: dict[str, float] = {}
        self._readying = False

    def read_all(self) -> None:
        """Read every label file that is there, so that the list can tell what is drawn, then what
        suggestions need: where bodies lie, and how sure a model is of each scan.
        """
        for case, table in self.tables.items():
            if table.status == "reading":
                table.read()
                if table.locked is not None:
                    log.info("case %s: %s", case, table.locked)
        for case in self.tables:
            if (path := self._entropy_path(case)) is not None:
                curves = suggest.doubt_curves(path, self.dataset.read_grid(case))
                if curves is not None:
                    self._doubt[case] = float(curves[Plane.AXIAL].mean())
        drawn = [case for case, table in self.tables.items() if table.drawn]
        for case in [case for case in drawn if self.tables[case].notes.extent is None][:_LOOKED_AT]:
            try:
                self._extent(case)
            except RequestError as error:
                log.info("case %s: %s", case, error)

    def table(self, case: str) -> Table:
        """The table of a case, or UnknownError."""
        try:
            return self.tables[case]
        except KeyError:
            raise UnknownError("there is no such case in this dataset.") from None

    def overview(self) -> dict[str, object]:
        """The dataset and the list of its scans, for the page."""
        cases = [
            {
                "case": case,
                "status": table.status,
                "drawn": len(table.drawn or ()),
                "flag": table.notes.flag,
            }
            for case, table in self.tables.items()
        ]
        following, why = self.next_case()
        return {
            "name": self.dataset.name,
            "id": hashlib.sha256(str(self.dataset.root.resolve()).encode()).hexdigest()[:16],
            "labels": [{"value": v, "name": n} for n, v in self.dataset.labels.items()],
            "channels": list(self.dataset.channel_names),
            "cases": cases,
            "next": following,
            "why": why,
            "wanted": len(self.plan.wanted.planes),
        }

    def next_case(self, after: str | None = None) -> tuple[str | None, str]:
        """The scan to draw next and the reason: begun ones first, then those in doubt."""
        open_cases = [case for case, table in self.tables.items() if table.status in _NEXT]
        open_cases = [c for c in open_cases if not self.tables[c].notes.flag and c != after]
        if not open_cases:
            return None, "Every scan is finished or flagged."
        order = list(self.tables)
        best = min(
            open_cases,
            key=lambda c: (_NEXT[self.tables[c].status], -self._doubt.get(c, 0.0), order.index(c)),
        )
        status = self.tables[best].status
        why = {"started": "It is begun.", "drawn": "Its slices are drawn, not yet finished."}
        if best in self._doubt:
            why["todo"] = "The trained model is least sure of it."
        return best, why.get(status, "It comes next in the list.")

    def open(self, case: str, client: str) -> dict[str, object]:
        """Everything that the page needs to show a case; takes the pen if it is free."""
        table = self.table(case)
        picture = self.picture(case)
        suggestions = self.suggestions(case)
        if table.untouched():
            table.choose([each.slot for each in suggestions])
        else:
            table.complete([each.slot for each in self._usual(case)])
        return {
            "case": case,
            "scan": picture.describe(),
            "drawing": table.state(),
            "mine": table.hold(client),
            "notes": {"finished": table.notes.finished, "flag": table.notes.flag},
            "suggestions": [
                {"plane": each.plane.value, "index": each.index, "why": each.why}
                for each in suggestions
            ],
            "faults": self.faults(case),
        }

    def picture(self, case: str) -> Picture:
        """The scan of a case; a RequestError where it cannot be read."""
        self.table(case)
        try:
            return self.pictures.get(case)
        except InputError as error:
            raise RequestError(str(error)) from error

    def faults(self, case: str) -> list[str]:
        """What `twoslice check` would say of the drawn slices."""
        table = self.table(case)
        if table.locked is not None or not table.drawn:
            return []
        return list(annotation_faults(table.annotation(), self.plan.scheme))

    def suggestions(self, case: str) -> list[suggest.Suggestion]:
        """Which slices to draw in a case, with reasons."""
        wanted = self.plan.wanted
        return suggest.first_of(
            lambda: self._one_more(case),
            lambda: self._from_model(case, wanted),
            lambda: self._usual(case),
        )

    def _usual(self, case: str) -> list[suggest.Suggestion]:
        """What the other scans' slices show least of; else where these lie, or in the middle."""
        extent, wanted = self._extent(case), self.plan.wanted
        return suggest.first_of(
            lambda: suggest.from_examples(
                extent, wanted, self._examples(case), self.dataset.classes
            ),
            lambda: suggest.from_drawn(extent, wanted, self._places(case)),
        )

    def _examples(self, case: str) -> list[suggest.Example]:
        """Other scans that are drawn, as far as their bodies are known; the latest of many."""
        found = []
        for other, table in self.tables.items():
            extent = table.notes.extent
            if other != case and extent is not None and table.drawn and table.locked is None:
                found.append(suggest.Example(table.annotation(), extent))
        return found[-_EXAMPLES:]

    def _extent(self, case: str) -> suggest.Extent:
        table = self.table(case)
        if table.notes.extent is None:
            table.remember_extent(suggest.body_extent(self.picture(case)))
        assert table.notes.extent is not None
        return table.notes.extent

    def _places(self, case: str) -> list[tuple[Plane, float]]:
        """Where slices lie in the bodies of other scans, as far as these are known."""
        return [
            (slot[0], suggest.relative(slot, table.notes.extent))
            for other, table in self.tables.items()
            if other != case and table.notes.extent is not None
            for slot in table.drawn or ()
        ]

    def _entropy_path(self, case: str) -> Path | None:
        """The map of a model's doubt that `predict --uncertainty` wrote, if there is one."""
        if self.plan.uncertainty is None:
            return None
        places = (self.plan.uncertainty, self.plan.uncertainty / "uncertainty")
        files = [place / f"{case}_entropy.nii.gz" for place in places]
        return next((file for file in files if file.is_file()), None)

    def _from_model(self, case: str, wanted: suggest.Wanted) -> list[suggest.Suggestion] | None:
        """Where a model is least sure."""
        path = self._entropy_path(case)
        if path is None or self.tables[case].drawn:
            return None
        return self._doubtful(path, case, wanted, "Where the trained model is least sure.")

    def _one_more(self, case: str) -> list[suggest.Suggestion] | None:
        """One slice more in a scan whose propagation is doubtful."""
        drawn = self.tables[case].drawn
        if not drawn:
            return None
        folder = self.dataset.root / FOLDER
        try:
            expected = read_record(folder, case)["quality"]["expected_dice"]
        except (InputError, KeyError, TypeError):
            return None
        if expected is None or expected >= POOR:
            return None
        why = f"Where the planes disagree: propagation expects a Dice of {expected:.2f}."
        path = view_path(folder, case, "disagreement")
        one = suggest.Wanted((drawn[0][0],), (0.5,))
        return self._doubtful(path, case, one, why, away_from=drawn)

    def _doubtful(
        self,
        path: Path,
        case: str,
        wanted: suggest.Wanted,
        why: str,
        away_from: Sequence[Slot] = (),
    ) -> list[suggest.Suggestion] | None:
        curves = suggest.doubt_curves(path, self.picture(case).grid) if path.is_file() else None
        if curves is None:
            return None
        return suggest.from_doubt(curves, wanted, why, away_from=away_from)

    def edit(self, case: str, request: e.EditRequest) -> dict[str, object]:
        """Do the edits of a page, save them, tell the new state."""
        table = self.table(case)
        copies = [each for each in request.edits if isinstance(each, e.Copy)]
        source = self._preview_mask(case, copies[0]) if copies else None
        self._extent(case)  # goes into the notes: this scan's slices will guide others
        state = table.edit(request, preview=source)
        self._get_ready()
        return {"drawing": state, "faults": self.faults(case)}

    def _get_ready(self) -> None:
        """Import what the preview needs while the person draws: torch takes seconds."""
        if not self._readying:
            self._readying = True
            threading.Thread(target=import_registrar, daemon=True, name="import torch").start()

    def _preview_mask(self, case: str, edit: e.Copy) -> Mask | None:
        preview = self._previews.get(case)
        return None if preview is None else preview.slice_mask(edit.plane, edit.index)

    def preview(self, case: str) -> Preview:
        """Propagate what is drawn in a case; the same drawing is propagated once."""
        table = self.table(case)
        picture = self.picture(case)
        annotation, version = table.annotation(), str(table.state()["version"])
        if not annotation.slices:
            raise RequestError("nothing is drawn yet. Draw on one slice at least.")
        with self._previewing:
            known = self._previews.get(case)
            if known is not None and known.version == version:
                return known
            try:
                made = make_preview(
                    picture, annotation, classes=self.dataset.classes, version=version
                )
            except InputError as error:
                raise RequestError(str(error)) from error
            self._previews = {case: made}  # one at a time: they are as large as a scan
            return made

    def preview_mask(self, case: str, version: str, plane: Plane, index: int) -> Mask:
        """One slice of a preview that was made before."""
        self.table(case)
        preview = self._previews.get(case)
        if preview is None or preview.version != version:
            raise UnknownError("that preview is gone. Make it anew.")
        if not 0 <= index < preview.shape[plane.axis]:
            raise UnknownError(f"there is no {plane} slice {index}.")
        return preview.slice_mask(plane, index)
