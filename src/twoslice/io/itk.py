"""NRRD, MetaImage (.mha, .mhd) and GIPL files, through SimpleITK."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoslice.errors import OutputError, ScanError
from twoslice.io.border import (
    Stored,
    foreign,
    plain_numbers,
    silent_stderr,
    usable_affine,
    volume_shape,
)
from twoslice.io.grid import Grid

ENDINGS = (".nrrd", ".mha", ".mhd", ".gipl", ".gipl.gz")
# Not .mhd: its voxels lie in a second file, and two files cannot be renamed as one.
WRITABLE = (".nrrd", ".mha", ".gipl", ".gipl.gz")
_LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])


def read(path: Path) -> Stored:
    """The voxels in (i, j, k) order, and the grid."""
    sitk = quiet_sitk()
    grid = read_grid(path)
    with foreign(path, _kind(path)), silent_stderr():
        image = sitk.ReadImage(str(path))
        data = sitk.GetArrayFromImage(image)
    return Stored(plain_numbers(path, data.T).reshape(grid.shape), grid)


def read_grid(path: Path) -> Grid:
    """The grid alone; of the file only the header is read."""
    sitk = quiet_sitk()
    reader = sitk.ImageFileReader()
    with foreign(path, _kind(path)), silent_stderr():
        reader.SetFileName(str(path))
        reader.ReadImageInformation()
    if reader.GetNumberOfComponents() != 1:
        raise ScanError(
            f"{path}: holds {reader.GetNumberOfComponents()} numbers a voxel (colours, vectors or "
            f"several segments), expected one. Save each as a file of its own."
        )
    shape = volume_shape(path, reader.GetSize())
    return Grid(shape, usable_affine(path, affine_of(reader)))


def write(path: Path, data: NDArray[Any], grid: Grid) -> None:
    """Write voxels in file order on exactly `grid`, in the format that the ending names."""
    sitk = quiet_sitk()
    axes = _LPS_TO_RAS @ grid.affine
    direction = axes[:3, :3] / np.array(grid.spacing)
    if np.abs(direction.T @ direction - np.eye(3)).max() > 1e-4:
        raise OutputError(f"{path}: {_kind(path)} cannot hold sheared axes. Save it as .nii.gz.")
    if _kind(path) == "GIPL" and np.abs(direction - np.eye(3)).max() > 1e-6:
        raise OutputError(f"{path}: GIPL cannot hold an orientation. Save it as .nii.gz.")
    image = sitk.GetImageFromArray(np.ascontiguousarray(data.T))
    image.SetSpacing(grid.spacing)
    image.SetOrigin(axes[:3, 3].tolist())
    image.SetDirection(direction.ravel().tolist())
    try:
        sitk.WriteImage(image, str(path), useCompression=True)
    except RuntimeError as error:
        # ITK does not say why; the caller's whole_file looks whether the disk is full.
        raise OSError(f"{path}: ITK could not write it") from error


def affine_of(image: Any) -> NDArray[np.float64]:
    """The RAS+ affine of a SimpleITK image or reader, of its first three axes."""
    dimension = image.GetDimension()
    direction = np.array(image.GetDirection(), dtype=np.float64).reshape(dimension, dimension)
    affine = np.eye(4)
    count = min(dimension, 3)
    affine[:count, :count] = direction[:count, :count] * np.array(image.GetSpacing()[:count])
    affine[:count, 3] = image.GetOrigin()[:count]
    return _LPS_TO_RAS @ affine


@cache
def quiet_sitk() -> Any:
    """SimpleITK, imported late, with its C++ warnings kept off the user's terminal."""
    import SimpleITK as sitk  # noqa: N813

    sitk.ProcessObject.SetGlobalWarningDisplay(False)
    return sitk


def _kind(path: Path) -> str:
    kinds = {".nrrd": "NRRD", ".mha": "MetaImage", ".mhd": "MetaImage with its data file beside it"}
    return kinds.get(path.suffix.lower(), "GIPL")
