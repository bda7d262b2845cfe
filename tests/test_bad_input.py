"""Everything that people hand to the commands by mistake: one line, exit 2, nothing half-written.

Each kind is a function that takes an empty folder, puts something broken into it, and returns the
command to run there, and the words that its one line must hold: the thing at fault and a remedy.
"""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import h5py
import nibabel as nib
import numpy as np
import pytest
from numpy.typing import NDArray

from twoslice.cli import main

AFFINE = np.diag([-1.0, -1.0, 2.5, 1.0])
SHAPE = (20, 22, 16)
IGNORE = 2


class Trial(NamedTuple):
    """A command, what its line must say, and where nothing may appear."""

    command: list[str]
    says: list[str]
    out: str | None = None


Kind = Callable[[Path], Trial]
KINDS: dict[str, Kind] = {}


def kind(make: Kind) -> Kind:
    KINDS[make.__name__.replace("_", " ")] = make
    return make


def scan(path: Path, data: NDArray[np.generic] | None = None, affine: object = None) -> Path:
    """A small sound scan, or one with the given faults."""
    if data is None:
        data = np.random.default_rng(0).normal(100, 20, SHAPE).astype(np.float32)
    image = nib.Nifti1Image(data, AFFINE if affine is None else affine)
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(image, path)
    return path


