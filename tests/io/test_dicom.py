"""DICOM series: geometry and values against SimpleITK, and every reason to refuse a series."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813
from hypothesis import given, settings
from hypothesis import strategies as st
from pydicom.dataset import FileDataset
from pydicom.uid import BasicTextSRStorage

from scan_files import LPS_TO_RAS, Affine, affines, blocks, resave, write_series
from twoslice.errors import ScanError
from twoslice.io.scans import is_scan, read_grid, read_scan

SHAPE = (5, 6, 7)


def by_itk(folder: Path) -> sitk.Image:
    """The folder's series as SimpleITK reads it."""
    reader = sitk.ImageSeriesReader()
    reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(folder)))
    return reader.Execute()


@settings(max_examples=25)
@given(affines(), st.sampled_from([(1.0, 0.0), (0.5, -1024.0), (2.0, 10.0)]))
def test_every_orientation_agrees_with_itk(affine: Affine, scale: tuple[float, float]) -> None:
    axes = LPS_TO_RAS @ affine
    size = np.linalg.norm(axes[:3, :3], axis=0)
    along = (axes[:3, :2] / size[:2]).T.ravel()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_series(
            folder,
            blocks(SHAPE),
            spacing=(size[0], size[1], size[2]),
            orientation=tuple(along),
            origin=(axes[0, 3], axes[1, 3], axes[2, 3]),
            slope=scale[0],
            intercept=scale[1],
        )
        volume = read_scan(folder)
        image = by_itk(folder)
        assert volume.grid.shape == image.GetSize()
        for index in ((0, 0, 0), (1, 2, 3), tuple(side - 1 for side in SHAPE)):
            point = LPS_TO_RAS[:3, :3] @ image.TransformIndexToPhysicalPoint(index)
            np.testing.assert_allclose((volume.grid.affine @ [*index, 1])[:3], point, atol=1e-3)
        stored = volume.grid.from_ras(volume.data[0])
        np.testing.assert_allclose(stored, sitk.GetArrayFromImage(image).T)
        np.testing.assert_allclose(stored, blocks(SHAPE) * scale[0] + scale[1])
        assert read_grid(folder).same_as(volume.grid, tolerance_mm=0)


def test_each_slice_keeps_its_own_slope(tmp_path: Path) -> None:
    def rescale(header: FileDataset, index: int) -> None:
        header.RescaleSlope, header.RescaleIntercept = 1 + index / 2, -index

    write_series(tmp_path, blocks(SHAPE), change=rescale)
    volume = read_scan(tmp_path)
    index = np.arange(SHAPE[2])
    stored = volume.grid.from_ras(volume.data[0])
    np.testing.assert_allclose(stored, blocks(SHAPE) * (1 + index / 2) - index)


def test_other_files_and_reports_in_the_folder_are_passed(tmp_path: Path) -> None:
    write_series(tmp_path, blocks(SHAPE))
    (tmp_path / "notes.txt").write_text("taken on Monday")
    (tmp_path / ".DS_Store").write_bytes(b"\0" * 200)
    _, files = write_series(tmp_path / "other", blocks((5, 6, 1)), number=9)

    def as_report(header: FileDataset) -> None:
        del header.Rows, header.Columns, header.PixelData
        header.SOPClassUID = header.file_meta.MediaStorageSOPClassUID = BasicTextSRStorage

    resave(files[0], as_report)
    shutil.move(files[0], tmp_path / "report.dcm")
    (tmp_path / "other").rmdir()
    assert is_scan(tmp_path)
    assert read_scan(tmp_path).grid.shape == SHAPE


@pytest.fixture
def two_series(tmp_path: Path) -> tuple[Path, str]:
    write_series(tmp_path, blocks(SHAPE), number=3, description="T1 axial")
    uid, _ = write_series(tmp_path, blocks((4, 4, 4)), number=5, description="T2 coronal")
    return tmp_path, uid


def test_several_series_are_listed(two_series: tuple[Path, str]) -> None:
    folder, uid = two_series
    with pytest.raises(ScanError, match="holds 2 series") as refused:
        read_scan(folder)
    line = str(refused.value)
    assert "3 'T1 axial' (CT, 7 images" in line
    assert "5 'T2 coronal' (CT, 4 images" in line
    assert uid in line
    assert "--series" in line


@pytest.mark.parametrize("name", ["5", "T2 coronal", "t2 CORONAL", "uid"])
def test_the_series_that_is_named_is_taken(two_series: tuple[Path, str], name: str) -> None:
    folder, uid = two_series
    assert read_scan(folder, series=uid if name == "uid" else name).grid.shape == (4, 4, 4)


def test_a_series_that_is_not_there_is_refused_with_the_list(two_series: tuple[Path, str]) -> None:
    with pytest.raises(ScanError, match=r"'T9' names 0 of the series.*T1 axial.*T2 coronal"):
        read_scan(two_series[0], series="T9")


def tilt(header: FileDataset, index: int) -> None:
    x, y, z = header.ImagePositionPatient
    header.ImagePositionPatient = [x, y + index * 2.5 * np.tan(np.radians(15)), z]


def multi_frame(header: FileDataset, index: int) -> None:
    header.NumberOfFrames = 2
    header.PixelData = header.PixelData * 2


