"""Scan files of every supported format, read into RAS volumes and written back.

This file is the door: it chooses the reader by what the path is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import nibabel as nib
import numpy as np
from numpy.typing import NDArray

from twoslice.errors import ScanError
from twoslice.io import atomic
from twoslice.io.grid import Grid
from twoslice.io.volume import LabelMap, Volume


def read_scan(path: Path) -> Volume:
    """One scan file or DICOM folder as a volume."""
    data, grid = _read_nifti(path)
    return Volume(np.ascontiguousarray(grid.to_ras(data))[None].astype(np.float32), grid)


def read_channels(paths: Sequence[Path]) -> Volume:
    """Several files of one case, a channel each, as one volume."""
    volumes = [read_scan(path) for path in paths]
    for path, volume in zip(paths, volumes, strict=True):
        if not volume.grid.same_as(volumes[0].grid):
            raise ScanError(f"{path}: lies on another grid than {paths[0].name}.")
    return Volume(np.concatenate([volume.data for volume in volumes]), volumes[0].grid)


def read_label_map(path: Path) -> LabelMap:
    """A label file; its values must be whole numbers."""
    data, grid = _read_nifti(path)
    return LabelMap(np.ascontiguousarray(grid.to_ras(data)).astype(np.int16), grid)


def write_labels(path: Path, labels: NDArray[np.uint8], grid: Grid) -> None:
    """Write RAS labels to a NIfTI file on exactly `grid`."""
    image = nib.Nifti1Image(np.ascontiguousarray(grid.from_ras(labels)), grid.affine)
    with atomic.whole_file(path) as scratch:
        nib.save(image, scratch)


def write_image(path: Path, data: NDArray[np.float32], grid: Grid) -> None:
    """Write one RAS channel (I, J, K) to a NIfTI file on exactly `grid`."""
    image = nib.Nifti1Image(np.ascontiguousarray(grid.from_ras(data)), grid.affine)
    with atomic.whole_file(path) as scratch:
        nib.save(image, scratch)


def _read_nifti(path: Path) -> tuple[NDArray[np.float32], Grid]:
    image = nib.load(path)
    i, j, k = image.shape
    return np.asanyarray(image.dataobj), Grid((i, j, k), image.affine)
