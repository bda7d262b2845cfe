"""The door: every way a path can be wrong is one line with the file and a remedy."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from scan_files import blocks, write_series
from twoslice.errors import AnnotationError, InputError, OutputError, ScanError
from twoslice.io.grid import Grid
from twoslice.io.scans import (
    ending_of,
    is_scan,
    read_channels,
    read_grid,
    read_label_map,
    read_scan,
    write_image,
    write_labels,
)

SHAPE = (4, 5, 6)
AFFINE = np.diag([-1.0, -1.0, 2.5, 1.0])


def scan(path: Path, data: np.ndarray | None = None, affine: np.ndarray = AFFINE) -> Path:
    nib.save(nib.Nifti1Image(blocks(SHAPE) if data is None else data, affine), path)
    return path


def spoiled(path: Path, places: dict[int, bytes]) -> Path:
    """A sound .nii file with some bytes of its header replaced."""
    content = bytearray(scan(path).read_bytes())
    for start, piece in places.items():
        content[start : start + len(piece)] = piece
    path.write_bytes(bytes(content))
    return path


def with_value(value: float) -> np.ndarray:
    data = np.ones(SHAPE, np.float32)
    data[1, 2, 3] = value
    return data


def zeros(count: int) -> bytes:
    return np.zeros(count, np.float32).tobytes()


NO_FORMS = {252: bytes(4)}
KINDS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "absent": (lambda f: f / "a.nii.gz", "no such file"),
    "empty": (lambda f: _touch(f / "a.nii.gz"), "is empty"),
    "not NIfTI": (lambda f: _bytes(f / "a.nii", b"hello " * 100), "is not a NIfTI file"),
    "short NIfTI": (lambda f: _bytes(f / "a.nii", (348).to_bytes(4, "little")), "cut short"),
    "not gzip": (lambda f: _bytes(f / "a.nii.gz", b"hello"), "not readable as NIfTI"),
    "not NRRD": (lambda f: _bytes(f / "a.nrrd", b"hello"), "not readable as NRRD"),
    "not HDF5": (lambda f: _bytes(f / "a.h5", b"hello"), "not readable as HDF5"),
    "unknown ending": (lambda f: _bytes(f / "a.docx", b"PK"), "its ending is not one of"),
    "NaN": (lambda f: scan(f / "a.nii.gz", with_value(np.nan)), "1 voxel(s) are not finite"),
    "infinite": (lambda f: scan(f / "a.nii.gz", with_value(np.inf)), "1 voxel(s) are not finite"),
    "beyond float32": (
        lambda f: scan(f / "a.nii.gz", with_value(1).astype(np.float64) * 1e300),
        "are not finite",
    ),
    "2-D": (lambda f: scan(f / "a.nii.gz", blocks(SHAPE)[0]), "is a single slice (5 × 6)"),
    "one slice": (lambda f: scan(f / "a.nii.gz", blocks(SHAPE)[:1]), "is a single slice"),
    "4-D": (lambda f: scan(f / "a.nii.gz", np.zeros((4, 5, 6, 2))), "is 4-D (4 × 5 × 6 × 2)"),
    "complex": (
        lambda f: scan(f / "a.nii.gz", blocks(SHAPE).astype(np.complex64)),
        "complex64 values",
    ),
    "zero spacing": (
        lambda f: spoiled(f / "a.nii", NO_FORMS | {84: zeros(1)}),
        "voxel spacing is 1 × 0 × 2.5 mm",
    ),
    "zero spacing beside a sound sform": (
        lambda f: spoiled(f / "a.nii", {84: zeros(1)}),
        "voxel spacing is 1 × 0 × 2.5 mm",
    ),
    "spacing not a number": (
        lambda f: spoiled(f / "a.nii", {80: np.float32(np.nan).tobytes()}),
        "voxel spacing is nan",
    ),
    "zero column": (
        lambda f: spoiled(f / "a.nii", {280: zeros(4)}),
        "voxel spacing is 0 × 1 × 2.5",
    ),
    "singular affine": (
        lambda f: spoiled(
            f / "a.nii",
            {
                280: np.array([1, 1, 0, 0], np.float32).tobytes(),
                296: np.array([1, 1, 0, 0], np.float32).tobytes(),
            },
        ),
        "its affine is singular",
    ),
    "affine not finite": (
        lambda f: spoiled(f / "a.nii", {280: np.full(4, np.nan, np.float32).tobytes()}),
        "affine holds values that are not finite",
    ),
    "no voxels": (lambda f: spoiled(f / "a.nii", {42: bytes(2)}), "a.nii"),
    "impossible shape": (
        lambda f: spoiled(f / "a.nii", {42: np.full(3, 32000, np.int16).tobytes()}),
        "not readable as NIfTI",
    ),
    "unknown voxel type": (
        lambda f: spoiled(f / "a.nii", {70: (999).to_bytes(2, "little")}),
        "not readable as NIfTI",
    ),
    "empty folder": (lambda f: _folder(f / "a"), "no DICOM images"),
}


def _touch(path: Path) -> Path:
    path.touch()
    return path


def _bytes(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.parametrize("name", KINDS)
def test_what_cannot_be_read_is_one_line_with_the_file_and_a_remedy(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make, words = KINDS[name]
    path = make(tmp_path)
    with pytest.raises(ScanError) as refused:
        read_scan(path)
    line = str(refused.value)
    assert words in line
    assert line.startswith(str(path))
    assert "\n" not in line
    assert line.endswith(".")
    assert line.count(". ") >= 1, "says what is wrong, then what to do"
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = scan(tmp_path / "a.nii.gz")
    path.chmod(0)
    with pytest.raises(ScanError, match=r"Permission denied\. Make it readable"):
        read_scan(path)


def test_a_file_that_the_system_will_not_open_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = scan(tmp_path / "a.nii.gz")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ScanError, match=r"a\.nii\.gz: Permission denied\. Make it readable"):
        read_scan(path)


def test_labels_as_whole_floats_are_taken_and_others_refused(tmp_path: Path) -> None:
    labels = blocks(SHAPE, top=4)
    read = read_label_map(scan(tmp_path / "whole.nii.gz", labels.astype(np.float64)))
    np.testing.assert_array_equal(read.grid.from_ras(read.data), labels)
    for name, spoil in {"half": 0.5, "nan": np.nan}.items():
        path = scan(tmp_path / f"{name}.nii.gz", labels.astype(np.float32) + np.float32(spoil))
        with pytest.raises(AnnotationError, match=rf"{name}\.nii\.gz: .*not whole numbers"):
            read_label_map(path)


@pytest.mark.parametrize("value", [-1, 40000])
def test_label_values_outside_the_range_are_refused(tmp_path: Path, value: int) -> None:
    path = scan(tmp_path / "a.nii.gz", np.full(SHAPE, value, np.int32))
    with pytest.raises(AnnotationError, match=rf"a\.nii\.gz: label values run from .*{value}"):
        read_label_map(path)


def test_an_infinite_label_is_refused(tmp_path: Path) -> None:
    path = scan(tmp_path / "a.nii.gz", with_value(np.inf))
    with pytest.raises(AnnotationError, match="label values run from 0 to inf"):
        read_label_map(path)


def test_channels_must_share_a_grid(tmp_path: Path) -> None:
    paths = [scan(tmp_path / f"a_000{index}.nii.gz") for index in range(2)]
    assert read_channels(paths).data.shape == (2, *SHAPE)
    moved = AFFINE.copy()
    moved[0, 3] = 5
    scan(paths[1], affine=moved)
    with pytest.raises(ScanError, match=r"a_0001\.nii\.gz: lies on another grid than a_0000"):
        read_channels(paths)


def test_images_are_written_as_float32_and_int16_stays(tmp_path: Path) -> None:
    grid = Grid(SHAPE, AFFINE)
    write_image(tmp_path / "a.nii.gz", blocks(SHAPE).astype(np.float64), grid)
    write_image(tmp_path / "b.nii.gz", blocks(SHAPE), grid)
    assert nib.load(tmp_path / "a.nii.gz").get_data_dtype() == np.float32
    assert nib.load(tmp_path / "b.nii.gz").get_data_dtype() == np.int16


def test_a_mask_of_true_and_false_is_written_as_1_and_0(tmp_path: Path) -> None:
    write_labels(tmp_path / "a.nii.gz", blocks(SHAPE, top=2) == 1, Grid(SHAPE, np.eye(4)))
    np.testing.assert_array_equal(read_label_map(tmp_path / "a.nii.gz").data, blocks(SHAPE, top=2))


def test_a_written_file_has_the_permissions_of_any_other(tmp_path: Path) -> None:
    write_labels(tmp_path / "a.nii.gz", np.zeros(SHAPE, np.uint8), Grid(SHAPE, AFFINE))
    (tmp_path / "b").touch()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


@pytest.mark.parametrize("ending", [".png", ".h5", ".mhd"])
def test_a_format_that_cannot_be_written_whole_is_not_written(tmp_path: Path, ending: str) -> None:
    with pytest.raises(OutputError, match=r"Name it \.nii\.gz"):
        write_labels(tmp_path / f"a{ending}", np.zeros(SHAPE, np.uint8), Grid(SHAPE, AFFINE))
    assert list(tmp_path.iterdir()) == []


def test_voxels_that_do_not_fit_the_grid_are_our_bug(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        write_labels(tmp_path / "a.nii.gz", np.zeros((2, 2, 2)), Grid(SHAPE, AFFINE))


def test_what_counts_as_a_scan(tmp_path: Path) -> None:
    assert is_scan(scan(tmp_path / "a.nii.gz"))
    assert not is_scan(_touch(tmp_path / "notes.txt"))
    assert not is_scan(_touch(tmp_path / ".a.nii.gz"))
    assert not is_scan(_folder(tmp_path / "empty"))
    assert not is_scan(tmp_path / "absent.nii.gz")
    write_series(tmp_path / "dicom", blocks(SHAPE))
    assert is_scan(tmp_path / "dicom")


def test_endings_are_found_in_any_case() -> None:
    assert ending_of("A.NII.GZ") == ".NII.GZ"
    assert ending_of("a.b.nrrd") == ".nrrd"
    assert ending_of("a.gz") is None
    assert ending_of(".nii") is None


def test_a_grid_comes_from_the_header_of_every_format(tmp_path: Path) -> None:
    grid = Grid(SHAPE, AFFINE)
    for ending in (".nii", ".nii.gz", ".nrrd", ".mha"):
        write_labels(tmp_path / f"a{ending}", np.zeros(SHAPE, np.uint8), grid)
        assert read_grid(tmp_path / f"a{ending}").same_as(grid)


def test_labels_in_a_dicom_folder_are_refused(tmp_path: Path) -> None:
    write_series(tmp_path, blocks(SHAPE))
    with pytest.raises(InputError, match="Save the labels as NIfTI or NRRD"):
        read_label_map(tmp_path)
