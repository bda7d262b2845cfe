"""NIfTI: values, geometry there and back, checked against nibabel and SimpleITK."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813
from hypothesis import given, settings
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from scan_files import LPS_TO_RAS, Affine, affine_of, affines, blocks, shapes
from twoslice.errors import ScanError
from twoslice.io.grid import Grid
from twoslice.io.scans import (
    read_grid,
    read_label_map,
    read_scan,
    write_image,
    write_labels,
    write_slices,
)
from twoslice.planes import Plane

SHAPE = (4, 5, 6)
AFFINE = np.diag([-1.0, -1.5, 2.5, 1.0])


def itk_affine(path: Path) -> NDArray[np.float64]:
    """Where SimpleITK puts the voxels of a file, as a RAS affine."""
    image = sitk.ReadImage(str(path))
    corners = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    points = np.array([image.TransformIndexToPhysicalPoint(corner) for corner in corners])
    affine = np.eye(4)
    affine[:3, :3] = (points[1:] - points[0]).T
    affine[:3, 3] = points[0]
    return np.asarray(LPS_TO_RAS @ affine)


def geometry(path: Path) -> dict[str, Any]:
    header = nib.load(path).header
    names = ("pixdim", "qform_code", "sform_code", "quatern_b", "qoffset_x", "srow_x", "srow_y")
    return {name: header[name].tobytes() for name in (*names, "srow_z", "xyzt_units")}


@settings(max_examples=60)
@given(affines(), shapes())
def test_a_label_goes_back_to_shape_orientation_and_affine(
    affine: Affine, shape: tuple[int, int, int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "scan.nii.gz", Path(folder) / "label.nii.gz"
        image = nib.Nifti1Image(blocks(shape), affine)
        image.set_qform(affine, code="scanner")
        nib.save(image, source)
        volume = read_scan(source)
        write_labels(target, volume.data[0].astype(np.uint8), volume.grid)
        written = nib.load(target)
        assert written.shape == shape
        np.testing.assert_array_equal(written.affine, nib.load(source).affine)
        np.testing.assert_array_equal(np.asanyarray(written.dataobj), blocks(shape))
        assert geometry(target) == geometry(source)
        np.testing.assert_array_equal(itk_affine(target), itk_affine(source))
        stored = sitk.GetArrayFromImage(sitk.ReadImage(str(target)))
        np.testing.assert_array_equal(stored.T, blocks(shape))


@settings(max_examples=60)
@given(affines(), shapes())
def test_nibabel_and_itk_agree_on_where_a_new_file_lies(
    affine: Affine, shape: tuple[int, int, int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.nii.gz"
        grid = Grid(shape, affine)
        write_image(path, grid.to_ras(blocks(shape)).astype(np.float32), grid)
        np.testing.assert_array_equal(nib.load(path).affine, affine.astype(np.float32))
        np.testing.assert_allclose(itk_affine(path), affine, atol=2e-4)
        qform, code = nib.load(path).header.get_qform(coded=True)
        assert code == 0 or Grid(shape, qform).same_as(grid, tolerance_mm=1e-3)
        assert Grid(shape, nib.load(path).affine).same_as(grid, tolerance_mm=1e-3)
        np.testing.assert_array_equal(read_scan(path).data[0], grid.to_ras(blocks(shape)))


@settings(max_examples=30)
@given(affines(), shapes())
def test_a_file_that_itk_wrote_is_read_where_itk_puts_it(
    affine: Affine, shape: tuple[int, int, int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "itk.nii.gz"
        axes = LPS_TO_RAS @ affine
        image = sitk.GetImageFromArray(np.ascontiguousarray(blocks(shape).T))
        spacing = np.linalg.norm(axes[:3, :3], axis=0)
        image.SetSpacing(spacing.tolist())
        image.SetDirection((axes[:3, :3] / spacing).ravel().tolist())
        image.SetOrigin(axes[:3, 3].tolist())
        sitk.WriteImage(image, str(path))
        volume = read_scan(path)
        np.testing.assert_allclose(volume.grid.affine, itk_affine(path), atol=2e-4)
        np.testing.assert_array_equal(volume.grid.from_ras(volume.data[0]), blocks(shape))


def test_a_sheared_affine_is_kept_and_no_wrong_qform_is_written(tmp_path: Path) -> None:
    affine = AFFINE.copy()
    affine[0, 2] = 1.0
    grid = Grid(SHAPE, affine)
    write_labels(tmp_path / "sheared.nii.gz", np.zeros(grid.ras.shape, np.uint8), grid)
    header = nib.load(tmp_path / "sheared.nii.gz").header
    np.testing.assert_array_equal(header.get_sform(), affine)
    assert int(header["qform_code"]) == 0
    np.testing.assert_allclose(header.get_zooms(), grid.spacing, rtol=1e-6)
    assert read_grid(tmp_path / "sheared.nii.gz").same_as(grid, tolerance_mm=1e-6)


def test_a_qform_that_rounding_would_turn_is_left_out(tmp_path: Path) -> None:
    # Near half a turn the quaternion's four bytes a number lose three digits: 3e-4 radians.
    turn = Rotation.from_euler("xyz", (179, 1, 1), degrees=True).as_matrix()
    affine = affine_of(np.eye(3), (1, 1, 1), (0, 0, 0), turn)
    codes = {}
    for side in (2, 400):
        grid = Grid((side, 2, side), affine)
        path = tmp_path / f"{side}.nii.gz"
        write_labels(path, np.zeros(grid.ras.shape, np.uint8), grid)
        np.testing.assert_allclose(itk_affine(path), affine, atol=1e-6)
        codes[side] = int(nib.load(path).header["qform_code"])
    assert codes == {2: 1, 400: 0}


def test_a_label_that_itk_saved_by_a_rounded_qform_lies_on_its_image(tmp_path: Path) -> None:
    turn = Rotation.from_euler("xyz", (3, -4, 176), degrees=True).as_matrix()
    affine = affine_of(np.eye(3), (0.7, 0.7, 0.7), (90, 90, -60), turn)
    image = nib.Nifti1Image(np.zeros((256, 256, 2), np.uint8), affine)
    image.set_qform(affine, code="scanner")
    nib.save(image, tmp_path / "image.nii.gz")
    image.set_sform(None)
    nib.save(image, tmp_path / "rounded.nii.gz")
    label = sitk.ReadImage(str(tmp_path / "rounded.nii.gz"))
    sitk.WriteImage(label, str(tmp_path / "label.nii.gz"))
    there, here = read_grid(tmp_path / "image.nii.gz"), read_grid(tmp_path / "label.nii.gz")
    assert here.same_as(there)


@pytest.mark.parametrize(("sform", "qform"), [(1, 0), (0, 1), (0, 0), (4, 2)])
def test_the_forms_of_the_source_are_repeated(tmp_path: Path, sform: int, qform: int) -> None:
    image = nib.Nifti1Image(blocks(SHAPE), None)
    image.header.set_zooms((1.0, 1.5, 2.5))
    image.header.set_sform(AFFINE if sform else None, code=sform)
    image.header.set_qform(AFFINE if qform else None, code=qform)
    image.header.set_xyzt_units("mm")
    nib.save(image, tmp_path / "scan.nii")
    volume = read_scan(tmp_path / "scan.nii")
    np.testing.assert_array_equal(volume.grid.affine, nib.load(tmp_path / "scan.nii").affine)
    write_labels(tmp_path / "label.nii.gz", volume.data[0], volume.grid)
    assert geometry(tmp_path / "label.nii.gz") == geometry(tmp_path / "scan.nii")


def test_scaled_integers_are_read_scaled(tmp_path: Path) -> None:
    image = nib.Nifti1Image(np.zeros(SHAPE, np.int16), AFFINE)
    image.header.set_slope_inter(0.5, -10)
    nib.save(image, tmp_path / "plain.nii")
    raw = bytearray((tmp_path / "plain.nii").read_bytes())
    raw[112:120] = np.array([0.5, -10], np.float32).tobytes()
    raw[352:] = blocks(SHAPE).tobytes(order="F")
    (tmp_path / "plain.nii").write_bytes(bytes(raw))
    volume = read_scan(tmp_path / "plain.nii")
    stored = volume.grid.from_ras(volume.data[0])
    np.testing.assert_allclose(stored, 0.5 * blocks(SHAPE) - 10)


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int32, np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("order", ["<", ">"])
def test_labels_of_every_type_and_byte_order_are_exact(
    tmp_path: Path, kind: type[np.generic], order: str
) -> None:
    labels = blocks(SHAPE, top=120)
    header = nib.Nifti1Header(endianness=order)
    header.set_data_dtype(np.dtype(kind).newbyteorder(order))
    image = nib.Nifti1Image(labels.astype(kind), AFFINE, header)
    nib.save(image, tmp_path / "label.nii.gz")
    read = read_label_map(tmp_path / "label.nii.gz")
    assert read.data.dtype == np.int16
    np.testing.assert_array_equal(read.grid.from_ras(read.data), labels)


def test_nifti_2_is_read_and_its_label_lies_on_it(tmp_path: Path) -> None:
    nib.save(nib.Nifti2Image(blocks(SHAPE), AFFINE), tmp_path / "two.nii.gz")
    volume = read_scan(tmp_path / "two.nii.gz")
    write_labels(tmp_path / "label.nii.gz", volume.data[0], volume.grid)
    np.testing.assert_array_equal(nib.load(tmp_path / "label.nii.gz").affine, AFFINE)


def test_one_time_point_is_dropped(tmp_path: Path) -> None:
    nib.save(nib.Nifti1Image(blocks(SHAPE)[..., None], AFFINE), tmp_path / "one.nii.gz")
    volume = read_scan(tmp_path / "one.nii.gz")
    assert volume.grid.shape == SHAPE
    np.testing.assert_array_equal(volume.grid.from_ras(volume.data[0]), blocks(SHAPE))


def test_two_writes_give_the_same_bytes(tmp_path: Path) -> None:
    grid = Grid(SHAPE, AFFINE)
    for name in ("a.nii.gz", "b.nii.gz"):
        write_labels(tmp_path / name, np.ones(SHAPE, np.uint8), grid)
    assert (tmp_path / "a.nii.gz").read_bytes() == (tmp_path / "b.nii.gz").read_bytes()


def test_many_labels_are_written_as_int16_and_few_as_uint8(tmp_path: Path) -> None:
    grid = Grid(SHAPE, AFFINE)
    write_labels(tmp_path / "few.nii.gz", np.full(SHAPE, 255), grid)
    write_labels(tmp_path / "many.nii.gz", np.full(SHAPE, 300), grid)
    assert nib.load(tmp_path / "few.nii.gz").get_data_dtype() == np.uint8
    assert nib.load(tmp_path / "many.nii.gz").get_data_dtype() == np.int16
    assert read_label_map(tmp_path / "many.nii.gz").data.max() == 300


def test_a_flipped_bit_in_the_stream_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scan.nii.gz"
    nib.save(nib.Nifti1Image(blocks((12, 12, 12)), AFFINE), path)
    content = bytearray(path.read_bytes())
    content[-6] ^= 1  # in the check sum: the voxels themselves still unpack
    path.write_bytes(bytes(content))
    assert len(np.asanyarray(nib.load(path).dataobj)) == 12
    with pytest.raises(ScanError, match=r"scan\.nii\.gz: not readable"):
        read_scan(path)


def test_the_grid_is_read_without_the_voxels(tmp_path: Path) -> None:
    path = tmp_path / "scan.nii.gz"
    nib.save(nib.Nifti1Image(blocks((30, 30, 30)), AFFINE), path)
    path.write_bytes(path.read_bytes()[:2000])
    assert read_grid(path).shape == (30, 30, 30)
    with pytest.raises(ScanError, match="cut short"):
        read_scan(path)


def test_colours_are_refused(tmp_path: Path) -> None:
    rgb = np.zeros(SHAPE, dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    nib.save(nib.Nifti1Image(rgb, AFFINE), tmp_path / "rgb.nii.gz")
    with pytest.raises(ScanError, match=r"rgb\.nii\.gz: holds colours"):
        read_scan(tmp_path / "rgb.nii.gz")


def test_an_analyze_file_called_nii_is_refused(tmp_path: Path) -> None:
    raw = bytearray(352 + 2 * int(np.prod(SHAPE)))
    raw[:4] = (348).to_bytes(4, "little")
    (tmp_path / "old.nii").write_bytes(bytes(raw))
    with pytest.raises(ScanError, match="no NIfTI mark"):
        read_scan(tmp_path / "old.nii")


def test_a_gzip_within_the_ending_nii_is_refused_by_name(tmp_path: Path) -> None:
    nib.save(nib.Nifti1Image(blocks(SHAPE), AFFINE), tmp_path / "scan.nii")
    packed = gzip.compress((tmp_path / "scan.nii").read_bytes())
    (tmp_path / "scan.nii").write_bytes(packed)
    with pytest.raises(ScanError, match=r"scan\.nii: is not a NIfTI file"):
        read_scan(tmp_path / "scan.nii")


@settings(max_examples=40)
@given(affines(), shapes())
def test_slices_alone_are_written_as_the_whole_map_would_be(
    affine: Affine, shape: tuple[int, int, int]
) -> None:
    """The same bytes once unpacked, in one gzip stream that SimpleITK reads too."""
    grid = Grid(shape, affine)
    whole = np.full(grid.ras.shape, 3, np.uint8)
    slices = []
    for plane in (Plane.AXIAL, Plane.CORONAL):
        mask = blocks(shape, top=3).astype(np.uint8)
        index = whole.shape[plane.axis] // 2
        mask = plane.take(np.resize(mask, whole.shape), index)
        whole[plane.slice(index)] = mask
        slices.append((plane.slice(index), mask))
    with tempfile.TemporaryDirectory() as folder:
        one, other = Path(folder) / "whole.nii.gz", Path(folder) / "slices.nii.gz"
        write_labels(one, whole, grid)
        write_slices(other, slices, 3, grid)
        assert gzip.decompress(other.read_bytes()) == gzip.decompress(one.read_bytes())
        read = sitk.GetArrayFromImage(sitk.ReadImage(str(other)))
        assert np.array_equal(read.T, grid.from_ras(whole))
