"""Qualitative figures: outlines of the truth and of every method on the same slices (Figs. 6-8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoslice.io.dataset import Dataset
from twoslice.io.scans import read_label_map
from twoslice.planes import Plane
from twoslice.report.figures import fullest_slice, window
from twoslice.studies.figures import colour_of, saved_figure
from twoslice.studies.grid import PlannedRun
from twoslice.studies.job import PREDICTIONS

if TYPE_CHECKING:
    from twoslice.studies.study import StudyResult

TRUTH = "red"
_EVERYWHERE = "-"
_WIDTH = 4.2


@dataclass(frozen=True)
class Panel:
    """The runs whose outlines share a picture: one recipe and setting."""

    title: str
    runs: tuple[PlannedRun, ...]


def panels_of(runs: Sequence[PlannedRun]) -> list[Panel]:
    """A panel a recipe and setting; rows without a setting are in each of their recipe's. Of each
    row the first seed and fold is shown.
    """
    panels = []
    for recipe in dict.fromkeys(run.recipe for run in runs):
        first: dict[tuple[str, str], PlannedRun] = {}
        for run in runs:
            if run.recipe == recipe:
                first.setdefault((run.row.name, run.row.setting), run)
        settings = dict.fromkeys(setting for _, setting in first if setting != _EVERYWHERE)
        for setting in settings or (_EVERYWHERE,):
            shown = [run for (_, own), run in first.items() if own in (setting, _EVERYWHERE)]
            told = [part for part in (recipe, setting) if part not in ("", _EVERYWHERE)]
            panels.append(Panel(", ".join(told), tuple(shown)))
    return panels


def draw_contours(result: StudyResult, dense: Mapping[str, Path], path: Path) -> None:
    """A line a held-out scan, a column a panel, on the axial slice that shows the most target."""
    runs = [run for run, _ in result.finished]
    panels = panels_of(runs)
    colours = colour_of([run.row.name for run in runs])
    truth = result.out / "truth" / runs[0].data.truth
    opened = Dataset.open(dense[runs[0].data.data.dense])
    cases = [p.name.removesuffix(".nii.gz") for p in sorted(truth.glob("*.nii.gz"))]
    cases = cases[: result.study.pictures]
    grid = opened.read_grid(cases[0]).ras
    tall = grid.shape[1] * grid.spacing[1] / (grid.shape[0] * grid.spacing[0])
    size = (_WIDTH, _WIDTH * tall + 0.3)
    with saved_figure(path, len(cases), len(panels), size=size) as axes:
        for line, case in zip(axes, cases, strict=True):
            image, labels = opened.read_image(case), read_label_map(truth / f"{case}.nii.gz").data
            index = fullest_slice(labels, Plane.AXIAL)
            for axis, panel in zip(line, panels, strict=True):
                _show(axis, image.data[0], index, image.spacing)
                for run in panel.runs:
                    file = result.folder(run) / PREDICTIONS / f"{case}.nii.gz"
                    _outline(axis, read_label_map(file).data, index, colours[run.row.name])
                _outline(axis, labels, index, TRUTH)
                axis.set_title(f"{case} {panel.title}", fontsize="small")
        _legend(axes[0][0], {"truth": TRUTH, **colours})


def _show(axis: Any, image: NDArray[np.float32], index: int, spacing: Sequence[float]) -> None:
    low, high = window(image)
    axis.imshow(
        Plane.AXIAL.facing(image, index),
        cmap="gray",
        vmin=low,
        vmax=high,
        aspect=spacing[1] / spacing[0],
    )
    axis.set_axis_off()


def _outline(axis: Any, labels: NDArray[np.integer], index: int, colour: str) -> None:
    shown = Plane.AXIAL.facing(labels, index)
    for value in np.unique(shown[shown > 0]):
        axis.contour(shown == value, levels=[0.5], colors=[colour], linewidths=0.9)


def _legend(axis: Any, colours: Mapping[str, str]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=colour, label=name) for name, colour in colours.items()]
    axis.legend(
        handles=handles,
        fontsize="x-small",
        loc="lower left",
        facecolor="black",
        labelcolor="white",
        framealpha=0.6,
    )
