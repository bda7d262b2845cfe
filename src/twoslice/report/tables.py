"""Tables of the page: scans with their metrics or sizes, and methods side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoslice.evaluation.evaluate import Evaluation


@dataclass(frozen=True)
class Cell:
    """One cell: its text; for a share between 0 and 1 the length of the bar behind it; a number to
    sort by; files that it links to, by name; the scan that a click on it shows.
    """

    text: str
    bar: float | None = None
    strong: bool = False
    sort: float | None = None
    links: tuple[tuple[str, str], ...] = ()
    show: int | None = None
    words: bool = False


@dataclass(frozen=True)
class Table:
    """Headings and rows; the first column names the row."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    foot: tuple[Cell, ...] = ()
    note: str = ""
    sortable: bool = False
    caption: str = ""


@dataclass(frozen=True)
class Rival:
    """Another way to get labels, its scores, and on which scans they were measured."""

    name: str
    evaluation: Evaluation
    scored_on: str


def scores_table(evaluation: Evaluation) -> Table:
    """A row a scan: Dice of every label, their mean and the distances; the worst scan first."""
    labels = list(evaluation.summary["labels"])
    by_case: dict[str, dict[str, dict[str, object]]] = {}
    for row in evaluation.cases:
        by_case.setdefault(row["case"], {})[row["label"]] = row
    rows = []
    for case in worst_first(evaluation):
        group = [by_case[case][label] for label in labels]
        dice = [_value(row, "dice") for row in group]
        flags = "; ".join(f"{row['label']}: {row['flag']}" for row in group if row["flag"])
        rows.append(
            (
                Cell(case + (f" ({flags})" if flags else "")),
                *(_percent(score) for score in dice),
                _percent(float(np.mean(dice)), strong=True),
                Cell(f"{np.mean([_value(row, 'hd95_mm') for row in group]):.1f}"),
                Cell(f"{np.mean([_value(row, 'asd_mm') for row in group]):.2f}"),
            )
        )
    overall = evaluation.summary["overall"]
    foot = (
        Cell("mean ± std"),
        *(_spread(evaluation.summary["labels"][label]["dice"], 100, 1) for label in labels),
        _spread(overall["dice"], 100, 1),
        _spread(overall["hd95_mm"], 1, 1),
        _spread(overall["asd_mm"], 1, 2),
    )
    headings = ("scan", *(f"Dice {label}" for label in labels), "mean Dice", "HD95 mm", "ASD mm")
    return Table(headings, tuple(rows), foot)


def worst_first(evaluation: Evaluation) -> list[str]:
    """The cases by their mean Dice, the lowest first."""
    scores: dict[str, list[float]] = {}
    for row in evaluation.cases:
        scores.setdefault(row["case"], []).append(row["dice"])
    return sorted(scores, key=lambda case: (float(np.mean(scores[case])), case))


def sizes_table(
    sizes: dict[str, tuple[NDArray[np.int64], float]], class_names: Sequence[str]
) -> Table:
    """A row a scan: the volume of every label, from voxel counts and millilitres a voxel."""
    rows = tuple(
        (Cell(case), *(Cell(f"{count * ml:.1f}") for count in counts[1:]))
        for case, (counts, ml) in sizes.items()
    )
    volumes = np.array([counts[1:] * ml for counts, ml in sizes.values()])
    foot = (
        Cell("mean ± std"),
        *(Cell(f"{column.mean():.1f} ± {column.std():.1f}") for column in volumes.T),
    )
    return Table(("scan", *(f"{name} ml" for name in class_names[1:])), rows, foot)


def rivals_table(rivals: Sequence[Rival]) -> Table:
    """Ways to get labels, side by side, whichever wins."""
    best = max(rival.evaluation.mean_dice for rival in rivals)
    rows = []
    for rival in rivals:
        overall = rival.evaluation.summary["overall"]
        mean = overall["dice"]["mean"]
        rows.append(
            (
                Cell(rival.name, strong=mean == best),
                Cell(rival.scored_on),
                Cell(_spread(overall["dice"], 100, 1).text, bar=mean, strong=mean == best),
                _spread(overall["hd95_mm"], 1, 1),
                _spread(overall["asd_mm"], 1, 2),
            )
        )
    return Table(("labels from", "scored on", "Dice", "HD95 mm", "ASD mm"), tuple(rows))


def _value(row: dict[str, object], metric: str) -> float:
    value = row[metric]
    assert isinstance(value, int | float)
    return float(value)


def _percent(share: float, *, strong: bool = False) -> Cell:
    return Cell(f"{100 * share:.1f}", bar=share, strong=strong)


def _spread(entry: dict[str, float], factor: float, decimals: int) -> Cell:
    return Cell(f"{entry['mean'] * factor:.{decimals}f} ± {entry['std'] * factor:.{decimals}f}")
