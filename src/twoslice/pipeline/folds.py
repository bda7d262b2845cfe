"""Held-out trainings: the same method without some of the labelled scans, to be asked about the
slices that were drawn in those.

The final networks were taught with every drawn slice, so what they say on them tells little about
other scans. A fold leaves a share of the labelled scans out (they count as unlabelled, as every
other scan does) and trains for a share of the time; its answers on their drawn slices are honest.
How large a share is told by the final training: as long as it took itself to learn the slices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.reading import read_annotation
from twoslice.io.dataset import Dataset
from twoslice.settings import Settings
from twoslice.training.journal import read_metrics
from twoslice.training.planner import Plan
from twoslice.training.volumes import resample_view, shape_at

LEAST_ITERATIONS = 200
"""Networks of 100 iterations had not found some labels at all yet (docs/LOG.md)."""
LEAST_SHARE = 0.25
"""Of the training: what a fold gets where the slices are learned sooner."""
LIKELY_SHARE = 0.4
"""What is said to be ahead before the training has told."""
_LEARNED = 0.9
_FEW = 20


@dataclass(frozen=True)
class Fold:
    """One held-out training: where it lies, what it is trained with, and whom it leaves out."""

    folder: Path
    dataset: Dataset
    settings: Settings
    held: tuple[str, ...]


def fold_share(settings: Settings, trained: Path | None) -> float:
    """How much of the training's length a fold gets: what the settings say, or what the finished
    training says; a guess while there is none.
    """
    if settings.quality.share is not None:
        return settings.quality.share
    return LIKELY_SHARE if trained is None else learned_after(read_metrics(trained))


def learned_after(rows: Sequence[Mapping[str, float]]) -> float:
    """The share of a training after which its Dice on drawn voxels, smoothed, was nine tenths of
    what it ended with, in steps of a twentieth; a quarter at least.

    A training that is cut shorter has not learned its labels, and what it says of scans that it
    does not know tells nothing of one that has.
    """
    known = [(row["step"], row["dice_drawn"]) for row in rows if "dice_drawn" in row]
    if len(known) < _FEW:
        return LEAST_SHARE
    steps, dice = np.array(known).T
    width = max(1, len(dice) // 30)
    smooth = np.convolve(dice, np.full(width, 1 / width), "valid")
    ended = smooth[-max(1, len(smooth) // 10) :].mean()
    first = int(np.argmax(smooth >= _LEARNED * ended))
    share = float(steps[width - 1 + first] / steps[-1])
    return max(LEAST_SHARE, math.ceil(20 * share) / 20)


def make_folds(
    dataset: Dataset, settings: Settings, plan: Plan, out: Path, share: float
) -> list[Fold]:
    """As many folds as are asked for, but each leaves one labelled scan out and keeps one. They get
    a `share` of the training's length.
    """
    labeled = sorted(dataset.labeled)
    count = min(settings.quality.folds, len(labeled))
    if count < 2:
        return []
    shorter = _shorter(settings, plan, share)
    groups = [tuple(labeled[index::count]) for index in range(count)]
    return [
        Fold(out / f"fold-{number}", dataset.unlabeling(held), shorter, held)
        for number, held in enumerate(groups, start=1)
    ]


def _shorter(settings: Settings, plan: Plan, share: float) -> Settings:
    """The settings of a fold: the whole schedule in a share of the iterations or minutes."""
    training = settings.training
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
