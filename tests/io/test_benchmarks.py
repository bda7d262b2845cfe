"""The paper's data sets, made small in the folders and formats that they are downloaded in."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import h5py
import nibabel as nib
import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813
from numpy.typing import NDArray

from twoslice.cli import main
from twoslice.errors import AnnotationError, DatasetError
from twoslice.io.benchmark_layouts import BenchmarkName
from twoslice.io.benchmarks import BENCHMARKS, import_benchmark
from twoslice.io.dataset import Dataset
from twoslice.io.scans import read_label_map
from twoslice.io.splits import read_splits

SIDES = (60, 56, 40)
# KiTS19 stores slices first, head to feet; this is the affine of its files.
KITS_AFFINE = np.array([[0, 0, -0.9, 0], [0, -0.9, 0, 0], [-2.5, 0, 0, 0], [0, 0, 0, 1]], float)
LITS_AFFINE = np.diag([-0.8, -0.8, 2.0, 1.0])


def ct(seed: int) -> tuple[NDArray[np.int16], NDArray[np.uint8]]:
    """A body in air as RAS, and in it an organ (1) with a tumour (2) at a place of its own."""
    rng = np.random.default_rng(seed)
    image = np.full(SIDES, -1000, np.int16)
    image[8:52, 10:48] = 20
    label = np.zeros(SIDES, np.uint8)
    i, j, k = rng.integers(14, 30), rng.integers(14, 30), rng.integers(8, 20)
    label[i : i + 12, j : j + 10, k : k + 9] = 1
    label[i : i + 4, j : j + 4, k : k + 4] = 2
    image[label > 0] = 1500  # brighter than any window
    return image, label


def write_kits(root: Path, cases: int) -> None:
    for index in range(cases):
        folder = root / "data" / f"case_{index:05d}"
        folder.mkdir(parents=True)
        for name, ras in zip(("imaging", "segmentation"), ct(index), strict=True):
            stored = ras.transpose(2, 1, 0)[
                ::-1, ::-1, ::-1
            ]  # S, A, R reversed: as the affine says
            nib.Nifti1Image(stored, KITS_AFFINE).to_filename(folder / f"{name}.nii.gz")


def write_lits(root: Path, cases: int) -> None:
    for index in range(cases):
        batch = root / f"Training Batch {1 + index % 2}"
        batch.mkdir(parents=True, exist_ok=True)
        for name, ras in zip(("volume", "segmentation"), ct(index), strict=True):
            nib.Nifti1Image(ras[::-1, ::-1], LITS_AFFINE).to_filename(batch / f"{name}-{index}.nii")


def write_la(root: Path, cases: int) -> None:
    for index in range(cases):
        folder = root / "Training Set" / f"ID{index:02d}"
        folder.mkdir(parents=True)
        rng = np.random.default_rng(index)
        label = np.zeros((40, 150, 160), np.uint8)  # K, J, I, as ITK holds arrays
        j, i = rng.integers(40, 70, 2)
        label[12:28, j : j + 40, i : i + 44] = 255
        image = (label // 5 + rng.integers(0, 20, label.shape)).astype(np.uint8)
        for name, array in (("lgemri", image), ("laendo", label)):
            made = sitk.GetImageFromArray(array)
            made.SetSpacing((0.625, 0.625, 0.625))
            sitk.WriteImage(made, str(folder / f"{name}.nrrd"))


def write_la_h5(root: Path, cases: int) -> None:
    for index in range(cases):
        folder = root / f"ID{index:02d}"
        folder.mkdir(parents=True)
        with h5py.File(folder / "mri_norm2.h5", "w") as file:
            file["image"] = np.random.default_rng(index).standard_normal((20, 24, 16))
            file["label"] = np.ones((20, 24, 16), np.uint8)


SMALL = (64, 64, 32)
WRITERS = {"la": write_la, "kits19": write_kits, "lits": write_lits}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[BenchmarkName, Dataset]]:
    root = tmp_path_factory.mktemp("benchmarks")
    assert BENCHMARKS["kits19"].shape == BENCHMARKS["lits"].shape == (192, 192, 64)
    for name in ("kits19", "lits"):  # the paper's voxel count takes its time
        BENCHMARKS[name] = replace(BENCHMARKS[name], shape=SMALL)  # type: ignore[index]
    made: dict[BenchmarkName, Dataset] = {}
    names: tuple[BenchmarkName, ...] = ("la", "kits19", "lits")
    for name in names:
        WRITERS[name](root / name, 6)
        made[name] = import_benchmark([root / name], root / f"{name}-out", dataset=name)
    yield made
    for name in ("kits19", "lits"):
        BENCHMARKS[name] = replace(BENCHMARKS[name], shape=(192, 192, 64))


@pytest.mark.parametrize("name", ["la", "kits19", "lits"])
def test_every_layout_becomes_a_dataset_with_binary_labels(
    imported: dict[BenchmarkName, Dataset], name: BenchmarkName
) -> None:
    dataset = imported[name]
    assert len(dataset.cases) == 5
    assert len(dataset.test_cases) == 1
    for case in (*dataset.cases, *dataset.test_cases):
        labels = dataset.read_labels(case)
        assert set(np.unique(labels.data)) == {0, 1}
        assert dataset.read_image(case).shape == labels.shape


def test_organ_and_tumour_are_one_target_of_the_right_volume(
    imported: dict[BenchmarkName, Dataset],
) -> None:
    for name, voxel in (("kits19", 0.9 * 0.9 * 2.5), ("lits", 0.8 * 0.8 * 2.0)):
        dataset = imported[name]  # type: ignore[index]
        for case in (*dataset.cases, *dataset.test_cases):
            labels = dataset.read_labels(case)
            volume = labels.data.sum() * np.prod(labels.grid.spacing)
            assert volume == pytest.approx(12 * 10 * 9 * voxel, rel=0.2)


def test_the_target_stays_where_it_was_in_the_room(imported: dict[BenchmarkName, Dataset]) -> None:
    dataset = imported["kits19"]
    for case in dataset.cases:
        index = int(case.removeprefix("case_"))
        original = nib.load(dataset.root.parent / "kits19" / "data" / case / "segmentation.nii.gz")
        voxels = np.argwhere(np.asarray(original.dataobj) > 0).mean(axis=0)
        there = nib.affines.apply_affine(original.affine, voxels)
        labels = dataset.read_labels(case)
        here = nib.affines.apply_affine(
            labels.grid.ras.affine, np.argwhere(labels.data > 0).mean(axis=0)
        )
        assert np.abs(here - there).max() < 1.3, index  # half a slice


def test_ct_is_clipped_and_has_the_papers_voxel_count(
    imported: dict[BenchmarkName, Dataset],
) -> None:
    for name, low, high in (("kits19", -160, 240), ("lits", -100, 200)):
        dataset = imported[name]  # type: ignore[index]
        for case in dataset.cases:
            image = dataset.read_image(case)
            assert image.shape == SMALL
            assert image.data.min() >= low
            assert image.data.max() == high


def test_la_is_cropped_around_its_target_with_room_for_a_patch(
    imported: dict[BenchmarkName, Dataset],
) -> None:
    for case in imported["la"].cases:
        image = imported["la"].read_image(case)
        assert image.shape[0] in range(112, 150)
        assert image.shape[1] in range(112, 150)
        assert image.spacing == pytest.approx((0.625, 0.625, 0.625))


@pytest.mark.parametrize("name", ["la", "kits19"])
def test_a_test_scan_is_prepared_without_its_label(
    imported: dict[BenchmarkName, Dataset], name: BenchmarkName, tmp_path: Path
) -> None:
    before = imported[name]
    (case,) = before.test_cases
    copy = tmp_path / "copy"
    shutil.copytree(before.root.parent / name, copy)
    (file,) = [p for p in copy.rglob(f"{case}/*") if p.name.startswith(("laendo", "segment"))]
    label = sitk.ReadImage(str(file))
    moved = np.roll(sitk.GetArrayFromImage(label), 15, axis=1)
    changed = sitk.GetImageFromArray(moved)
    changed.CopyInformation(label)
    sitk.WriteImage(changed, str(file))
    after = import_benchmark([copy], tmp_path / "out", dataset=name)
    old, new = before.read_image(case), after.read_image(case)
    assert new.grid.same_as(old.grid, tolerance_mm=0)
    np.testing.assert_array_equal(new.data, old.data)
    assert (after.read_labels(case).data != before.read_labels(case).data).any()


def test_folds_part_the_training_cases_and_leave_the_test_cases_alone(
    imported: dict[BenchmarkName, Dataset],
) -> None:
    splits = read_splits(imported["lits"].root)
    assert splits is not None
    assert set(splits.train) == set(imported["lits"].cases)
    assert set(splits.test) == set(imported["lits"].test_cases)
    assert sorted(fold[0] for fold in splits.folds) == sorted(splits.train)
    assert all(sorted(fold) == sorted(splits.train) for fold in splits.folds)


def test_the_same_seed_splits_the_same_way(tmp_path: Path) -> None:
    write_la_h5(tmp_path / "la", 12)
    splits = [
        read_splits(import_benchmark([tmp_path / "la"], tmp_path / out, dataset="la", seed=s).root)
        for out, s in (("a", 3), ("b", 3), ("c", 4))
    ]
    assert splits[0] == splits[1] != splits[2]


@pytest.mark.parametrize(
    ("name", "sizes"), [("la", (80, 20)), ("kits19", (190, 20)), ("lits", (100, 31))]
)
def test_whole_data_sets_are_split_as_in_the_paper(
    name: BenchmarkName, sizes: tuple[int, int], tmp_path: Path
) -> None:
    from twoslice.io import benchmarks
    from twoslice.io.benchmark_layouts import Pair
    from twoslice.progress import Silent

    pairs = [Pair(f"case_{n:05d}", Path(), Path()) for n in range(sum(sizes))]
    kind = benchmarks.BENCHMARKS[name]
    splits = benchmarks._split(kind, pairs, [tmp_path], 0, Silent())
    assert (len(splits.train), len(splits.test)) == sizes
    labeled = [set(fold[:5]) for fold in splits.folds]
    assert len(set.union(*labeled)) == 25  # no case is labelled in two folds


def test_lists_beside_the_scans_say_who_trains(tmp_path: Path) -> None:
    write_la_h5(tmp_path, 4)
    (tmp_path / "train.list").write_text("ID03\nID00\n")
    (tmp_path / "test.list").write_text("ID01\n")
    made = import_benchmark([tmp_path], tmp_path.with_name("out-lists"), dataset="la")
    splits = read_splits(made.root)
    assert splits is not None
    assert splits.train == ("ID03", "ID00")
    assert splits.test == ("ID01",)


def test_h5_files_come_through_as_they_are(tmp_path: Path) -> None:
    write_la_h5(tmp_path / "la", 3)
    made = import_benchmark([tmp_path / "la"], tmp_path / "out", dataset="la")
    for case in made.cases:
        with h5py.File(tmp_path / "la" / case / "mri_norm2.h5") as file:
            expected = np.asarray(file["image"], np.float32)
        np.testing.assert_array_equal(made.read_image(case).data[0], expected)
    record = json.loads((made.root / "splits.json").read_text())
    assert "by their labels too" in record["prepared"]["cropped"]


def test_scans_without_a_label_are_left_out(tmp_path: Path) -> None:
    write_kits(tmp_path / "kits", 3)
    (tmp_path / "kits" / "data" / "case_00002" / "segmentation.nii.gz").unlink()
    made = import_benchmark([tmp_path / "kits"], tmp_path / "out", dataset="kits19")
    assert {*made.cases, *made.test_cases} == {"case_00000", "case_00001"}


def test_another_layout_is_told_in_a_line(tmp_path: Path) -> None:
    write_la_h5(tmp_path / "la", 2)
    with pytest.raises(DatasetError, match="expected case_00000/imaging"):
        import_benchmark([tmp_path / "la"], tmp_path / "out", dataset="kits19")
    assert not (tmp_path / "out").exists()


def test_an_empty_label_names_its_file(tmp_path: Path) -> None:
    write_lits(tmp_path / "lits", 3)
    for path in (tmp_path / "lits").rglob("segmentation*"):
        empty = np.zeros_like(read_label_map(path).data)
        nib.Nifti1Image(empty, LITS_AFFINE).to_filename(path)
    with pytest.raises(AnnotationError, match="shows no target"):
        import_benchmark([tmp_path / "lits"], tmp_path / "out", dataset="lits")


def test_the_command_imports_and_refuses_options_that_do_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_la_h5(tmp_path / "la", 3)
    arguments = ["import", str(tmp_path / "la"), "--out", str(tmp_path / "out"), "--dataset", "la"]
    with pytest.raises(SystemExit) as ending:
        main([*arguments, "--names", "atrium"])
    assert ending.value.code == 2
    assert "Leave --labels" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ending:
        main(arguments)
    assert ending.value.code == 0
    assert "splits.json" in capsys.readouterr().out
