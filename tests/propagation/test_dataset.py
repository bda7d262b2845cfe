"""The stage over a dataset: files, resuming, failures, and the same bytes on any thread count."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from propagation.scenes import two_blobs
from twoslice import cli
from twoslice.annotation.simulate import simulate
from twoslice.errors import DatasetError
from twoslice.io.dataset import Dataset, write_description
from twoslice.propagation.cases import CaseSummary, propagate_case
from twoslice.propagation.dataset import (
    PropagationPartialError,
    PropagationSummary,
    propagate_dataset,
    summary_table,
)
from twoslice.propagation.views import read_view, read_views

# Left-posterior-superior with unequal spacing: nothing is RAS by accident.
AFFINE = np.diag([-1.5, -1.0, 2.0, 1.0])


def save(path: Path, array: NDArray[np.generic]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(array, AFFINE), path)


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Three cases with an axial and a coronal slice each."""
    dense = tmp_path / "dense"
    for seed, case in enumerate(("a", "b", "c")):
        image, label = two_blobs((30, 28, 24), seed=seed)
        save(dense / "imagesTr" / f"{case}_0000.nii.gz", image[0])
        save(dense / "labelsTr" / f"{case}.nii.gz", label)
    labels = {"background": 0, "left": 1, "right": 2}
    write_description(dense, name="dense", channel_names=["MR"], labels=labels, ignore=None)
    return simulate(Dataset.open(dense), tmp_path / "sparse", labeled=3)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def spoil(dataset: Dataset, case: str) -> None:
    """Make the image constant."""
    save(dataset.root / "imagesTr" / f"{case}_0000.nii.gz", np.ones((30, 28, 24), np.float32))


def test_views_lie_on_the_images_own_grid_with_their_record(dataset: Dataset) -> None:
    summary = propagate_dataset(dataset)
    folder = dataset.root / "propagated"
    names = ("axial", "coronal", "fused", "axial_cycle", "coronal_cycle", "disagreement")
    for case in "abc":
        for name in names:
            written = nib.load(folder / f"{case}_{name}.nii.gz")
            np.testing.assert_allclose(written.affine, AFFINE)
            assert written.shape == (30, 28, 24)
            assert written.get_data_dtype() == np.uint8
        record = json.loads((folder / f"{case}.json").read_text())
        assert set(record["quality"]["views"]) == {"axial", "coronal"}
        assert 0 < record["quality"]["expected_dice"] <= 1
    rows = summary_table(summary)
    assert [row["case"] for row in rows] == ["a", "b", "c"]
    assert rows[0]["expected Dice"] == summary.cases[0].expected


def test_views_are_read_back_with_drawn_voxels_at_distance_0(dataset: Dataset) -> None:
    propagate_dataset(dataset)
    drawn = dataset.read_labels("a").data
    views = read_views(dataset, "a")
    assert list(views) == ["axial", "coronal", "fused"]
    for name, view in views.items():
        known = drawn != dataset.ignore
        np.testing.assert_array_equal(view.label[known], drawn[known])
        assert not view.distance[known].any()
        np.testing.assert_array_equal(view.label, read_view(dataset, "a", name).label)
    smallest = np.minimum(views["axial"].distance, views["coronal"].distance)
    np.testing.assert_array_equal(views["fused"].distance, smallest)


