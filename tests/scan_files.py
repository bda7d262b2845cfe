"""Made-up geometry and scan files for tests: every axis order, oblique affines, DICOM series."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid
from pydicom.valuerep import format_number_as_ds
from scipy.spatial.transform import Rotation

Affine = NDArray[np.float64]
LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])

# The 48 ways to lay a box along the body's axes: 6 axis orders, 8 flips.
AXES: list[Affine] = [
    np.eye(3)[list(order)].T * np.array(flips)
    for order, flips in product(permutations(range(3)), product([1.0, -1.0], repeat=3))
]


def affine_of(
    axes: Affine, spacing: tuple[float, ...], origin: tuple[float, ...], turn: Affine | None = None
) -> Affine:
    """The affine of a box laid along `axes`, then turned."""
    affine = np.eye(4)
    affine[:3, :3] = (np.eye(3) if turn is None else turn) @ axes * np.array(spacing)
    affine[:3, 3] = origin
    return affine


@st.composite
def affines(draw: st.DrawFn, *, oblique: bool = True) -> Affine:
    """Any of the 48 axis orders, with any spacing and origin, turned by less than 45 degrees."""
    sizes = st.floats(0.3, 6.0)
    places = st.floats(-400, 400)
    turn = np.eye(3)
    if oblique and draw(st.booleans()):
        angles = draw(st.tuples(*[st.floats(-35, 35)] * 3))
        turn = Rotation.from_euler("xyz", angles, degrees=True).as_matrix()
    return affine_of(
        draw(st.sampled_from(AXES)),
        draw(st.tuples(sizes, sizes, sizes)),
        draw(st.tuples(places, places, places)),
        turn,
    )


def shapes() -> st.SearchStrategy[tuple[int, int, int]]:
    """Small boxes whose sides tend to differ."""
    return st.tuples(st.integers(2, 5), st.integers(2, 6), st.integers(2, 7))


def blocks(shape: tuple[int, int, int], *, seed: int = 0, top: int = 200) -> NDArray[np.int16]:
    """Voxels that differ nearly everywhere, so that any wrong order shows."""
    return np.random.default_rng(seed).integers(0, top, shape).astype(np.int16)


Change = Callable[[FileDataset, int], None]


def write_series(
    folder: Path,
    voxels: NDArray[np.int16],
    *,
    spacing: tuple[float, float, float] = (0.8, 0.7, 2.5),
    orientation: tuple[float, ...] = (1, 0, 0, 0, 1, 0),
    origin: tuple[float, float, float] = (-100.0, -90.0, 30.0),
    number: int = 1,
    description: str = "T1 axial",
    slope: float = 1.0,
    intercept: float = 0.0,
    change: Change | None = None,
) -> tuple[str, list[Path]]:
    """Write voxels (column, row, slice) as a DICOM series, one file a slice, in a shuffled order.

    `change` may spoil the header of each slice. Gives back the series UID and the files by slice.
    """
    folder.mkdir(parents=True, exist_ok=True)
    series = generate_uid()
    along_row, along_column = np.array(orientation[:3]), np.array(orientation[3:])
    normal = np.cross(along_row, along_column)
    names = np.random.default_rng(number).permutation(voxels.shape[2])
    files = []
    for index in range(voxels.shape[2]):
        header = _slice_header(voxels[:, :, index], series, number, description)
        header.ImageOrientationPatient = [number_text(value) for value in orientation]
        place = np.array(origin) + index * spacing[2] * normal
        header.ImagePositionPatient = [number_text(value) for value in place]
        header.PixelSpacing = [number_text(spacing[1]), number_text(spacing[0])]
        header.RescaleSlope, header.RescaleIntercept = slope, intercept
        if change is not None:
            change(header, index)
        path = folder / f"IM{number}_{names[index]:04d}.dcm"
        header.save_as(path, enforce_file_format=True)
        files.append(path)
    return str(series), files


def number_text(value: float) -> str:
    """A number in the 16 characters that DICOM gives it."""
    return format_number_as_ds(float(value))


def _slice_header(pixels: NDArray[np.int16], series: Any, number: int, text: str) -> FileDataset:
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    header = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    header.SOPClassUID = CTImageStorage
    header.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    header.SeriesInstanceUID, header.StudyInstanceUID = series, generate_uid()
    header.SeriesNumber, header.SeriesDescription, header.Modality = number, text, "CT"
    header.ImageType = ["ORIGINAL", "PRIMARY", "AXIAL"]
    header.Columns, header.Rows = pixels.shape
    header.SamplesPerPixel, header.PhotometricInterpretation = 1, "MONOCHROME2"
    header.BitsAllocated, header.BitsStored, header.HighBit = 16, 16, 15
    header.PixelRepresentation = 1
    header.PixelData = np.ascontiguousarray(pixels.T).astype("<i2").tobytes()
    return header


def resave(path: Path, change: Callable[[FileDataset], None]) -> None:
    """Change the header of one DICOM file on disk."""
    header = pydicom.dcmread(path)
    change(header)
    header.save_as(path)
