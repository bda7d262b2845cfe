"""Held-out trainings: the same method without some of the labelled scans, to be asked about the
slices that were drawn in those.

The final networks were taught with every drawn slice, so what they say on them tells little about
other scans. A fold leaves a share of the labelled scans out (they count as unlabelled, as every
other scan does) and trains for a share of the time; its answers on their drawn slices are honest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.reading import read_annotation
from twoslice.io.dataset import Dataset
from twoslice.settings import Settings
from twoslice.training.planner import Plan
from twoslice.training.volumes import resample_view, shape_at

LEAST_ITERATIONS = 200
"""Networks of 100 iterations had not found some labels at all yet (docs/LOG.md)."""


@dataclass(frozen=True)
class Fold:
    """One held-out training: where it lies, what it is trained with, and whom it leaves out."""

    folder: Path
    dataset: Dataset
    settings: Settings
    held: tuple[str, ...]


def make_folds(dataset: Dataset, settings: Settings, plan: Plan, out: Path) -> list[Fold]:
    """As many folds as are asked for, but each leaves one labelled scan out and keeps one."""
    labeled = sorted(dataset.labeled)
    count = min(settings.quality.folds, len(labeled))
    if count < 2:
        return []
    shorter = _shorter(settings, plan)
    groups = [tuple(labeled[index::count]) for index in range(count)]
    return [
        Fold(out / f"fold-{number}", dataset.unlabeling(held), shorter, held)
        for number, held in enumerate(groups, start=1)
    ]


def _shorter(settings: Settings, plan: Plan) -> Settings:
    """The settings of a fold: the whole schedule in a share of the iterations or minutes."""
    share, training = settings.quality.share, settings.training
    changes: dict[str, object] = {"pictures": False, "mlflow": None}
    if training.minutes is not None:
        changes["minutes"] = share * training.minutes
    else:
        changes["iterations"] = max(
            min(LEAST_ITERATIONS, plan.iterations), round(share * plan.iterations)
        )
    return settings.model_copy(update={"training": training.model_copy(update=changes)})


@dataclass(frozen=True, eq=False)
class DrawnSlice:
    """A drawn slice on the networks' grid: where it lies, and its labels there."""

    name: str
    mask: NDArray[np.bool_]
    labels: NDArray[np.uint8]


def drawn_slices(dataset: Dataset, case: str, plan: Plan) -> Iterator[DrawnSlice]:
    """The drawn slices of a case, one by one, on the grid that the networks see."""
    annotation = read_annotation(dataset, case)
    grid = dataset.read_grid(case).ras
    shape = shape_at(grid.shape, grid.spacing, plan.spacing)
    for each in annotation.slices:
        distance = np.ones(annotation.shape, np.int16)
        labels = np.zeros(annotation.shape, np.uint8)
        place = each.plane.slice(each.index)
        distance[place], labels[place] = 0, each.mask
        there, away = resample_view(labels, distance, shape)
        yield DrawnSlice(f"{each.plane} {each.index}", away == 0, there)
