"""What a study leaves for people: tables always, figures where matplotlib is there."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from twoslice.io import atomic
from twoslice.progress import Progress
from twoslice.studies import tables
from twoslice.studies.study import StudyResult


def write_outputs(result: StudyResult, dense: Mapping[str, Path], *, progress: Progress) -> None:
    """The table in its three forms, a line a run, curves, figures, and the analysis if it is one.

    They are made anew from the runs that are there. A study without a finished run has none.
    """
    if not result.finished:
        return
    out, rows = result.out, tables.table_rows(result)
    atomic.write_text(out / "table.md", tables.markdown(rows))
    atomic.write_text(out / "table.csv", tables.table_csv(rows))
    atomic.write_text(out / "table.tex", tables.latex(rows))
    atomic.write_text(out / "runs.csv", tables.runs_csv(result))
    curves = tables.curves_csv(result)
    if curves:
        atomic.write_text(out / "curves.csv", curves)
    _analyse(result, dense, progress)
    if find_spec("matplotlib") is None:
        progress.say("no figures: matplotlib is not installed. pip install 'twoslice[studies]'")
        return
    from twoslice.studies import figures

    if curves:
        figures.draw_curves(result, out / "curves.png")
    if result.study.x_label is not None:
        figures.draw_lines(rows, result.study.x_label, out / "lines.png")
    if result.study.pictures:
        from twoslice.studies.contours import draw_contours

        draw_contours(result, dense, out / "contours.png")


def _analyse(result: StudyResult, dense: Mapping[str, Path], progress: Progress) -> None:
    """An analysis wants all of its models."""
    if result.study.kind == "table" or result.failed:
        return
    if result.study.kind == "hsic":
        from twoslice.studies.hsic_study import analyse_slices

        analyse_slices(result, dense, progress=progress)
    else:
        from twoslice.studies.tsne_study import analyse_features

        analyse_features(result, dense, progress=progress)
