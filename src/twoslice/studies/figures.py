"""Figures of a study: Dice over the iterations, and Dice against what the rows vary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twoslice.io import atomic
from twoslice.studies.job import read_curve
from twoslice.studies.tables import TableRow

if TYPE_CHECKING:
    from twoslice.studies.study import StudyResult

# The paper's colours of contours (Figs. 6 to 8); others come from the list.
COLOURS = {
    "MT": "cyan",
    "CPS": "blue",
    "CTBCT": "limegreen",
    "CoraNet": "magenta",
    "DeSCO": "yellow",
}
_OTHERS = ("darkorange", "white", "mediumpurple", "saddlebrown", "gray", "deeppink", "teal")
_ON_WHITE = {"cyan": "darkturquoise", "yellow": "goldenrod", "white": "black"}
DPI = 110


def colour_of(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name: the paper's where it has one."""
    others = iter([*_OTHERS, *(f"C{index}" for index in range(len(names)))])
    return {name: COLOURS.get(name) or next(others) for name in dict.fromkeys(names)}


@contextmanager
def saved_figure(
    path: Path, rows: int, columns: int, *, size: tuple[float, float]
) -> Iterator[Any]:
    """A grid of axes, drawn without a screen and written whole."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    FigureCanvasAgg(figure)
    yield figure.subplots(rows, columns, squeeze=False)
    with atomic.whole_file(path) as scratch:
        figure.savefig(scratch, dpi=DPI)


def draw_curves(result: StudyResult, path: Path) -> None:
    """Mean Dice on the held-out scans over the iterations, a panel a recipe and a line a row."""
    recipes = list(dict.fromkeys(run.recipe for run, _ in result.finished))
    with saved_figure(path, 1, len(recipes), size=(6.5, 4.2)) as axes:
        for axis, recipe in zip(axes[0], recipes, strict=True):
            _curve_panel(axis, result, recipe)


def _curve_panel(axis: Any, result: StudyResult, recipe: str) -> None:
    groups: dict[tuple[str, str], list[dict[int, dict[str, float]]]] = {}
    for run, _ in result.finished:
        if run.recipe == recipe:
            curve = read_curve(result.folder(run))
            groups.setdefault((run.row.name, run.row.setting), []).append(curve)
    colours = colour_of([name for name, _ in groups])
    for (name, setting), curves in groups.items():
        steps = sorted(set.intersection(*(set(curve) for curve in curves)))
        dice = [100 * np.mean([curve[step]["dice"] for curve in curves]) for step in steps]
        axis.plot(
            steps,
            dice,
            label=name if setting == "-" else f"{name}, {setting}",
            color=_ON_WHITE.get(colours[name], colours[name]),
            linestyle="--" if setting.lower() == "sparse" else "-",
        )
    axis.set(xlabel="iteration", ylabel="Dice (%)", title=recipe)
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")


def draw_lines(rows: Sequence[TableRow], x_label: str, path: Path) -> None:
    """Dice against the rows' `x`, a line a name in `line`; bars are the deviation over runs."""
    recipes = list(dict.fromkeys(row.recipe for row in rows))
    with saved_figure(path, 1, len(recipes), size=(5.5, 4.0)) as axes:
        for axis, recipe in zip(axes[0], recipes, strict=True):
            here = [row for row in rows if row.recipe == recipe and row.x is not None]
            for line in dict.fromkeys(row.line for row in here):
                points = sorted((row for row in here if row.line == line), key=lambda r: r.x or 0)
                dice = [np.array(row.figures["dice"]) * 100 for row in points]
                axis.errorbar(
                    [row.x for row in points],
                    [values.mean() for values in dice],
                    yerr=[values.std(ddof=1) if len(values) > 1 else 0 for values in dice],
                    marker="o",
                    capsize=3,
                    label=line,
                )
            axis.set(xlabel=x_label, ylabel="Dice (%)", title=recipe)
            axis.grid(alpha=0.3)
            if any(row.line for row in here):
                axis.legend(fontsize="small")
