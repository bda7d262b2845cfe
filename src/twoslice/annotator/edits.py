"""What the page may ask for, checked before anything is touched."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from twoslice.planes import Plane

Client = Annotated[str, Field(min_length=8, max_length=64, pattern=r"^[\w-]+$")]
Version = Annotated[str, Field(max_length=64)]
Index = Annotated[StrictInt, Field(ge=0, le=1 << 20)]
MOST_RUNS = 600_000
"""Three numbers a run: a slice of 512 × 512 cannot need more than 2 × 131072 runs."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _OnSlice(_Strict):
    plane: Plane
    index: Index


class Paint(_OnSlice):
    """Runs `start, length, value, …` over the screen's rows; none of them: the slice is empty."""

    kind: Literal["paint"]
    runs: Annotated[list[StrictInt], Field(max_length=MOST_RUNS)]


class Clear(_OnSlice):
    """Make the slice undrawn."""

    kind: Literal["clear"]


class Add(_OnSlice):
    """Choose one more slice."""

    kind: Literal["add"]


class Remove(_OnSlice):
    """Choose the slice no longer."""

    kind: Literal["remove"]


class Move(_OnSlice):
    """Choose another slice of the plane in its place, with the drawing or without."""

    kind: Literal["move"]
    to: Index
    carry: StrictBool


class Copy(_OnSlice):
    """Draw what the nearest drawing in this plane shows, or the preview where there is none."""

    kind: Literal["copy"]


class Undo(_Strict):
    """One step back."""

    kind: Literal["undo"]


class Redo(_Strict):
    """One step on again."""

    kind: Literal["redo"]


Edit = Annotated[
    Paint | Clear | Add | Remove | Move | Copy | Undo | Redo, Field(discriminator="kind")
]


class EditRequest(_Strict):
    """Edits in their order, made on the drawing that is called `base`."""

    client: Client
    base: Version
    edits: Annotated[list[Edit], Field(min_length=1, max_length=500)]


class HoldRequest(_Strict):
    """A page that has a case open says that it still has; `take` takes the pen from another."""

    client: Client
    take: StrictBool = False


class NoteRequest(_Strict):
    """Call a case finished or not, flag it with a reason or take the flag away."""

    client: Client
    finished: StrictBool | None = None
    flag: Annotated[str | None, Field(max_length=500)] = None
    unflag: StrictBool = False


class PreviewRequest(_Strict):
    """Propagate what is drawn."""

    client: Client
