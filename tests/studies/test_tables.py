"""The forms of the table, from figures that are known."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

from twoslice.evaluation.evaluate import SUMMARISED
from twoslice.studies.figures import draw_lines
from twoslice.studies.tables import TableRow, latex, markdown, table_csv


def row(name: str, dice: tuple[float, ...], *, recipe: str = "", labels: int = 1) -> TableRow:
    return TableRow(
        recipe=recipe,
        name=name,
        setting="Dense",
        x=None,
        line="",
        volumes="5 / 59",
        slices="10",
        runs=len(dice),
        figures=dict.fromkeys(SUMMARISED, dice),
        labels={f"organ {index}": dice for index in range(labels)},
        largest=dice,
    )


def test_several_runs_have_mean_and_deviation_and_a_single_one_has_none() -> None:
    lines = markdown([row("many", (0.8, 0.9)), row("one", (0.5,))]).splitlines()
    assert lines[2].startswith("| many | Dense | 5 / 59 | 10 | 2 | 85.00 ± 7.07 |")
    assert lines[3].startswith("| one | Dense | 5 / 59 | 10 | 1 | 50.00 |")


def test_recipes_are_a_column_where_there_are_any() -> None:
    assert markdown([row("a", (0.5,))]).startswith("| Method | Setting |")
    assert markdown([row("a", (0.5,), recipe="paper")]).startswith("| Recipe | Method | Setting |")


def test_labels_have_a_table_of_their_own_where_there_are_several() -> None:
    text = markdown([row("a", (0.5, 0.7), labels=2)])
    assert "organ 0, Dice (%) | organ 1, Dice (%) |" in text
    assert text.count("60.00 ± 14.14") == 5  # Dice, Jaccard, largest piece, and both labels


def test_latex_escapes_words_and_keeps_figures() -> None:
    text = latex([row("#1 & more_or_less", (0.5, 0.7))])
    assert r"\#1 \& more\_or\_less & Dense & 5 / 59 & 10 & 2 & 60.00 $\pm$ 14.14" in text
    assert r"Dice (\%)" in text
    columns = text.splitlines()[0].removeprefix(r"\begin{tabular}{").removesuffix("}")
    assert all(line.count(" & ") == len(columns) - 1 for line in text.splitlines() if "&" in line
               and r"\#" not in line)  # fmt: skip


def test_csv_has_every_metric() -> None:
    (line,) = csv.DictReader(io.StringIO(table_csv([row("a", (0.5, 0.7))])))
    for metric in (*SUMMARISED, "dice, largest piece", "dice organ 0"):
        assert float(line[f"{metric} mean"]) == pytest.approx(0.6)


def test_dice_is_drawn_against_what_the_rows_vary(tmp_path: Path) -> None:
    rows = [
        replace(row(f"{line} {x}", (0.5 + x / 100, 0.6)), x=float(x), line=line)
        for line in ("dense", "orthogonal")
        for x in (10, 20)
    ]
    draw_lines(rows, "labelled slices", tmp_path / "lines.png")
    assert (tmp_path / "lines.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["lines.png"]
