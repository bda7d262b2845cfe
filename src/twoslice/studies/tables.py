"""A study's runs as the paper's table: mean ± standard deviation over folds and seeds, labelled
slices, L / U volumes; as Markdown, CSV and LaTeX.

Times are in `runs.csv` and not in the table: a study that was killed on its way gives the same
table as one that was not.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twoslice.evaluation.evaluate import SUMMARISED
from twoslice.evaluation.tables import PAPER, as_latex, as_markdown
from twoslice.studies.grid import PlannedRun
from twoslice.studies.job import read_curve

if TYPE_CHECKING:
    from twoslice.studies.study import StudyResult


@dataclass(frozen=True)
class TableRow:
    """One row: what it is, and the figures of its runs, a value a run."""

    recipe: str
    name: str
    setting: str
    x: float | None
    line: str
    volumes: str
    slices: str
    runs: int
    figures: Mapping[str, tuple[float, ...]]
    labels: Mapping[str, tuple[float, ...]]
    largest: tuple[float, ...]

    def mean(self, metric: str) -> float:
        """The mean over its runs."""
        return float(np.mean(self.figures[metric]))


def table_rows(result: StudyResult) -> list[TableRow]:
    """The rows in the study's order; a row without a finished run is left out."""
    groups: dict[tuple[str, str, str], list[tuple[PlannedRun, dict[str, Any]]]] = {}
    for run, found in result.finished:
        groups.setdefault((run.recipe, run.row.name, run.row.setting), []).append((run, found))
    return [_row(runs) for runs in groups.values()]


def markdown(rows: Sequence[TableRow]) -> str:
    """The table, and one of the labels' own Dice where there are several."""
    text = as_markdown(_cells(rows, "±"))
    names = list(dict.fromkeys(name for row in rows for name in row.labels))
    if len(names) < 2:
        return text
    head = [*_heads(rows), *(f"{name}, Dice (%)" for name in names)]
    cells = [
        [*_told(rows, row), *(_spread([100 * v for v in row.labels[n]], 2, "±") for n in names)]
        for row in rows
    ]
    return f"{text}\n{as_markdown([head, *cells])}"


def latex(rows: Sequence[TableRow]) -> str:
    """The table for LaTeX with booktabs."""
    return as_latex(_cells(rows, r"$\pm$"), text=len(_heads(rows)))


def table_csv(rows: Sequence[TableRow]) -> str:
    """Mean, standard deviation and number of runs of every metric, a line a row."""
    lines = []
    for row in rows:
        line: dict[str, Any] = {
            "recipe": row.recipe,
            "method": row.name,
            "setting": row.setting,
            "x": "" if row.x is None else row.x,
            "line": row.line,
            "volumes": row.volumes,
            "slices": row.slices,
            "runs": row.runs,
        }
        figures = {**row.figures, "dice, largest piece": row.largest}
        figures |= {f"dice {name}": values for name, values in row.labels.items()}
        for metric, values in figures.items():
            line[f"{metric} mean"], line[f"{metric} std"] = float(np.mean(values)), _std(values)
        lines.append(line)
    return _csv(lines)


def runs_csv(result: StudyResult) -> str:
    """A line a run, with its time."""
    lines = []
    for run, found in result.finished:
        overall = found["summary"]["overall"]
        lines.append(
            {
                **_identity(run),
                "iterations": found["iterations"],
                "minutes": round(found["seconds"] / 60, 2),
                **{metric: overall[metric]["mean"] for metric in SUMMARISED},
            }
        )
    return _csv(lines)


def curves_csv(result: StudyResult) -> str:
    """A line a run and scored checkpoint; empty where no curve was asked for."""
    lines = []
    for run, _ in result.finished:
        for step, means in read_curve(result.folder(run)).items():
            lines.append({**_identity(run), "iteration": step, **means})
    return _csv(lines)


def _identity(run: PlannedRun) -> dict[str, Any]:
    return {
        "recipe": run.recipe,
        "method": run.row.name,
        "setting": run.row.setting,
        "seed": run.seed,
        "fold": run.fold,
    }


def _row(runs: Sequence[tuple[PlannedRun, dict[str, Any]]]) -> TableRow:
    first, found = runs[0]
    overall = [each["summary"]["overall"] for _, each in runs]
    by_label = [each["summary"]["labels"] for _, each in runs]
    counts = sorted({each["slices"] for _, each in runs})  # whole volumes differ from fold to fold
    return TableRow(
        recipe=first.recipe,
        name=first.row.name,
        setting=first.row.setting,
        x=first.row.x,
        line=first.row.line,
        volumes=f"{found['labeled']} / {found['unlabeled']}",
        slices="–".join(map(str, dict.fromkeys((counts[0], counts[-1])))),
        runs=len(runs),
        figures={m: tuple(each[m]["mean"] for each in overall) for m in SUMMARISED},
        largest=tuple(each["largest_piece"]["dice"] for _, each in runs),
        labels={n: tuple(each[n]["dice"]["mean"] for each in by_label) for n in by_label[0]},
    )


def _heads(rows: Sequence[TableRow]) -> list[str]:
    recipe = ["Recipe"] if any(row.recipe for row in rows) else []
    return [*recipe, "Method", "Setting"]


def _told(rows: Sequence[TableRow], row: TableRow) -> list[str]:
    recipe = [row.recipe] if any(each.recipe for each in rows) else []
    return [*recipe, row.name, row.setting]


def _cells(rows: Sequence[TableRow], sign: str) -> list[list[str]]:
    head = [
        *_heads(rows),
        "L / U volumes",
        "Labelled slices",
        "Runs",
        *(name for name, *_ in PAPER),
        "Dice, largest piece (%)",
    ]
    cells = [head]
    for row in rows:
        figures = [
            _spread([factor * value for value in row.figures[metric]], decimals, sign)
            for _, metric, factor, decimals in PAPER
        ]
        figures.append(_spread([100 * value for value in row.largest], 2, sign))
        cells.append([*_told(rows, row), row.volumes, row.slices, str(row.runs), *figures])
    return cells


def _spread(values: Sequence[float], decimals: int, sign: str) -> str:
    """A single run has no deviation, and none is made up for it."""
    mean = f"{np.mean(values):.{decimals}f}"
    return mean if len(values) == 1 else f"{mean} {sign} {_std(values):.{decimals}f}"


def _std(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _csv(lines: Sequence[Mapping[str, Any]]) -> str:
    if not lines:
        return ""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return stream.getvalue()