def localizer(header: FileDataset, index: int) -> None:
    header.ImageType = ["ORIGINAL", "PRIMARY", "LOCALIZER"]


def turned(header: FileDataset, index: int) -> None:
    if index == 4:
        header.ImageOrientationPatient = [1, 0, 0, 0, 0, -1]


def unplaced(header: FileDataset, index: int) -> None:
    if index == 2:
        del header.ImagePositionPatient


def other_size(header: FileDataset, index: int) -> None:
    if index == 2:
        header.PixelSpacing = [1, 1]


def uneven(header: FileDataset, index: int) -> None:
    x, y, z = header.ImagePositionPatient
    header.ImagePositionPatient = [x, y, z + (1.0 if index > 3 else 0.0)]


def colour(header: FileDataset, index: int) -> None:
    header.SamplesPerPixel, header.PhotometricInterpretation = 3, "RGB"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (tilt, "gantry tilt of 15.0 degrees"),
        (multi_frame, "multi-frame"),
        (localizer, "localizer"),
        (turned, "another plane"),
        (unplaced, "lacks ImagePositionPatient"),
        (other_size, "pixel spacing"),
        (uneven, "not evenly spaced: 3.5 mm"),
        (colour, "colour"),
    ],
)
def test_a_series_that_makes_no_box_is_refused_with_the_reason(
    tmp_path: Path, change: Callable[[FileDataset, int], None], words: str
) -> None:
    write_series(tmp_path, blocks(SHAPE), change=change)
    with pytest.raises(ScanError) as refused:
        read_scan(tmp_path)
    assert words in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def test_missing_slices_are_counted(tmp_path: Path) -> None:
    _, files = write_series(tmp_path, blocks(SHAPE))
    files[3].unlink()
    files[4].unlink()
    with pytest.raises(ScanError, match=r"2 slice\(s\) missing between .* 7\.5 mm, elsewhere 2\.5"):
        read_scan(tmp_path)


def test_two_images_at_one_place_are_refused(tmp_path: Path) -> None:
    _, files = write_series(tmp_path, blocks(SHAPE))
    shutil.copy(files[2], tmp_path / "copy.dcm")
    with pytest.raises(ScanError, match=r"copy\.dcm.* lie at the same place") as refused:
        read_scan(tmp_path)
    assert files[2].name in str(refused.value)


def test_positions_rounded_to_a_hundredth_are_even_enough(tmp_path: Path) -> None:
    def rounded(header: FileDataset, index: int) -> None:
        header.ImagePositionPatient = [f"{x:.2f}" for x in header.ImagePositionPatient]

    write_series(tmp_path, blocks(SHAPE), spacing=(0.8, 0.7, 0.625), change=rounded)
    assert read_grid(tmp_path).spacing[2] == pytest.approx(0.625, abs=0.01)


def test_one_file_of_a_series_asks_for_the_folder(tmp_path: Path) -> None:
    _, files = write_series(tmp_path, blocks(SHAPE))
    with pytest.raises(ScanError, match="Name its folder instead"):
        read_scan(files[0])


def test_a_single_slice_is_refused(tmp_path: Path) -> None:
    write_series(tmp_path, blocks((5, 6, 1)))
    with pytest.raises(ScanError, match="single slice"):
        read_scan(tmp_path)


def test_a_slice_whose_pixels_are_cut_short_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, files = write_series(tmp_path, blocks((40, 40, 4)))
    files[1].write_bytes(files[1].read_bytes()[:-1000])
    with pytest.raises(ScanError, match="not readable as DICOM"):
        read_scan(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_a_slice_at_the_end_whose_header_is_cut_is_refused_by_name(tmp_path: Path) -> None:
    _, files = write_series(tmp_path, blocks(SHAPE))
    whole = files[-1].read_bytes()
    pixels = whole.index(b"\xe0\x7f\x10\x00")
    for length in (140, 200, 300, 400, 500, pixels - 40):
        files[-1].write_bytes(whole[:length])
        with pytest.raises(ScanError, match=files[-1].name):
            read_scan(tmp_path)


@pytest.mark.parametrize("left", [0, 12, 13, -1, -2])
def test_a_slice_at_the_end_that_is_cut_at_its_pixels_is_refused(
    tmp_path: Path, left: int, capfd: pytest.CaptureFixture[str]
) -> None:
    _, files = write_series(tmp_path, blocks(SHAPE))
    whole = files[-1].read_bytes()
    pixels = whole.index(b"\xe0\x7f\x10\x00")
    files[-1].write_bytes(whole[:left] if left < 0 else whole[: pixels + left])
    with pytest.raises(ScanError, match=files[-1].name):
        read_scan(tmp_path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("tag", ["Rows", "SeriesInstanceUID"])
def test_an_image_without_what_every_image_has_is_refused(tmp_path: Path, tag: str) -> None:
    _, files = write_series(tmp_path, blocks(SHAPE))
    resave(files[0], lambda header: delattr(header, tag))
    with pytest.raises(ScanError, match=rf"{files[0].name}: lacks {tag}, so it is damaged"):
        read_grid(tmp_path)


def test_a_folder_without_dicom_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("none")
    with pytest.raises(ScanError, match="no DICOM images"):
        read_scan(tmp_path)
