"""`import`: every format becomes a dataset on the grid it came on, or nothing at all."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import nibabel as nib
import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813

from scan_files import AXES, affine_of, blocks, write_series
from twoslice.errors import AnnotationError, DatasetError, ScanError, SettingsError, TwosliceError
from twoslice.io.dataset import Dataset
from twoslice.io.grid import Grid
from twoslice.io.importing import import_scans
from twoslice.io.scans import read_scan, write_image, write_labels

SHAPE = (4, 5, 6)
GRID = Grid(SHAPE, affine_of(AXES[11], (0.5, 1.0, 2.5), (10, -20, 30)))


def scan(path: Path, *, seed: int = 0, grid: Grid = GRID) -> Path:
    data = blocks(grid.ras.shape, seed=seed).astype(np.float32) + np.float32(0.25)
    write_image(path, data, grid)
    return path


def label(path: Path, *, top: int = 2, grid: Grid = GRID) -> Path:
    values = blocks(grid.ras.shape, seed=7, top=top)
    values.flat[:top] = range(top)
    write_labels(path, values, grid)
    return path


def h5(path: Path, *, with_label: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file["image"] = blocks(SHAPE).astype(np.float32) / 3
        if with_label:
            file["label"] = blocks(SHAPE, top=2).astype(np.uint8)
    return path


def dicom(folder: Path) -> Path:
    write_series(folder, blocks(SHAPE), slope=2.0, intercept=-1024.0)
    return folder


def mhd(path: Path) -> Path:
    image = sitk.ReadImage(str(scan(path.with_name("model.nrrd"))))
    path.with_name("model.nrrd").unlink()
    sitk.WriteImage(image, str(path))
    return path


SOURCES = {
    "nii.gz": lambda folder: scan(folder / "scan.nii.gz"),
    "nii": lambda folder: scan(folder / "scan.nii"),
    "nrrd": lambda folder: scan(folder / "scan.nrrd"),
    "mha": lambda folder: scan(folder / "scan.mha"),
    "mhd": lambda folder: mhd(folder / "scan.mhd"),
    "h5": lambda folder: h5(folder / "scan" / "mri_norm2.h5"),
    "dicom": lambda folder: dicom(folder / "scan"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_format_lies_in_the_dataset_where_it_lay(tmp_path: Path, name: str) -> None:
    source = SOURCES[name](tmp_path)
    dataset = import_scans([source], tmp_path / "set")
    assert list(dataset.cases) == ["scan"]
    there, here = read_scan(source), dataset.read_image("scan")
    assert here.grid.same_as(there.grid)
    np.testing.assert_array_equal(here.data, there.data)
    by_nibabel = nib.load(dataset.cases["scan"].images[0])
    by_itk = sitk.ReadImage(str(dataset.cases["scan"].images[0]))
    assert by_nibabel.shape == by_itk.GetSize() == there.grid.shape
    np.testing.assert_allclose(by_nibabel.affine, there.grid.affine, atol=1e-4)
    origin = np.array(by_itk.GetOrigin()) * [-1, -1, 1]
    np.testing.assert_allclose(origin, there.grid.affine[:3, 3], atol=1e-4)


def test_a_compressed_nifti_is_copied_byte_for_byte(tmp_path: Path) -> None:
    source = scan(tmp_path / "scan.nii.gz")
    dataset = import_scans([source], tmp_path / "set")
    assert dataset.cases["scan"].images[0].read_bytes() == source.read_bytes()


def test_whole_numbers_are_kept_small(tmp_path: Path) -> None:
    dataset = import_scans([dicom(tmp_path / "ct")], tmp_path / "set")
    assert nib.load(dataset.cases["ct"].images[0]).get_data_dtype() == np.int16
    assert dataset.channel_names == ("CT",)


def test_what_nnunet_asks_of_the_description_holds(tmp_path: Path) -> None:
    scans = [scan(tmp_path / f"{name}.nii.gz") for name in "abc"]
    label(tmp_path / "labels" / "a.nii.gz", top=3)
    import_scans(scans, tmp_path / "set", labels=tmp_path / "labels", name="Three")
    raw = json.loads((tmp_path / "set" / "dataset.json").read_text())
    assert raw["name"] == "Three"
    assert raw["labels"] == {"background": 0, "label 1": 1, "label 2": 2, "ignore": 3}
    assert raw["channel_names"] == {"0": "image"}
    assert raw["numTraining"] == 1
    assert raw["file_ending"] == ".nii.gz"
    assert list(raw["dataset"]) == ["a"]


def test_labels_beside_the_scans_go_onto_the_scans_grid(tmp_path: Path) -> None:
    scan(tmp_path / "scans" / "a b.nrrd")
    label(tmp_path / "labels" / "a b.nii.gz", grid=GRID.ras)
    dataset = import_scans([tmp_path / "scans"], tmp_path / "set", labels=[tmp_path / "labels"])
    assert dataset.labeled == ("a b",)
    assert dataset.read_labels("a b").grid.same_as(GRID)
    expected = nib.load(tmp_path / "labels" / "a b.nii.gz").get_fdata()
    np.testing.assert_array_equal(dataset.read_labels("a b").data, expected)
    assert dataset.ignore is None, "every scan has its label: nothing is left to be drawn"


def test_a_label_named_as_3d_slicer_names_it_is_found(tmp_path: Path) -> None:
    scan(tmp_path / "scans" / "a.nrrd")
    label(tmp_path / "labels" / "a.seg.nrrd")
    dataset = import_scans([tmp_path / "scans"], tmp_path / "set", labels=[tmp_path / "labels"])
    assert dataset.labeled == ("a",)


def test_h5_labels_come_along_unless_left_out(tmp_path: Path) -> None:
    for case in ("06SR", "0RZD"):
        h5(tmp_path / "LA" / case / "mri_norm2.h5")
    dataset = import_scans([tmp_path / "LA"], tmp_path / "dense", label_names=["left atrium"])
    assert dataset.labeled == ("06SR", "0RZD")
    assert dataset.class_names == ("background", "left atrium")
    np.testing.assert_array_equal(dataset.read_labels("06SR").data, blocks(SHAPE, top=2))
    bare = import_scans([tmp_path / "LA"], tmp_path / "bare", with_labels=False)
    assert bare.labeled == ()
    assert bare.ignore == 2


def test_the_spacing_of_h5_files_can_be_given(tmp_path: Path) -> None:
    source = h5(tmp_path / "a" / "mri_norm2.h5")
    dataset = import_scans([source], tmp_path / "set", spacing=(1.0, 1.5, 2.0))
    assert dataset.read_image("a").spacing == (1.0, 1.5, 2.0)
    assert dataset.labeled == ("a",)


def test_channels_are_kept_together(tmp_path: Path) -> None:
    for case in "ab":
        for channel in range(2):
            scan(tmp_path / "scans" / f"{case}_000{channel}.nrrd", seed=channel)
    dataset = import_scans([tmp_path / "scans"], tmp_path / "set", channel_names=["T1", "T2"])
    assert dataset.channel_names == ("T1", "T2")
    assert dataset.read_image("b").data.shape[0] == 2


def test_a_case_that_lacks_a_channel_is_refused(tmp_path: Path) -> None:
    for name in ("A_0000", "A_0001", "B_0000"):
        scan(tmp_path / "mc" / f"{name}.nii.gz")
    with pytest.raises(DatasetError, match="case B lacks channel 0001"):
        import_scans([tmp_path / "mc"], tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_names_with_spaces_and_other_scripts_stay(tmp_path: Path) -> None:
    dataset = import_scans([scan(tmp_path / "Müller 扫描 №1.nii.gz")], tmp_path / "my set")
    assert list(dataset.cases) == ["Müller 扫描 №1"]


def test_a_whole_dataset_comes_with_labels_names_and_test_scans(tmp_path: Path) -> None:
    root = tmp_path / "old"
    scan(root / "imagesTr" / "a_0000.mha")
    scan(root / "imagesTs" / "b_0000.mha")
    label(root / "labelsTr" / "a.mha", top=3)
    description = {
        "channel_names": {"0": "MRI"},
        "labels": {"background": 0, "organ": 1, "vessel": 2},
        "numTraining": 1,
        "file_ending": ".mha",
    }
    (root / "dataset.json").write_text(json.dumps(description))
    dataset = import_scans([root], tmp_path / "set")
    assert dataset.class_names == ("background", "organ", "vessel")
    assert dataset.channel_names == ("MRI",)
    assert dataset.labeled == ("a",)
    assert list(dataset.test_cases) == ["b"]


def test_slices_that_were_drawn_in_files_of_their_own_come_along(tmp_path: Path) -> None:
    root = tmp_path / "old"
    for case in ("a", "b", "b_axial"):
        scan(root / "imagesTr" / f"{case}_0000.nii.gz")
    for name in ("a_axial", "a_coronal", "b", "b_axial", "b_sagittal"):
        label(root / "labelsTr" / f"{name}.nii.gz")
    labels = {"background": 0, "organ": 1, "ignore": 2}
    described = {"channel_names": {"0": "MRI"}, "labels": labels, "file_ending": ".nii.gz"}
    (root / "dataset.json").write_text(json.dumps(described))
    for number, given in enumerate([None, root / "labelsTr"]):
        dataset = import_scans([root], tmp_path / f"set {number}", labels=given)
        assert dataset.labeled == ("a", "b", "b_axial")
        assert dataset.cases["a"].label is None
        source = Dataset.open(root)
        for name, case in source.cases.items():
            assert set(dataset.cases[name].parts) == set(case.parts)
            for plane, path in case.parts.items():
                here = dataset.read_label_file(name, dataset.cases[name].parts[plane])
                np.testing.assert_array_equal(here.data, source.read_label_file(name, path).data)


def test_a_stray_file_among_the_labels_of_a_folder_is_refused_by_name(tmp_path: Path) -> None:
    source = scan(tmp_path / "a.nii.gz")
    label(tmp_path / "labels" / "a.nii.gz")
    (tmp_path / "labels" / "notes.txt").write_text("no label")
    label(tmp_path / "labels" / "aa.nii.gz")
    with pytest.raises(AnnotationError, match=r"aa\.nii\.gz: no scan is called 'aa'"):
        import_scans([source], tmp_path / "set", labels=tmp_path / "labels")
    (tmp_path / "labels" / "aa.nii.gz").unlink()
    dataset = import_scans([source], tmp_path / "set", labels=tmp_path / "labels")
    assert dataset.labeled == ("a",)


def test_a_decathlon_folder_is_understood(tmp_path: Path) -> None:
    root = tmp_path / "Task02"
    scan(root / "imagesTr" / "la_003.nii.gz")
    label(root / "labelsTr" / "la_003.nii.gz")
    (root / "imagesTr" / "._la_003.nii.gz").write_bytes(b"mac")
    description = {
        "modality": {"0": "MRI"},
        "labels": {"0": "background", "1": "left atrium"},
        "training": [],
    }
    (root / "dataset.json").write_text(json.dumps(description))
    dataset = import_scans([root], tmp_path / "set")
    assert dataset.class_names == ("background", "left atrium")
    assert (dataset.channel_names, dataset.labeled) == (("MRI",), ("la_003",))


def test_ignore_may_be_the_last_name(tmp_path: Path) -> None:
    source = scan(tmp_path / "a.nii.gz")
    drawn = label(tmp_path / "labels" / "a.nii.gz", top=3)
    names = ["organ", "ignore"]
    dataset = import_scans([source], tmp_path / "set", labels=[drawn], label_names=names)
    assert (dataset.class_names, dataset.ignore) == (("background", "organ"), 2)
    with pytest.raises(SettingsError, match="at most as the last one"):
        import_scans([source], tmp_path / "other", label_names=["ignore", "organ"])


def test_one_scan_of_a_dataset_named_alone_brings_no_label(tmp_path: Path) -> None:
    source = scan(tmp_path / "old" / "imagesTr" / "a_0000.nii.gz")
    label(tmp_path / "old" / "labelsTr" / "a.nii.gz")
    assert import_scans([source], tmp_path / "set").labeled == ()


def test_the_series_that_is_named_is_imported(tmp_path: Path) -> None:
    write_series(tmp_path / "p", blocks(SHAPE), number=1)
    write_series(tmp_path / "p", blocks((3, 3, 3)), number=2)
    with pytest.raises(ScanError, match="holds 2 series"):
        import_scans([tmp_path / "p"], tmp_path / "set")
    dataset = import_scans([tmp_path / "p"], tmp_path / "set", series="2")
    assert dataset.read_image("p").shape == (3, 3, 3)


def test_the_same_import_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    source = scan(tmp_path / "a.nrrd")
    for name in ("one", "two"):
        import_scans([source], tmp_path / name, name="same")
    for path in (tmp_path / "one").rglob("*.*"):
        other = tmp_path / "two" / path.relative_to(tmp_path / "one")
        assert path.read_bytes() == other.read_bytes()


def _broken_scan(folder: Path) -> dict[str, object]:
    (folder / "scans" / "d.nii.gz").write_bytes(b"broken")
    return {}


def _broken_label(folder: Path) -> dict[str, object]:
    (folder / "labels").mkdir()
    (folder / "labels" / "c.nii.gz").write_bytes(b"broken")
    return {"labels": folder / "labels"}


def _label_elsewhere(folder: Path) -> dict[str, object]:
    label(folder / "labels" / "c.nii.gz", grid=Grid(SHAPE, np.eye(4)))
    return {"labels": folder / "labels"}


def _gap_in_values(folder: Path) -> dict[str, object]:
    write_labels(folder / "labels" / "c.nii.gz", np.full(GRID.ras.shape, 3), GRID)
    return {"labels": folder / "labels"}


def _unnamed_value(folder: Path) -> dict[str, object]:
    return {"labels": label(folder / "c.nii.gz", top=4), "label_names": ["organ"]}


def _label_of_no_scan(folder: Path) -> dict[str, object]:
    return {"labels": [label(folder / "labels" / "z.nii.gz")]}


def _labels_of_no_scan(folder: Path) -> dict[str, object]:
    label(folder / "labels" / "z.nii.gz")
    return {"labels": folder / "labels"}


def _channel_too_many(folder: Path) -> dict[str, object]:
    return {"channel_names": ["T1", "T2"]}


@pytest.mark.parametrize(
    ("spoil", "kind", "words"),
    [
        (_broken_scan, ScanError, "d.nii.gz: not readable"),
        (_broken_label, ScanError, "c.nii.gz: not readable"),
        (_label_elsewhere, AnnotationError, "c.nii.gz: lies on another grid"),
        (_gap_in_values, AnnotationError, "c.nii.gz: label values run to 3"),
        (_unnamed_value, AnnotationError, "c.nii.gz: holds label value 2, but the labels are"),
        (_label_of_no_scan, AnnotationError, "z.nii.gz: no scan is called 'z'"),
        (_labels_of_no_scan, AnnotationError, "no label in it is named as a scan (found z)"),
        (_channel_too_many, SettingsError, "2 channel name(s) given for 1"),
        (lambda _: {"series": "3"}, SettingsError, "--series is for DICOM"),
        (lambda _: {"spacing": (1, 1, 1)}, SettingsError, "--spacing is for .h5 files"),
        (lambda _: {"label_names": ["a", "a"]}, SettingsError, "--names a,a"),
    ],
)
def test_one_fault_leaves_no_output_at_all(
    tmp_path: Path, spoil: object, kind: type[TwosliceError], words: str
) -> None:
    for name in "abc":
        scan(tmp_path / "scans" / f"{name}.nii.gz")
    assert callable(spoil)
    options = spoil(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(kind) as refused:
        import_scans([tmp_path / "scans"], tmp_path / "set", **options)
    assert words in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_spacing_of_nothing_is_refused(tmp_path: Path) -> None:
    source = h5(tmp_path / "a" / "mri_norm2.h5")
    with pytest.raises(SettingsError, match="three millimetres above 0"):
        import_scans([source], tmp_path / "set", spacing=(1.0, 0.0, 1.0))


def test_cases_with_different_channels_are_refused(tmp_path: Path) -> None:
    scan(tmp_path / "scans" / "a_0000.nii.gz")
    scan(tmp_path / "scans" / "a_0001.nii.gz")
    scan(tmp_path / "more" / "b.nii.gz")
    with pytest.raises(DatasetError, match="case b lacks channel 0001: it has 1 channel"):
        import_scans([tmp_path / "scans", tmp_path / "more"], tmp_path / "set")


def test_test_scans_alone_make_no_dataset(tmp_path: Path) -> None:
    scan(tmp_path / "old" / "imagesTs" / "b_0000.nii.gz")
    with pytest.raises(DatasetError, match="holds test scans alone"):
        import_scans([tmp_path / "old" / "imagesTs"], tmp_path / "set")


def test_a_folder_that_is_in_use_is_left_alone(tmp_path: Path) -> None:
    source = scan(tmp_path / "a.nii.gz")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "mine.txt").write_text("precious")
    with pytest.raises(TwosliceError, match="already there and not empty"):
        import_scans([source], tmp_path / "set")
    assert [path.name for path in (tmp_path / "set").iterdir()] == ["mine.txt"]


@pytest.mark.data
@pytest.mark.slow
def test_the_left_atrium_h5_files_become_a_dense_dataset(real_data: Path, tmp_path: Path) -> None:
    sources = sorted((real_data / "LA_h5").glob("*/mri_norm2.h5"))[:2]
    dataset = import_scans(sources, tmp_path / "LA")
    assert Dataset.open(tmp_path / "LA").labeled == tuple(path.parent.name for path in sources)
    assert dataset.read_image(sources[0].parent.name).spacing == (0.625, 0.625, 0.625)
