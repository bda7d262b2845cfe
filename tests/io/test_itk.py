"""NRRD and MetaImage files: geometry as SimpleITK has it, and files that are cut short."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813
from hypothesis import given, settings
from hypothesis import strategies as st

from scan_files import LPS_TO_RAS, Affine, affines, blocks, shapes
from twoslice.errors import OutputError, ScanError
from twoslice.io.grid import Grid
from twoslice.io.scans import read_grid, read_label_map, read_scan, write_labels

SHAPE = (4, 5, 6)
ENDINGS = [".nrrd", ".mha", ".mhd"]


def itk_image(shape: tuple[int, int, int], affine: Affine) -> sitk.Image:
    axes = LPS_TO_RAS @ affine
    spacing = np.linalg.norm(axes[:3, :3], axis=0)
    image = sitk.GetImageFromArray(np.ascontiguousarray(blocks(shape).T))
    image.SetSpacing(spacing.tolist())
    image.SetDirection((axes[:3, :3] / spacing).ravel().tolist())
    image.SetOrigin(axes[:3, 3].tolist())
    return image


@settings(max_examples=60)
@given(affines(), shapes(), st.sampled_from(ENDINGS))
def test_each_voxel_lies_where_itk_puts_it(
    affine: Affine, shape: tuple[int, int, int], ending: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"scan{ending}"
        image = itk_image(shape, affine)
        sitk.WriteImage(image, str(path))
        volume = read_scan(path)
        assert read_grid(path).same_as(volume.grid, tolerance_mm=0)
        for index in ((0, 0, 0), tuple(side - 1 for side in shape)):
            point = LPS_TO_RAS[:3, :3] @ image.TransformIndexToPhysicalPoint(index)
            np.testing.assert_allclose((volume.grid.affine @ [*index, 1])[:3], point, atol=1e-6)
            stored = volume.grid.from_ras(volume.data[0])
            assert stored[index] == image[index]


@settings(max_examples=40)
@given(affines(), shapes(), st.sampled_from(ENDINGS[:2]))
def test_a_label_is_written_onto_the_scans_grid(
    affine: Affine, shape: tuple[int, int, int], ending: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / f"scan{ending}", Path(folder) / f"label{ending}"
        sitk.WriteImage(itk_image(shape, affine), str(source))
        volume = read_scan(source)
        write_labels(target, volume.data[0], volume.grid)
        there, back = sitk.ReadImage(str(source)), sitk.ReadImage(str(target))
        np.testing.assert_array_equal(
            sitk.GetArrayFromImage(back), sitk.GetArrayFromImage(there).astype(np.uint8)
        )
        np.testing.assert_allclose(back.GetOrigin(), there.GetOrigin(), atol=1e-6)
        np.testing.assert_allclose(back.GetSpacing(), there.GetSpacing(), atol=1e-6)
        np.testing.assert_allclose(back.GetDirection(), there.GetDirection(), atol=1e-6)
        assert read_label_map(target).grid.same_as(volume.grid)


@pytest.mark.parametrize("ending", [".nrrd", ".mha"])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.97])
def test_a_file_that_is_cut_short_is_refused(
    tmp_path: Path, ending: str, packed: bool, share: float, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"cut{ending}"
    image = sitk.GetImageFromArray(blocks((20, 20, 20)))
    sitk.WriteImage(image, str(path), useCompression=packed)
    content = path.read_bytes()
    start = 300
    path.write_bytes(content[: start + int(share * (len(content) - start))])
    with pytest.raises(ScanError, match=rf"cut\{ending}: not readable as .*export it again"):
        read_scan(path)
    assert capfd.readouterr() == ("", "")


def test_an_mhd_whose_raw_file_is_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scan.mhd"
    sitk.WriteImage(sitk.GetImageFromArray(blocks((20, 20, 20))), str(path))
    raw = tmp_path / "scan.raw"
    raw.write_bytes(raw.read_bytes()[:5000])
    with pytest.raises(ScanError, match=r"scan\.mhd"):
        read_scan(path)


def test_colours_are_refused(tmp_path: Path) -> None:
    colours = sitk.GetImageFromArray(np.zeros((4, 5, 6, 3), np.uint8), isVector=True)
    sitk.WriteImage(colours, str(tmp_path / "rgb.nrrd"))
    with pytest.raises(ScanError, match=r"rgb\.nrrd: holds 3 numbers a voxel"):
        read_scan(tmp_path / "rgb.nrrd")


def test_one_time_point_is_dropped_and_several_are_refused(tmp_path: Path) -> None:
    for count in (1, 2):
        film = sitk.GetImageFromArray(np.stack([blocks((6, 5, 4))] * count), isVector=False)
        sitk.WriteImage(film, str(tmp_path / f"film{count}.nrrd"))
    assert read_scan(tmp_path / "film1.nrrd").grid.shape == SHAPE
    with pytest.raises(ScanError, match=r"film2\.nrrd: is 4-D"):
        read_scan(tmp_path / "film2.nrrd")


def test_a_flat_image_is_refused(tmp_path: Path) -> None:
    sitk.WriteImage(sitk.GetImageFromArray(blocks(SHAPE)[0]), str(tmp_path / "flat.mha"))
    with pytest.raises(ScanError, match=r"flat\.mha: is a single slice"):
        read_scan(tmp_path / "flat.mha")


def test_sheared_axes_cannot_go_into_these_formats(tmp_path: Path) -> None:
    affine = np.eye(4)
    affine[0, 2] = 0.5
    with pytest.raises(OutputError, match=r"Save it as \.nii\.gz"):
        write_labels(tmp_path / "label.nrrd", np.zeros(SHAPE, np.uint8), Grid(SHAPE, affine))
    assert list(tmp_path.iterdir()) == []


def test_gipl_holds_no_orientation_and_is_written_only_without_one(tmp_path: Path) -> None:
    lps = Grid(SHAPE, np.diag([-1.0, -2.0, 3.0, 1.0]))
    write_labels(tmp_path / "label.gipl", lps.to_ras(blocks(SHAPE)), lps)
    read = read_label_map(tmp_path / "label.gipl")
    assert read.grid.same_as(lps)
    np.testing.assert_array_equal(read.grid.from_ras(read.data), blocks(SHAPE))
    with pytest.raises(OutputError, match="GIPL cannot hold an orientation"):
        write_labels(tmp_path / "turned.gipl", blocks(SHAPE), Grid(SHAPE, np.eye(4)))
