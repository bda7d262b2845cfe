"""The h5 files of the left-atrium scans: geometry is an assumption, held against the real scans."""

from __future__ import annotations

from pathlib import Path

import h5py
import nibabel as nib
import numpy as np
import pytest

from scan_files import blocks
from twoslice.errors import AnnotationError, ScanError
from twoslice.io.scans import read_grid, read_label_map, read_scan

SHAPE = (4, 5, 6)


def write_h5(path: Path, **arrays: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return path


def test_image_and_label_come_as_stored_at_the_left_atriums_spacing(tmp_path: Path) -> None:
    image, label = blocks(SHAPE).astype(np.float32), blocks(SHAPE, top=2).astype(np.uint8)
    path = write_h5(tmp_path / "mri_norm2.h5", image=image, label=label)
    volume = read_scan(path)
    np.testing.assert_array_equal(volume.data[0], image)
    np.testing.assert_array_equal(read_label_map(path).data, label)
    assert volume.spacing == (0.625, 0.625, 0.625)
    assert volume.grid.orientation == "RAS"


def test_another_spacing_can_be_given(tmp_path: Path) -> None:
    path = write_h5(tmp_path / "a.h5", image=blocks(SHAPE))
    assert read_scan(path, spacing=(1.0, 2.0, 3.0)).spacing == (1.0, 2.0, 3.0)
    assert read_grid(path, spacing=(1.0, 2.0, 3.0)).spacing == (1.0, 2.0, 3.0)


def test_what_is_missing_or_does_not_fit_is_said(tmp_path: Path) -> None:
    with pytest.raises(ScanError, match="holds scribble, expected an array called 'image'"):
        read_scan(write_h5(tmp_path / "a.h5", scribble=blocks(SHAPE)))
    with pytest.raises(ScanError, match="no array called 'label'"):
        read_label_map(write_h5(tmp_path / "b.h5", image=blocks(SHAPE)))
    both = write_h5(tmp_path / "c.h5", image=blocks(SHAPE), label=blocks((4, 5, 7), top=2))
    with pytest.raises(ScanError, match=r"c\.h5: its label has"):
        read_label_map(both)
    halves = write_h5(tmp_path / "d.h5", image=blocks(SHAPE), label=np.full(SHAPE, 0.5))
    with pytest.raises(AnnotationError, match=r"not whole numbers, such as 0\.5"):
        read_label_map(halves)


def test_an_h5_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    path = write_h5(tmp_path / "cut.h5", image=blocks((20, 20, 20)))
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(ScanError, match=r"cut\.h5: not readable as HDF5"):
        read_scan(path)


@pytest.mark.data
@pytest.mark.parametrize("number", [0, 7, 19])
def test_the_axes_agree_with_the_same_scans_as_nifti(real_data: Path, number: int) -> None:
    case = (real_data / "LA_h5" / "train.list").read_text().split()[number]
    volume = read_scan(real_data / "LA_h5" / case / "mri_norm2.h5")
    half = nib.load(real_data / "LA_half" / "imagesTr" / f"LA_train_{number:03d}_0000.nii.gz")
    assert "".join(nib.aff2axcodes(half.affine)) == "RAS"
    i, j, k = half.shape
    blocks_of_8 = volume.data[0][: 2 * i, : 2 * j, : 2 * k].reshape(i, 2, j, 2, k, 2)
    alike = np.corrcoef(blocks_of_8.mean((1, 3, 5)).ravel(), np.asanyarray(half.dataobj).ravel())
    assert alike[0, 1] > 0.999
    np.testing.assert_allclose(np.array(volume.spacing) * 2, half.header.get_zooms())
