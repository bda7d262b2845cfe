"""What a study file can say, as frozen models; docs/studies.md tells it with examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from twoslice.annotation.choice import Choice, Scheme, parse_slice
from twoslice.annotation.cover import Slot
from twoslice.errors import SettingsError, TwosliceError
from twoslice.planes import Plane
from twoslice.settings import read_yaml, split_assignment

Tree = dict[str, Any]
Names = tuple[str, ...]
Seeds = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Data(_Frozen):
    """The dense dataset, and what of it the runs see."""

    dense: str = Field(description="a folder, looked for in --data, beside the file, and here")
    labeled: Count = 5
    unlabeled: int | None = Field(None, ge=0, description="None: all others")
    held_out: Count | Literal["test"] = Field(
        "test", description="imagesTs, or as many of the last cases by name"
    )
    labels: Names | None = Field(None, description="keep these labels alone")
    planes: tuple[Plane, ...] = (Plane.AXIAL, Plane.CORONAL)
    scheme: Scheme = "orthogonal"
    choice: Choice = "middle"
    slices: Names | None = Field(None, description="the same in every case, as in axial 43")
    whole: bool = Field(False, description="labelled cases keep their dense labels")
    seed: int = Field(0, ge=0, description="of slices that are chosen at random")

    @field_validator("slices")
    @classmethod
    def _are_slices(cls, value: Names | None) -> Names | None:
        for text in value or ():
            try:
                parse_slice(text)
            except TwosliceError as error:
                raise ValueError(str(error)) from None
        return value

    @property
    def slots(self) -> list[Slot]:
        """The fixed slices."""
        return [parse_slice(text) for text in self.slices or ()]


class Recipe(_Frozen):
    """A set of settings that every row is run under."""

    preset: str | None = None
    set: Tree = {}


class Row(_Frozen):
    """One row of the table: a method with its settings, and what it is called."""

    name: str = Field(min_length=1)
    setting: str = "-"
    method: str | None = None
    set: Tree = {}
    data: Tree = Field({}, description="what differs from the study's `data`")
    seeds: Seeds | dict[str, Seeds] | None = Field(
        None, description="in place of the study's; by recipe, under those that are named"
    )
    recipes: Names | None = Field(None, description="only under these")
    x: float | None = Field(None, description="its place in the line figure")
    line: str = Field("", description="the line it belongs to there")


class Analysis(_Frozen):
    """How the slices, voxels and pictures of an analysis are drawn (the paper's appendix B)."""

    draws: int = Field(10, ge=1, description="pairs of slices a scan, for HSIC")
    voxels: int = Field(500, ge=10, description="voxels a class and model, for t-SNE")
    perplexity: float = Field(30.0, gt=1)
    scans: int | None = Field(None, ge=1, description="the first so many; None: all")
    seed: int = 0


class Study(_Frozen):
    """A study: rows × recipes × seeds × folds, one training each."""

    title: str
    kind: Literal["table", "hsic", "tsne"] = "table"
    data: Data
    preset: str | None = None
    set: Tree = {}
    recipes: dict[str, Recipe] = {}
    rows: tuple[Row, ...] = Field(min_length=1)
    seeds: Seeds = (0,)
    folds: int = Field(1, ge=1, le=5, description="how many of the five folds are run")
    curve: int | None = Field(None, ge=1, description="score every so many iterations")
    x_label: str | None = Field(None, description="draw Dice against the rows' `x`")
    pictures: int = Field(0, ge=0, description="held-out scans in the picture of contours")
    analysis: Analysis = Analysis()
    override: Tree = Field({}, description="settings that win over all others; `--set`")

    @model_validator(mode="after")
    def _names_are_sound(self) -> Study:
        keys = [(row.name, row.setting) for row in self.rows]
        for key in keys:
            if keys.count(key) > 1:
                raise ValueError(f"two rows are called {' / '.join(key)}; name each once")
        for row in self.rows:
            by_recipe = row.seeds if isinstance(row.seeds, dict) else {}
            for name in (*(row.recipes or ()), *by_recipe):
                if name not in self.recipes:
                    raise ValueError(f"row {row.name} asks for a recipe '{name}' that is not there")
        if self.x_label is not None and any(row.x is None for row in self.rows):
            raise ValueError("x_label is given, so every row needs an x")
        return self

    def seeds_of(self, row: Row, recipe: str) -> Seeds:
        """The seeds of a row under a recipe."""
        if isinstance(row.seeds, dict):
            return row.seeds.get(recipe, self.seeds)
        return self.seeds if row.seeds is None else row.seeds

    def data_of(self, row: Row) -> Data:
        """The study's data with what the row changes."""
        return Data.model_validate(self.data.model_dump() | row.data)


def load_study(file: Path, assignments: Iterable[str] = ()) -> Study:
    """A study file, or a shipped one by its name; or one line on what is wrong with it.

    `assignments` (`a.b=c`) win over every setting of the file.
    """
    path = file if file.is_file() else shipped().get(str(file), file)
    if not path.exists():
        known = ", ".join(shipped())
        raise SettingsError(f"{path}: there is no such study file. Shipped are: {known}.")
    study = parse_study(read_yaml(path), name=str(path))
    override = {**study.override, **dict(map(split_assignment, assignments))}
    return study.model_copy(update={"override": override})


def parse_study(tree: Any, *, name: str = "study") -> Study:
    """Validate a tree of plain values."""
    if not isinstance(tree, Mapping):
        raise SettingsError(f"{name}: holds {type(tree).__name__}, expected `name: value` lines.")
    try:
        study = Study.model_validate(dict(tree))
        for row in study.rows:
            study.data_of(row)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        what = "unknown name" if fault["type"] == "extra_forbidden" else fault["msg"]
        raise SettingsError(f"{name}: {f'{where}: ' if where else ''}{what}. Mend it.") from None
    return study


def shipped() -> dict[str, Path]:
    """The studies that come with twoslice, by name."""
    here = Path(__file__).parents[1]
    installed = here / "configs" / "studies"
    folder = installed if installed.is_dir() else here.parents[1] / "configs" / "studies"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}
