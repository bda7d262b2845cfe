"""Scan files of every supported format, read into RAS volumes and written back.

This file is the door: it chooses the reader by what the path is.

    .nii .nii.gz                 nifti.py
    .nrrd .mha .mhd .gipl        itk.py
    a folder of DICOM slices     dicom.py
    .h5 with `image`, `label`    h5.py
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoslice.errors import AnnotationError, OutputError, ScanError
from twoslice.io import atomic, dicom, h5, itk, nifti
from twoslice.io.border import Stored
from twoslice.io.grid import Grid
from twoslice.io.h5 import Spacing
from twoslice.io.label_table import label_table
from twoslice.io.volume import LabelMap, Volume

ENDINGS = (*nifti.ENDINGS, *itk.ENDINGS, *h5.ENDINGS)
Index = tuple[slice | int, slice | int, slice | int]
_LARGEST_LABEL = int(np.iinfo(np.int16).max)


class Format(Enum):
    """Which reader a path goes to."""

    NIFTI = "NIfTI"
    ITK = "NRRD, MetaImage or GIPL"
    H5 = "HDF5"
    DICOM = "DICOM"


def ending_of(name: str) -> str | None:
    """The supported ending of a file name, as it is written there; None if it has none."""
    for ending in sorted(ENDINGS, key=len, reverse=True):
        if name.lower().endswith(ending) and len(name) > len(ending):
            return name[-len(ending) :]
    return None


def is_writable(name: str) -> bool:
    """True if scans can be written to a file of that name."""
    return _ending(name) in (*nifti.ENDINGS, *itk.WRITABLE)


def is_scan(path: Path) -> bool:
    """True for a file with a supported ending, and for a folder that holds DICOM images."""
    if path.name.startswith("."):
        return False
    if path.is_dir():
        return dicom.holds_dicom(path)
    return path.is_file() and ending_of(path.name) is not None


def read_scan(path: Path, *, series: str | None = None, spacing: Spacing | None = None) -> Volume:
    """One scan file or DICOM folder as a volume of finite numbers.

    `series` names one of several DICOM series in a folder; `spacing` (mm) is for an .h5 file,
    which has none.
    """
    stored = _read(path, series=series, spacing=spacing)
    with np.errstate(over="ignore"):
        data = np.ascontiguousarray(stored.grid.to_ras(stored.data), dtype=np.float32)
    if not np.isfinite(data).all():
        count = int((~np.isfinite(data)).sum())
        raise ScanError(
            f"{path}: {count} voxel(s) are not finite (NaN or infinite). Replace them with the "
            f"background's value and save it again."
        )
    return Volume(data[None], stored.grid)


def read_channels(
    paths: Sequence[Path], *, series: str | None = None, spacing: Spacing | None = None
) -> Volume:
    """Several files of one case, a channel each, as one volume."""
    first = read_scan(paths[0], series=series, spacing=spacing)
    if len(paths) == 1:
        return first
    channels = [first.data]
    for path in paths[1:]:
        volume = read_scan(path, series=series, spacing=spacing)
        if not volume.grid.same_as(first.grid):
            raise ScanError(
                f"{path}: lies on another grid than {paths[0].name} "
                f"({volume.grid.against(first.grid)}). Resample the channels of a case onto one "
                f"grid, or rename them if they are scans of their own."
            )
        channels.append(volume.data)
    return Volume(np.concatenate(channels), first.grid)


def read_grid(path: Path, *, series: str | None = None, spacing: Spacing | None = None) -> Grid:
    """The grid of a scan or label file; only headers are read."""
    kind = format_of(path)
    if kind is Format.DICOM:
        return dicom.read_grid(path, series=series)
    if kind is Format.H5:
        return h5.read_grid(path, spacing=spacing)
    return itk.read_grid(path) if kind is Format.ITK else nifti.read_grid(path)


def read_label_map(path: Path, *, spacing: Spacing | None = None) -> LabelMap:
    """A label file; its values must be whole numbers from 0 on, in whatever type."""
    kind = format_of(path)
    if kind is Format.DICOM:
        raise AnnotationError(f"{path}: is a DICOM folder. Save the labels as NIfTI or NRRD.")
    stored = h5.read_label(path, spacing=spacing) if kind is Format.H5 else _read(path)
    data = _whole_numbers(path, stored.data)
    return LabelMap(np.ascontiguousarray(stored.grid.to_ras(data)), stored.grid)


def write_labels(
    path: Path, labels: NDArray[Any], grid: Grid, *, names: Sequence[str] | None = None
) -> None:
    """Write RAS labels on exactly `grid`: as uint8, or as int16 where a value needs it.

    `names`, background first, go into the header of a NIfTI file; other formats have no room.
    """
    data = labels if labels.dtype == np.uint8 else _whole_numbers(path, labels)
    small = data.max(initial=0) <= np.iinfo(np.uint8).max
    note = label_table(names) if names is not None else None
    _write(path, grid.from_ras(data.astype(np.uint8, copy=False) if small else data), grid, note)


def write_slices(
    path: Path, slices: Iterable[tuple[Index, NDArray[Any]]], elsewhere: int, grid: Grid
) -> None:
    """Write a label map that is `elsewhere` but on a few RAS slices, each an index expression and
    its labels. The same voxels as `write_labels` would write, without a copy of the whole scan.
    """
    labels = np.full(grid.shape, elsewhere, np.uint8, order="F")
    seen_as_ras = grid.to_ras(labels)
    for where, mask in slices:
        seen_as_ras[where] = mask
    if _ending(path.name) != ".nii.gz":
        write_labels(path, seen_as_ras, grid)
        return
    with atomic.whole_file(path) as scratch:
        nifti.write_layered(scratch, labels, grid)


def write_image(path: Path, data: NDArray[Any], grid: Grid) -> None:
    """Write one RAS channel (I, J, K) on exactly `grid`; int16 stays, all else is float32."""
    kept = data if data.dtype == np.int16 else data.astype(np.float32, copy=False)
    _write(path, grid.from_ras(kept), grid)


def format_of(path: Path) -> Format:
    """The reader for `path`, or a ScanError that says why there is none."""
    if path.is_dir():
        return Format.DICOM
    _refuse_missing(path)
    ending = ending_of(path.name)
    if ending is not None:
        lower = ending.lower()
        if lower in nifti.ENDINGS:
            return Format.NIFTI
        return Format.ITK if lower in itk.ENDINGS else Format.H5
    if dicom.is_dicom(path):
        raise ScanError(f"{path}: is one image of a DICOM series. Name its folder instead.")
    raise ScanError(
        f"{path}: its ending is not one of {', '.join(ENDINGS)}. Save it in one of these formats."
    )


def _refuse_missing(path: Path) -> None:
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except FileNotFoundError:
        raise ScanError(f"{path}: there is no such file or folder. Check the path.") from None
    except OSError as error:
        raise ScanError(f"{path}: {error.strerror}. Make it readable.") from None
    if empty:
        raise ScanError(f"{path}: is empty (0 bytes). Copy or export it again.")


def _read(path: Path, *, series: str | None = None, spacing: Spacing | None = None) -> Stored:
    kind = format_of(path)
    if kind is Format.DICOM:
        return dicom.read(path, series=series)
    if kind is Format.H5:
        return h5.read(path, spacing=spacing)
    return itk.read(path) if kind is Format.ITK else nifti.read(path)


def _whole_numbers(path: Path, data: NDArray[Any]) -> NDArray[np.int16]:
    """Labels as int16; floats are taken if they are whole, as ITK-SNAP may save them."""
    if np.issubdtype(data.dtype, np.floating) and (data != np.rint(data)).any():
        strange = data[data != np.rint(data)].flat[0]
        raise AnnotationError(
            f"{path}: holds labels that are not whole numbers, such as {strange:g}. Save the "
            f"labels without interpolation, as integers."
        )
    low, high = data.min(initial=0), data.max(initial=0)
    if low < 0 or high > _LARGEST_LABEL:
        raise AnnotationError(
            f"{path}: label values run from {low:g} to {high:g}, expected 0 to {_LARGEST_LABEL}. "
            f"Renumber them from 0 on."
        )
    return data.astype(np.int16, copy=False)


def _ending(name: str) -> str:
    return (ending_of(name) or "").lower()


def _write(path: Path, data: NDArray[Any], grid: Grid, note: bytes | None = None) -> None:
    if data.shape != grid.shape:
        raise ValueError(f"{data.shape} voxels do not fit a grid of {grid.shape}")
    if not is_writable(path.name):
        raise OutputError(f"{path}: cannot be written in that format. Name it .nii.gz.")
    with atomic.whole_file(path) as scratch:
        if _ending(path.name) in nifti.ENDINGS:
            nifti.write(scratch, data, grid, note=note)
        else:
            itk.write(scratch, data, grid)
