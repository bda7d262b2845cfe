"""Folders of label maps scored against each other: rows, summary, and every kind of mismatch."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from twoslice.errors import AnnotationError, InputError, SettingsError
from twoslice.evaluation.evaluate import Evaluation, evaluate, summarise
from twoslice.evaluation.tables import (
    latex_table,
    markdown_table,
    summary_table,
    write_csv,
    write_table,
)
from twoslice.io.description import write_description
from twoslice.io.grid import Grid
from twoslice.io.scans import write_labels

NAMES = ("background", "organ", "gland")
SHAPE = (12, 10, 8)


def grid(shift: float = 0.0, shape: tuple[int, int, int] = SHAPE) -> Grid:
    affine = np.diag([-1.0, -1.0, 2.5, 1.0])
    affine[0, 3] = shift
    return Grid(shape, affine)


def describe(folder: Path) -> None:
    labels = {"background": 0, "organ": 1, "gland": 2}
    write_description(folder, name="x", channel_names=["MR"], labels=labels, ignore=3)


def boxes(organ: slice, gland: slice | None = None) -> NDArray[np.uint8]:
    labels = np.zeros(SHAPE, dtype=np.uint8)
    labels[organ, 2:8, 2:6] = 1
    if gland is not None:
        labels[gland, 2:8, 2:6] = 2
    return labels


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    ours, theirs = tmp_path / "predictions", tmp_path / "labels"
    write_labels(theirs / "a.nii.gz", boxes(slice(2, 6), slice(6, 8)), grid())
    write_labels(ours / "a.nii.gz", boxes(slice(2, 6), slice(6, 8)), grid())
    write_labels(theirs / "b.nii.gz", boxes(slice(2, 6), slice(6, 8)), grid())
    write_labels(ours / "b.nii.gz", boxes(slice(4, 8)), grid())
    return ours, theirs


def test_there_is_a_row_for_every_case_and_label_in_millimetres_and_voxels(
    folders: tuple[Path, Path],
) -> None:
    found = evaluate(*folders, class_names=NAMES)
    rows = {(row["case"], row["label"]): row for row in found.cases}
    assert set(rows) == {("a", "organ"), ("a", "gland"), ("b", "organ"), ("b", "gland")}
    assert rows["a", "organ"]["dice"] == 1.0
    assert rows["b", "organ"]["dice"] == pytest.approx(0.5)
    assert rows["b", "organ"]["hd95_voxel"] == pytest.approx(2.0)
    assert rows["b", "gland"]["flag"] == "prediction is empty"
    assert rows["b", "gland"]["hd95_mm"] == pytest.approx(np.linalg.norm([12, 10, 20]))


def test_the_summary_averages_labels_within_a_case_and_then_cases(
    folders: tuple[Path, Path],
) -> None:
    summary = evaluate(*folders, class_names=NAMES).summary
    assert summary["labels"]["organ"]["dice"]["mean"] == pytest.approx(0.75)
    assert summary["labels"]["gland"]["dice"]["mean"] == pytest.approx(0.5)
    assert summary["overall"]["dice"]["mean"] == pytest.approx(0.625)
    assert summary["overall"]["dice"]["std"] == pytest.approx(np.std([1.0, 0.25], ddof=1))
    assert [entry["case"] for entry in summary["flagged"]] == ["b"]


def test_what_is_written_is_read_back_and_shown(folders: tuple[Path, Path]) -> None:
    found = evaluate(*folders, class_names=NAMES)
    path = folders[0].parent / "scores.json"
    found.write(path)
    assert Evaluation.read(path) == found
    assert set(json.loads(path.read_text())) == {"cases", "summary"}
    lines = summary_table(found).splitlines()
    assert lines[1].split()[:4] == ["organ", "75.0", "±", "35.4"]
    assert lines[3].startswith("mean of labels")


def test_names_come_from_a_dataset_json_beside_the_labels(folders: tuple[Path, Path]) -> None:
    describe(folders[1].parent)
    labels = [row["label"] for row in evaluate(*folders).cases]
    assert labels == ["organ", "gland"] * 2


def test_without_names_a_label_that_shows_in_only_some_cases_is_refused(
    folders: tuple[Path, Path],
) -> None:
    write_labels(folders[0] / "c.nii.gz", boxes(slice(2, 6)), grid())
    write_labels(folders[1] / "c.nii.gz", boxes(slice(2, 6)), grid())
    with pytest.raises(AnnotationError, match=r"case c: label 2 .*--names"):
        evaluate(*folders)


def test_a_label_without_a_prediction_is_named(folders: tuple[Path, Path]) -> None:
    (folders[0] / "b.nii.gz").unlink()
    with pytest.raises(InputError, match=r"predictions: lacks 1 of 2 cases \(b\)"):
        evaluate(*folders, class_names=NAMES)
    assert len(evaluate(*folders, class_names=NAMES, cases=["a"]).cases) == 2


def test_a_prediction_without_a_label_is_named(folders: tuple[Path, Path]) -> None:
    (folders[1] / "a.nii.gz").unlink()
    with pytest.raises(InputError, match=r"labels: lacks 1 of 2 cases \(a\)"):
        evaluate(*folders, class_names=NAMES)


@pytest.mark.parametrize("other", [grid(shift=3.0), grid(shape=(12, 10, 9))])
def test_different_grids_are_refused(folders: tuple[Path, Path], other: Grid) -> None:
    write_labels(folders[0] / "b.nii.gz", np.ones(other.ras.shape, dtype=np.uint8), other)
    with pytest.raises(AnnotationError, match=r"case b: .*another grid"):
        evaluate(*folders, class_names=NAMES)


def test_drawn_slices_are_not_taken_for_dense_labels(folders: tuple[Path, Path]) -> None:
    describe(folders[1].parent)
    sparse = np.full(SHAPE, 3, dtype=np.uint8)
    write_labels(folders[1] / "a.nii.gz", sparse, grid())
    with pytest.raises(AnnotationError, match="ignore label 3"):
        evaluate(*folders)


def test_a_value_past_the_last_name_is_refused(folders: tuple[Path, Path]) -> None:
    with pytest.raises(AnnotationError, match="label value 2"):
        evaluate(*folders, class_names=NAMES[:2])


def test_an_empty_folder_and_a_missing_one_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        evaluate(tmp_path / "nowhere", tmp_path)
    with pytest.raises(InputError, match="holds no label map"):
        evaluate(tmp_path, tmp_path)


def test_two_files_for_one_case_are_refused(folders: tuple[Path, Path]) -> None:
    ours, _ = folders
    write_labels(ours / "a.nii", boxes(slice(2, 6)), grid())
    with pytest.raises(InputError, match=r"a\.nii and a\.nii\.gz are both case a"):
        evaluate(*folders, class_names=NAMES)


def test_the_same_voxels_in_another_axis_order_score_the_same(folders: tuple[Path, Path]) -> None:
    ours, _ = folders
    before = evaluate(*folders, class_names=NAMES)
    flipped = Grid(SHAPE, grid().affine @ np.diag([-1.0, 1.0, 1.0, 1.0]))
    flipped.affine[:3, 3] = (grid().affine @ [SHAPE[0] - 1, 0, 0, 1])[:3]
    write_labels(ours / "b.nii.gz", boxes(slice(4, 8)), flipped)
    assert evaluate(*folders, class_names=NAMES).cases == before.cases


def rows_of(dices: NDArray[np.float64]) -> list[dict[str, object]]:
    """Rows whose every figure is the given one, for a single label."""
    figures = summarise(_no_rows(), seed=0)["overall"]
    return [
        {"case": f"c{i}", "label": "organ", "flag": None, **dict.fromkeys(figures, float(dice))}
        for i, dice in enumerate(dices)
    ]


def _no_rows() -> list[dict[str, object]]:
    from twoslice.evaluation.evaluate import SUMMARISED

    return [{"case": "c", "label": "organ", "flag": None, **dict.fromkeys(SUMMARISED, 0.5)}]


def test_the_bootstrap_interval_agrees_with_scipys_and_is_seeded() -> None:
    dices = np.random.default_rng(3).beta(8, 2, 30)
    found = summarise(rows_of(dices))["overall"]["dice"]
    theirs = stats.bootstrap(
        (dices,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    np.testing.assert_allclose(found["interval"], [theirs.low, theirs.high], atol=0.006)
    assert summarise(rows_of(dices), seed=0) == summarise(rows_of(dices), seed=0)
    other = summarise(rows_of(dices), seed=1)["overall"]["dice"]
    assert other["interval"] != found["interval"]
    assert other["mean"] == found["mean"]


def test_one_case_has_no_interval() -> None:
    assert summarise(rows_of(np.array([0.7])))["overall"]["dice"]["interval"] is None


def test_the_csv_holds_every_row_and_figure(folders: tuple[Path, Path]) -> None:
    found = evaluate(*folders, class_names=NAMES)
    path = folders[0].parent / "scores.csv"
    write_csv(found, path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    for row, original in zip(rows, found.cases, strict=True):
        assert row["case"] == original["case"]
        assert float(row["hd95_mm"]) == original["hd95_mm"]
        assert row["flag"] == (original["flag"] or "")


def test_the_table_is_in_the_papers_columns_in_markdown_and_latex(
    folders: tuple[Path, Path],
) -> None:
    names = ("background", "organ_1 & co", "gland|b")
    found = evaluate(*folders, class_names=names)
    head, marks, first, *_ = markdown_table(found).splitlines()
    assert head.split(" | ")[1:5] == ["Dice (%)", "Jaccard (%)", "HD95 (voxel)", "ASD (voxel)"]
    assert head.count("|") == marks.count("|") == first.count("|")
    assert "75.00 ± 35.36" in first
    latex = latex_table(found)
    assert r"organ\_1 \& co & 75.00 $\pm$ 35.36" in latex
    assert r"Dice (\%)" in latex
    rows = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") for line in rows} == {6}
    for ending in ("md", "tex"):
        write_table(found, folders[0].parent / f"table.{ending}")
        assert (folders[0].parent / f"table.{ending}").read_text()
    with pytest.raises(SettingsError, match=r"table\.docx: expected"):
        write_table(found, folders[0].parent / "table.docx")
