"""`mri_norm2.h5`: the left-atrium scans as the field passes them round, `image` and `label`.

Such a file holds no geometry. Its axes are taken as RAS in the order they are stored (which is how
they lie in the scans that the files were made from), at the left-atrium scans' 0.625 mm in each
direction; where another data set uses the format, give its own spacing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoslice.errors import ScanError
from twoslice.io.border import Stored, foreign, plain_numbers, volume_shape
from twoslice.io.grid import Grid

ENDINGS = (".h5", ".hdf5")
SPACING = (0.625, 0.625, 0.625)
Spacing = tuple[float, float, float]


def read(path: Path, *, spacing: Spacing | None = None) -> Stored:
    """The voxels of `image`, on a RAS grid of `spacing` millimetres."""
    grid = read_grid(path, spacing=spacing)
    return Stored(plain_numbers(path, _array(path, "image")).reshape(grid.shape), grid)


def read_label(path: Path, *, spacing: Spacing | None = None) -> Stored:
    """The voxels of `label`, on the same grid."""
    grid = read_grid(path, spacing=spacing)
    data = plain_numbers(path, _array(path, "label"))
    if volume_shape(path, data.shape) != grid.shape:
        raise ScanError(
            f"{path}: its label has {data.shape} voxels and its image {grid.shape}. Make the file "
            f"again with both on one grid."
        )
    return Stored(data.reshape(grid.shape), grid)


def has_label(path: Path) -> bool:
    """True if the file holds a `label` beside its `image`."""
    return "label" in _shapes(path)


def read_grid(path: Path, *, spacing: Spacing | None = None) -> Grid:
    """The grid alone; no voxel is read."""
    shapes = _shapes(path)
    if "image" not in shapes:
        held = ", ".join(sorted(shapes)) or "nothing"
        raise ScanError(f"{path}: holds {held}, expected an array called 'image'. Add it.")
    return Grid(volume_shape(path, shapes["image"]), np.diag([*(spacing or SPACING), 1.0]))


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    import h5py

    with foreign(path, "HDF5"), h5py.File(path, "r") as file:
        return {
            name: tuple(node.shape) for name, node in file.items() if isinstance(node, h5py.Dataset)
        }


def _array(path: Path, name: str) -> NDArray[Any]:
    import h5py

    with foreign(path, "HDF5"), h5py.File(path, "r") as file:
        if name not in file:
            raise ScanError(f"{path}: holds no array called '{name}'. Add it.")
        return np.asarray(file[name])