def ball() -> NDArray[np.uint8]:
    """A dense label: one ball in the middle."""
    centred = np.indices(SHAPE) - (np.array(SHAPE).reshape(3, 1, 1, 1) // 2)
    return ((centred**2).sum(axis=0) < 30).astype(np.uint8)


def two_slices(dense: NDArray[np.uint8], ignore: int = IGNORE) -> NDArray[np.uint8]:
    """The middle axial and coronal slice of a dense label; `ignore` elsewhere."""
    sparse = np.full_like(dense, ignore)
    sparse[:, :, 8] = dense[:, :, 8]
    sparse[:, 11] = dense[:, 11]
    return sparse


def dataset(root: Path, *, label: NDArray[np.generic] | None = None, **description: object) -> Path:
    """A sound dataset of two scans, the first with two drawn slices, or one with given faults."""
    for number in range(2):
        rng = np.random.default_rng(number)
        image = (rng.normal(100, 10, SHAPE) + 80 * ball()).astype(np.float32)
        scan(root / "imagesTr" / f"case_{number}_0000.nii.gz", image)
    scan(root / "labelsTr" / "case_0.nii.gz", two_slices(ball()) if label is None else label)
    content: dict[str, object] = {
        "channel_names": {"0": "MRI"},
        "labels": {"background": 0, "organ": 1, "ignore": IGNORE},
        "numTraining": 1,
        "file_ending": ".nii.gz",
    }
    content.update(description)
    (root / "dataset.json").write_text(json.dumps(content))
    return root


def dense_dataset(root: Path) -> Path:
    """A sound densely labelled dataset of two scans."""
    dataset(root, label=ball(), labels={"background": 0, "organ": 1}, numTraining=2)
    scan(root / "labelsTr" / "case_1.nii.gz", ball())
    return root


def import_of(source: Path, *more: str) -> Trial:
    command = ["import", str(source), "--out", "made", *more]
    return Trial(command, [source.name], out="made")


def check_of(root: Path, *says: str) -> Trial:
    return Trial(["check", str(root)], list(says))


# --- scans ---------------------------------------------------------------------------------------


@kind
def truncated_gzip(folder: Path) -> Trial:
    path = scan(folder / "cut.nii.gz")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return import_of(path)


@kind
def empty_file(folder: Path) -> Trial:
    path = folder / "empty.nii.gz"
    path.touch()
    return import_of(path)


@kind
def not_a_scan_at_all(folder: Path) -> Trial:
    path = folder / "text.nii.gz"
    path.write_text("this is not a scan")
    return import_of(path)


@kind
def voxels_that_are_not_numbers(folder: Path) -> Trial:
    data = np.ones(SHAPE, np.float32)
    data[3, 4, 5] = np.nan
    return import_of(scan(folder / "nan.nii.gz", data))


@kind
def infinite_voxels(folder: Path) -> Trial:
    data = np.ones(SHAPE, np.float32)
    data[3, 4, 5] = np.inf
    return import_of(scan(folder / "inf.nii", data))


@kind
def four_dimensions(folder: Path) -> Trial:
    return import_of(scan(folder / "film.nii.gz", np.ones((*SHAPE, 5), np.float32)))


@kind
def two_dimensions(folder: Path) -> Trial:
    return import_of(scan(folder / "flat.nii.gz", np.ones(SHAPE[:2], np.float32)))


@kind
def zero_spacing(folder: Path) -> Trial:
    path = scan(folder / "zero.nii")
    header = bytearray(path.read_bytes())
    header[84:88] = np.float32(0).tobytes()  # pixdim[2]
    header[252:256] = bytes(4)  # no qform, no sform: spacing is all there is
    path.write_bytes(bytes(header))
    return import_of(path)


@kind
def singular_affine(folder: Path) -> Trial:
    path = scan(folder / "singular.nii")
    header = bytearray(path.read_bytes())
    header[280:296] = np.zeros(4, np.float32).tobytes()  # srow_x
    header[252:254] = bytes(2)  # no qform to fall back on
    path.write_bytes(bytes(header))
    return import_of(path)


@kind
def unknown_file_ending(folder: Path) -> Trial:
    path = folder / "scan.docx"
    path.write_bytes(b"PK")
    return import_of(path)


@kind
def a_path_that_is_not_there(folder: Path) -> Trial:
    return import_of(folder / "absent.nii.gz")


@kind
def a_folder_without_scans(folder: Path) -> Trial:
    (folder / "nothing").mkdir()
    (folder / "nothing" / "notes.txt").write_text("none")
    return import_of(folder / "nothing")


@kind
def a_broken_scan_with_spaces_and_umlauts_in_its_name(folder: Path) -> Trial:
    path = folder / "Müller Scan №1.nii.gz"
    path.write_bytes(b"\x1f\x8b broken")
    return import_of(path)


@kind
def a_case_given_twice(folder: Path) -> Trial:
    first, second = scan(folder / "a" / "scan.nii.gz"), scan(folder / "b" / "scan.nii.gz")
    return Trial(["import", str(first), str(second), "--out", "made"], ["scan", "twice"], "made")


@kind
def one_broken_scan_among_sound_ones(folder: Path) -> Trial:
    for name in "abc":
        scan(folder / "scans" / f"{name}.nii.gz")
    (folder / "scans" / "d.nii.gz").write_bytes(b"broken")
    return Trial(["import", str(folder / "scans"), "--out", "made"], ["d.nii.gz"], "made")


@kind
def truncated_nrrd(folder: Path) -> Trial:
    path = folder / "cut.nrrd"
    path.write_bytes(
        b"NRRD0004\ntype: float\ndimension: 3\nspace: left-posterior-superior\n"
        b"sizes: 8 8 8\nspace directions: (1,0,0) (0,1,0) (0,0,1)\nkinds: domain domain domain\n"
        b"endian: little\nencoding: raw\nspace origin: (0,0,0)\n\n" + bytes(100)
    )
    return import_of(path)


@kind
def mhd_without_its_raw_file(folder: Path) -> Trial:
    path = folder / "lone.mhd"
    path.write_text(
        "ObjectType = Image\nNDims = 3\nDimSize = 8 8 8\nElementType = MET_FLOAT\n"
        "ElementSpacing = 1 1 1\nElementDataFile = lone.raw\n"
    )
    return import_of(path)


@kind
def h5_without_an_image(folder: Path) -> Trial:
    path = folder / "case" / "mri_norm2.h5"
    path.parent.mkdir()
    with h5py.File(path, "w") as file:
        file["label"] = ball()
    return import_of(path)


@kind
def h5_that_is_not_one(folder: Path) -> Trial:
    path = folder / "case" / "mri_norm2.h5"
    path.parent.mkdir()
    path.write_bytes(b"not an h5 file")
    return import_of(path)


@kind
def output_folder_already_in_use(folder: Path) -> Trial:
    (folder / "taken").mkdir()
    (folder / "taken" / "precious.txt").write_text("mine")
    command = ["import", str(scan(folder / "a.nii.gz")), "--out", "taken"]
    return Trial(command, ["taken", "not empty"])


@kind
def channels_on_different_grids(folder: Path) -> Trial:
    scan(folder / "scans" / "a_0000.nii.gz")
    scan(folder / "scans" / "a_0001.nii.gz", np.ones((5, 5, 5), np.float32))
    return Trial(["import", str(folder / "scans"), "--out", "made"], ["a_0001.nii.gz"], "made")


# --- datasets ------------------------------------------------------------------------------------


@kind
def no_dataset_json(folder: Path) -> Trial:
    (dataset(folder / "set") / "dataset.json").unlink()
    return check_of(folder / "set", "dataset.json", "twoslice import")


@kind
def broken_dataset_json(folder: Path) -> Trial:
    (dataset(folder / "set") / "dataset.json").write_text('{"labels": ')
    return check_of(folder / "set", "dataset.json", "JSON")


@kind
def label_values_with_a_gap(folder: Path) -> Trial:
    root = dataset(folder / "set", labels={"background": 0, "organ": 3})
    return check_of(root, "dataset.json", "[0, 3]")


@kind
def a_channel_too_few(folder: Path) -> Trial:
    root = dataset(folder / "set", channel_names={"0": "T1", "1": "T2"})
    return check_of(root, "case_0", "2 channel")


@kind
def no_scan_in_the_dataset(folder: Path) -> Trial:
    shutil.rmtree(dataset(folder / "set") / "imagesTr")
    return check_of(folder / "set", "imagesTr")


@kind
def a_nan_in_a_scan_of_the_dataset(folder: Path) -> Trial:
    root = dataset(folder / "set")
    data = np.full(SHAPE, np.nan, np.float32)
    scan(root / "imagesTr" / "case_1_0000.nii.gz", data)
    return check_of(root, "case_1")


@kind
def a_constant_scan(folder: Path) -> Trial:
    root = dataset(folder / "set")
    scan(root / "imagesTr" / "case_1_0000.nii.gz", np.ones(SHAPE, np.float32))
    return check_of(root, "case_1", "same")


# --- labels and drawn slices ---------------------------------------------------------------------


@kind
def label_of_another_shape(folder: Path) -> Trial:
    root = dataset(folder / "set", label=two_slices(ball())[1:])
    return check_of(root, "case_0", "grid")


@kind
def label_with_another_affine(folder: Path) -> Trial:
    root = dataset(folder / "set")
    shifted = AFFINE.copy()
    shifted[0, 3] = 40
    scan(root / "labelsTr" / "case_0.nii.gz", two_slices(ball()), shifted)
    return check_of(root, "case_0", "grid")


@kind
def a_label_value_not_in_dataset_json(folder: Path) -> Trial:
    sparse = two_slices(ball())
    sparse[10, 11, 8] = 7
    return check_of(dataset(folder / "set", label=sparse), "case_0", "7", "dataset.json")


@kind
def labels_that_are_fractions(folder: Path) -> Trial:
    root = dataset(folder / "set", label=two_slices(ball()).astype(np.float32) * 0.5)
    return check_of(root, "case_0", "whole")


@kind
def no_slice_drawn_anywhere(folder: Path) -> Trial:
    root = dataset(folder / "set", label=np.full(SHAPE, IGNORE, np.uint8))
    return check_of(root, "slice")


@kind
def no_label_file_at_all(folder: Path) -> Trial:
    root = dataset(folder / "set")
    shutil.rmtree(root / "labelsTr")
    return Trial(["train", str(root), "--out", "made"], ["set", "slice"], "made")


@kind
def three_classes_of_which_one_never_shows(folder: Path) -> Trial:
    names = {"background": 0, "organ": 1, "vessel": 2, "ignore": 3}
    root = dataset(folder / "set", label=two_slices(ball(), ignore=3), labels=names)
    return check_of(root, "vessel")


@kind
def a_drawn_slice_without_foreground(folder: Path) -> Trial:
    sparse = two_slices(ball())
    sparse[:, 11] = IGNORE
    sparse[:, :, 8] = ball()[:, :, 8]
    sparse[:, 0] = 0
    return check_of(dataset(folder / "set", label=sparse), "case_0", "coronal")


@kind
def two_slices_in_one_plane(folder: Path) -> Trial:
    sparse = np.full(SHAPE, IGNORE, np.uint8)
    sparse[:, :, 7], sparse[:, :, 9] = ball()[:, :, 7], ball()[:, :, 9]
    return check_of(dataset(folder / "set", label=sparse), "case_0", "both drawn slices are axial")


@kind
def scattered_strokes_on_no_whole_slice(folder: Path) -> Trial:
    sparse = np.full(SHAPE, IGNORE, np.uint8)
    sparse[3:5, 3:9, 2:6] = 1
    return check_of(dataset(folder / "set", label=sparse), "case_0")


@kind
def painted_voxels_whose_planes_cannot_be_told(folder: Path) -> Trial:
    painted = np.zeros(SHAPE, np.uint8)
    painted[10, 11, 6:10] = 1  # one line: it lies in a coronal and in a sagittal slice
    root = dataset(folder / "set", label=painted, labels={"background": 0, "organ": 1})
    return check_of(root, "case_0")


@kind
def a_slice_that_some_tool_has_flipped(folder: Path) -> Trial:
    dense = np.zeros(SHAPE, np.uint8)
    dense[2:8, 5:17, 3:13] = 1
    sparse = two_slices(dense)
    sparse[:, :, 8] = dense[::-1, :, 8]
    return check_of(dataset(folder / "set", label=sparse), "case_0", "flipped")


# --- commands ------------------------------------------------------------------------------------


@kind
def more_labelled_cases_than_there_are(folder: Path) -> Trial:
    root = dense_dataset(folder / "dense")
    command = ["simulate", str(root), "--out", "made", "--labeled", "9"]
    return Trial(command, ["9", "2"], "made")


@kind
def a_plane_that_does_not_exist(folder: Path) -> Trial:
    root = dense_dataset(folder / "dense")
    command = [
        "simulate",
        str(root),
        "--out",
        "made",
        "--labeled",
        "1",
        "--planes",
        "axial,oblique",
    ]
    return Trial(command, ["oblique", "coronal"], "made")


@kind
def simulating_from_an_empty_label(folder: Path) -> Trial:
    root = dense_dataset(folder / "dense")
    scan(root / "labelsTr" / "case_0.nii.gz", np.zeros(SHAPE, np.uint8))
    command = ["simulate", str(root), "--out", "made", "--labeled", "1"]
    return Trial(command, ["case_0"], "made")


@kind
def training_before_propagating(folder: Path) -> Trial:
    root = dataset(folder / "set")
    command = ["train", str(root), "--out", "made"]
    return Trial(command, ["twoslice propagate"], "made")


@kind
def an_unknown_setting(folder: Path) -> Trial:
    root = dataset(folder / "set")
    command = ["train", str(root), "--out", "made", "--set", "training.iteration=3"]
    return Trial(command, ["training.iterations"], "made")


@kind
def an_unknown_method(folder: Path) -> Trial:
    root = dataset(folder / "set")
    command = ["train", str(root), "--out", "made", "--method", "desko"]
    return Trial(command, ["desko", "desco"], "made")


@kind
def predicting_with_a_run_that_is_not_there(folder: Path) -> Trial:
    command = ["predict", "absent", str(scan(folder / "a.nii.gz")), "--out", "made"]
    return Trial(command, ["absent"], "made")


@kind
def evaluating_labels_on_another_grid(folder: Path) -> Trial:
    scan(folder / "predictions" / "a.nii.gz", ball())
    scan(folder / "labels" / "a.nii.gz", ball()[2:])
    command = ["evaluate", "predictions", "labels", "--out", "made.json"]
    return Trial(command, ["a.nii.gz", "grid"], "made.json")


@kind
def evaluating_with_a_prediction_missing(folder: Path) -> Trial:
    for name in ("labels/a.nii.gz", "labels/b.nii.gz", "predictions/a.nii.gz"):
        scan(folder / name, ball())
    command = ["evaluate", "predictions", "labels", "--out", "made.json"]
    return Trial(command, ["b"], "made.json")


def run_folder(root: Path, *, weights: bytes | None) -> Path:
    """A run as train leaves it, its last checkpoint as given."""
    from twoslice.networks.build import NetworkPlan
    from twoslice.settings import Settings
    from twoslice.training.planner import Plan
    from twoslice.training.run import DataDescription, Run

    network = NetworkPlan(kind="vnet", channels=1, classes=2, filters=2, normalisation="batch")
    plan = Plan(
        spacing=None, voxel=(1, 1, 1), patch=(16, 16, 16), iterations=1, network=network, why=""
    )
    data = DataDescription(
        name="set",
        root=str(root),
        labels={"background": 0, "organ": 1},
        channel_names=("MRI",),
        labeled=(),
        unlabeled=0,
    )
    Run(root, Settings(method="supervised"), plan, data).save()
    if weights is not None:
        last = root / "checkpoints" / "step-000001"
        last.mkdir(parents=True)
        (last / "weights.safetensors").write_bytes(weights)
        (last / "meta.json").write_text("{}")
    return root


def predict_of(model: Path, *scans: Path, says: list[str]) -> Trial:
    command = ["predict", str(model), *map(str, scans), "--out", "made"]
    return Trial(command, says, "made")


@kind
def predicting_with_a_run_without_weights(folder: Path) -> Trial:
    root = run_folder(folder / "run", weights=None)
    return predict_of(root, scan(folder / "a.nii.gz"), says=["run: has no checkpoint", "--resume"])


@kind
def predicting_with_a_corrupt_checkpoint(folder: Path) -> Trial:
    root = run_folder(folder / "run", weights=b"\x08 not weights at all")
    said = ["step-000001/weights.safetensors", "Remove the folder"]
    return predict_of(root, scan(folder / "a.nii.gz"), says=said)


@kind
def predicting_with_a_pickle_that_could_run_code(folder: Path) -> Trial:
    import torch

    torch.save({"net": Trial(["any class of ours"], [])}, folder / "net.pth")
    said = ["net.pth", "could run code", "state_dict()"]
    return predict_of(folder / "net.pth", scan(folder / "a.nii.gz"), says=said)


@kind
def predicting_with_a_checkpoint_that_is_cut_short(folder: Path) -> Trial:
    import torch

    from twoslice.networks.vnet import VNet

    path = folder / "net.pth"
    torch.save(VNet(filters=2).state_dict(), path)
    path.write_bytes(path.read_bytes()[:3000])
    return predict_of(path, scan(folder / "a.nii.gz"), says=["net.pth", "copy it again"])


@kind
def predicting_with_another_projects_network(folder: Path) -> Trial:
    import torch

    torch.save({"encoder.0.weight": torch.zeros(2)}, folder / "net.pth")
    return predict_of(folder / "net.pth", scan(folder / "a.nii.gz"), says=["net.pth", "V-Net"])


@kind
def predicting_scans_with_too_many_channels(folder: Path) -> Trial:
    import torch

    from twoslice.networks.vnet import VNet

    torch.save(VNet(filters=2).state_dict(), folder / "net.pth")
    for channel in range(2):
        scan(folder / "in" / f"a_{channel:04d}.nii.gz")
    said = ["a_0001.nii.gz", "2 channel(s)", "single file"]
    return predict_of(folder / "net.pth", folder / "in", says=said)


@kind
def predicting_two_scans_of_one_name(folder: Path) -> Trial:
    import torch

    from twoslice.networks.vnet import VNet

    torch.save(VNet(filters=2).state_dict(), folder / "net.pth")
    scans = [scan(folder / part / "a.nii.gz") for part in ("one", "two")]
    return predict_of(folder / "net.pth", *scans, says=["'a' is listed twice", "Rename"])


@kind
def a_table_in_an_unknown_format(folder: Path) -> Trial:
    for name in ("labels/a.nii.gz", "predictions/a.nii.gz"):
        scan(folder / name, ball())
    command = ["evaluate", "predictions", "labels", "--out", "made.json", "--table", "t.xlsx"]
    return Trial(command, ["t.xlsx", ".md"], "made.json")


@kind
def scores_in_the_place_of_a_label_map(folder: Path) -> Trial:
    for name in ("labels/a.nii.gz", "predictions/a.nii.gz"):
        scan(folder / name, ball())
    command = ["evaluate", "predictions", "labels", "--out", "labels/a.nii.gz"]
    return Trial(command, ["labels/a.nii.gz", ".json"], "made.json")


@kind
def rows_in_the_place_of_the_scores(folder: Path) -> Trial:
    for name in ("labels/a.nii.gz", "predictions/a.nii.gz"):
        scan(folder / name, ball())
    command = ["evaluate", "predictions", "labels", "--out", "made.json", "--csv", "made.json"]
    return Trial(command, ["made.json", ".csv"], "made.json")


@kind
def a_report_in_the_place_of_a_scan(folder: Path) -> Trial:
    scan(folder / "scan.nii.gz", ball())
    return Trial(["report", "run", "--out", "scan.nii.gz"], ["scan.nii.gz", ".html"], "run")


def _files(folder: Path) -> set[tuple[str, int, int]]:
    return {
        (str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def _run(command: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main(command)
    shown = capsys.readouterr()
    faults = [line for line in shown.err.splitlines() if line.startswith("error: ")]
    assert isinstance(stopped.value.code, int)
    return stopped.value.code, faults


def test_at_least_thirty_kinds_are_listed() -> None:
    assert len(KINDS) >= 30


@pytest.mark.parametrize("name", KINDS)
def test_bad_input_is_one_line_exit_2_and_nothing_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    trial = KINDS[name](tmp_path)
    before = _files(tmp_path)
    code, faults = _run(trial.command, capsys)
    assert code == 2
    assert len(faults) == 1, faults
    assert all(words in faults[0] for words in trial.says), faults[0]
    assert faults[0].rstrip().endswith((".", "?", ")"))
    assert _files(tmp_path) == before
    assert trial.out is None or not (tmp_path / trial.out).exists()


def test_a_full_disk_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    source = scan(tmp_path / "a.nii.gz")
    code, faults = _run(["import", str(source), "--out", str(tmp_path / "made")], capsys)
    assert code == 2
    assert len(faults) == 1
    assert "disk is full" in faults[0]
    assert [path.name for path in tmp_path.iterdir()] == ["a.nii.gz"]


def test_an_unreadable_folder_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = dataset(tmp_path / "set")
    listing = Path.iterdir

    def refuse(path: Path) -> object:
        if path.name == "imagesTr":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listing(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    code, faults = _run(["check", str(root)], capsys)
    assert code == 2
    assert len(faults) == 1
    assert "imagesTr" in faults[0]
    assert "Permission denied" in faults[0]


def test_names_with_spaces_and_umlauts_are_no_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = scan(tmp_path / "Müller Scan №1.nii.gz")
    with pytest.raises(SystemExit) as stopped:
        main(["import", str(source), "--out", str(tmp_path / "made")])
    assert stopped.value.code in (0, None)
    assert len(list((tmp_path / "made" / "imagesTr").iterdir())) == 1
