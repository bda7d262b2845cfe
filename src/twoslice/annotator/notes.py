"""What the annotator knows of a case beside its drawing: which slices were chosen before anything
was drawn on them, whether a person called it finished, and why it was flagged.

`DATASET/annotator/CASE.json`, a file a case. Nothing else reads it, and all of it may be deleted.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from twoslice.annotation.cover import Slot
from twoslice.io import atomic
from twoslice.planes import Plane

FOLDER = "annotator"
BEFORE = "before"


class ChosenSlice(BaseModel):
    """Where a chosen slice lies."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    plane: Plane
    index: int = Field(ge=0)

    @property
    def slot(self) -> Slot:
        """The same as a pair."""
        return self.plane, self.index


class Notes(BaseModel):
    """One case's notes."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    chosen: tuple[ChosenSlice, ...] = ()
    finished: bool = False
    flag: str | None = Field(None, max_length=500)
    extent: tuple[tuple[int, int], tuple[int, int], tuple[int, int]] | None = Field(
        None, description="where the body lies in the scan, for suggestions in others"
    )

    def with_chosen(self, slots: tuple[Slot, ...]) -> Notes:
        """The notes with other chosen slices."""
        chosen = tuple(ChosenSlice(plane=plane, index=index) for plane, index in slots)
        return self.model_copy(update={"chosen": chosen})


def notes_path(root: Path, case: str) -> Path:
    """Where a case's notes lie."""
    return root / FOLDER / f"{case}.json"


def read_notes(root: Path, case: str) -> Notes:
    """A case's notes; empty ones where there are none, or none that can be read."""
    try:
        return Notes.model_validate_json(notes_path(root, case).read_bytes())
    except (OSError, ValidationError):
        return Notes()


def write_notes(root: Path, case: str, notes: Notes) -> None:
    """Write a case's notes, whole or not at all."""
    atomic.write_json(notes_path(root, case), notes.model_dump(mode="json"))


def keep_before(root: Path, path: Path) -> None:
    """Keep a copy of a label file as it was before the annotator first wrote in its place."""
    kept = root / FOLDER / BEFORE / path.name
    if kept.exists():
        return
    with atomic.whole_file(kept) as scratch:
        shutil.copyfile(path, scratch)