def test_one_thread_or_two_and_a_second_run_write_the_same_bytes(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = torch.get_num_threads()
    written = []
    try:
        for threads, out in ((1, "one"), (2, "two"), (2, "again")):
            monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
            torch.set_num_threads(threads)
            propagate_dataset(dataset, out=tmp_path / out)
            assert torch.get_num_threads() == threads
            written.append(files(tmp_path / out))
    finally:
        torch.set_num_threads(before)
    assert written[0] == written[1] == written[2]


def test_finished_cases_are_kept_and_unfinished_or_changed_ones_made(dataset: Dataset) -> None:
    propagate_dataset(dataset)
    folder = dataset.root / "propagated"
    first = files(folder)
    (folder / "a.json").unlink()  # as if stopped before the record was written
    (folder / "b_fused.nii.gz").unlink()
    kept = {each.case: each.kept for each in propagate_dataset(dataset).cases}
    assert kept == {"a": False, "b": False, "c": True}
    assert files(folder) == first
    label = dataset.root / "labelsTr" / "c.nii.gz"
    drawing = np.asarray(nib.load(label).dataobj).astype(np.uint8)
    save(label, np.where(drawing == 2, 1, drawing).astype(np.uint8))
    kept = {each.case: each.kept for each in propagate_dataset(Dataset.open(dataset.root)).cases}
    assert kept == {"a": True, "b": True, "c": False}


def test_a_job_done_twice_because_its_worker_died_has_kept_nothing(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(**arguments: Any) -> CaseSummary:
        propagate_case(**arguments)
        return propagate_case(**arguments)

    monkeypatch.setattr("twoslice.propagation.dataset.propagate_case", twice)
    assert not any(each.kept for each in propagate_dataset(dataset).cases)
    assert all(each.kept for each in propagate_dataset(dataset).cases)


def test_a_case_that_fails_does_not_stop_the_others(dataset: Dataset) -> None:
    spoil(dataset, "b")
    with pytest.raises(PropagationPartialError, match=r"1 of 3 .* case b: .*constant") as caught:
        propagate_dataset(dataset)
    summary = caught.value.summary
    assert isinstance(summary, PropagationSummary)
    assert [each.case for each in summary.cases] == ["a", "c"]
    assert [row["note"] for row in summary_table(summary)][-1] == "failed"
    left = sorted(path.name for path in (dataset.root / "propagated").iterdir())
    assert not [name for name in left if name.startswith("b")]


def test_the_command_says_how_many_failed_and_exits_2(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(dataset, "a")
    monkeypatch.setattr(sys, "argv", ["twoslice", "propagate", str(dataset.root)])
    with pytest.raises(SystemExit) as ending:
        cli.main()
    assert ending.value.code == 2
    assert "1 of 3 case(s) failed" in capsys.readouterr().err


def test_an_empty_drawn_slice_is_told_with_its_case(dataset: Dataset) -> None:
    label = dataset.root / "labelsTr" / "a.nii.gz"
    drawing = np.asarray(nib.load(label).dataobj).astype(np.uint8)
    save(label, np.where(drawing == dataset.ignore, drawing, 0).astype(np.uint8))
    with pytest.raises(PropagationPartialError, match=r"case a: .* shows no target"):
        propagate_dataset(dataset)


def test_without_any_drawn_case_or_view_the_line_says_what_to_do(dataset: Dataset) -> None:
    with pytest.raises(DatasetError, match="Run 'twoslice propagate' first"):
        read_views(dataset, "a")
    for path in (dataset.root / "labelsTr").iterdir():
        path.unlink()
    with pytest.raises(DatasetError, match="no case has drawn slices"):
        propagate_dataset(Dataset.open(dataset.root))


def test_an_unknown_view_and_a_damaged_record_are_refused(dataset: Dataset) -> None:
    propagate_dataset(dataset)
    with pytest.raises(DatasetError, match="no sagittal view"):
        read_view(dataset, "a", "sagittal")
    (dataset.root / "propagated" / "a.json").write_text("{")
    with pytest.raises(DatasetError, match="damaged"):
        read_view(dataset, "a", "axial")


def test_importing_the_stage_does_not_import_torch() -> None:
    code = "import sys, twoslice.propagation.dataset; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_slice_redrawn_in_a_file_of_its_own_makes_new_views(dataset: Dataset) -> None:
    labels = dataset.root / "labelsTr"
    whole = np.asarray(nib.load(labels / "a.nii.gz").dataobj)
    rows = np.flatnonzero((whole != 3).all(axis=(0, 2)))  # the coronal slice
    coronal, moved = np.full_like(whole, 3), np.full_like(whole, 3)
    coronal[:, rows[0]] = whole[:, rows[0]]
    moved[:, rows[0] + 1] = whole[:, rows[0]]
    (labels / "a.nii.gz").unlink()
    save(labels / "a_coronal.nii.gz", coronal)
    propagate_dataset(Dataset.open(dataset.root))
    before = files(dataset.root / "propagated")["a_coronal.nii.gz"]
    save(labels / "a_coronal.nii.gz", moved)
    propagate_dataset(Dataset.open(dataset.root))
    assert files(dataset.root / "propagated")["a_coronal.nii.gz"] != before
