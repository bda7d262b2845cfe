"""The runs that a study asks for: rows × recipes × seeds × folds, each with resolved settings."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twoslice.settings import Settings, flat_names, load_settings
from twoslice.studies.files import Data, Recipe, Row, Study

_UNSAFE = re.compile(r"[^\w.+-]+")


@dataclass(frozen=True)
class PlannedData:
    """One sparse dataset: what is kept of the dense one, in which fold, and how propagated."""

    data: Data
    fold: int
    propagation: Mapping[str, Any] | None

    @property
    def plan(self) -> dict[str, Any]:
        """All that decides what the dataset is, as plain values."""
        data = self.data.model_dump(mode="json")
        return {"data": data, "fold": self.fold, "propagation": self.propagation}

    @property
    def name(self) -> str:
        """A folder name that tells it from any other."""
        return f"{_safe(self.data.dense)}-{self.data.labeled}-fold{self.fold}-{_digest(self.plan)}"

    @property
    def truth(self) -> str:
        """The folder name of its held-out labels, which other datasets may share."""
        told = [self.data.dense, self.data.held_out, self.data.labels]
        return f"{_safe(self.data.dense)}-{_digest(told)}"


@dataclass(frozen=True)
class PlannedRun:
    """One training, and where it stands in the table."""

    row: Row
    recipe: str
    seed: int
    fold: int
    settings: Settings
    data: PlannedData

    @property
    def name(self) -> str:
        """A folder name for it; unique in its study."""
        parts = [self.recipe, self.row.name, self.row.setting]
        told = "-".join(_safe(part) for part in parts if part not in ("", "-"))
        return f"{told}-seed{self.seed}-fold{self.fold}"

    @property
    def plan(self) -> dict[str, Any]:
        """All that decides what the run is, as plain values."""
        return {"settings": self.settings.model_dump(mode="json"), **self.data.plan}


def plan_runs(study: Study) -> list[PlannedRun]:
    """Every run of the study, or one line on a setting that is wrong."""
    recipes = study.recipes or {"": Recipe()}
    runs = []
    for recipe, layer in recipes.items():
        for row in study.rows:
            if row.recipes is not None and recipe not in row.recipes:
                continue
            for fold in range(study.folds):
                for seed in study.seeds_of(row, recipe):
                    runs.append(_planned(study, row, recipe, layer, seed, fold))
    names = [run.name for run in runs]
    assert len(set(names)) == len(names), "rows, recipes, seeds and folds make names of their own"
    return runs


def _planned(
    study: Study, row: Row, recipe: str, layer: Recipe, seed: int, fold: int
) -> PlannedRun:
    told: dict[str, Any] = {
        "training.pictures": False
    }  # those are for a person at one training, not at a hundred
    for tree in (study.set, layer.set, row.set, study.override):
        told |= flat_names(tree)
    told["training.seed"] = seed
    if study.curve is not None:
        told["training.checkpoint_every"] = study.curve
    data = study.data_of(row)
    if data.scheme != "orthogonal":
        told.setdefault("annotation.scheme", data.scheme)
    settings = load_settings(
        preset=layer.preset or study.preset,
        method=row.method,
        assignments=[f"{name}={json.dumps(value)}" for name, value in told.items()],
    )
    views = settings.training.setting == "dense" and not data.whole
    propagation = settings.propagation.model_dump(mode="json") if views else None
    return PlannedRun(row, recipe, seed, fold, settings, PlannedData(data, fold, propagation))


def _safe(text: str) -> str:
    return _UNSAFE.sub("_", text).strip("_.") or "_"


def _digest(tree: Any) -> str:
    told = json.dumps(tree, sort_keys=True, default=str)
    return hashlib.blake2b(told.encode(), digest_size=4).hexdigest()
