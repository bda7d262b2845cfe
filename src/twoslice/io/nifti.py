"""NIfTI files (.nii, .nii.gz): the geometry is what nibabel's `affine` says, and goes back as it
came. Writes are deterministic: the same voxels give the same bytes.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from itertools import chain
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from numpy.typing import NDArray

from twoslice.errors import ScanError
from twoslice.io.border import (
    Stored,
    foreign,
    plain_numbers,
    usable_affine,
    volume_shape,
    zero_spacing,
)
from twoslice.io.grid import Grid, NiftiForms

ENDINGS = (".nii.gz", ".nii")
_KIND = "NIfTI"
_LONGEST_HEADER = 540
_GEOMETRY = (
    *("pixdim", "xyzt_units", "qform_code", "sform_code"),
    *("quatern_b", "quatern_c", "quatern_d", "qoffset_x", "qoffset_y", "qoffset_z"),
    *("srow_x", "srow_y", "srow_z"),
)
# Measured: level 6 takes three to six times as long as level 1, and saves 4 % of an abdominal CT,
# nothing of an int16 MRI and a fifth of a float MRI.
_COMPRESSION = 1
_QFORM_MM = 1e-3
_CARET = 30


def read(path: Path) -> Stored:
    """The voxels as nibabel scales them (integers stay integers), and the grid.

    The whole stream is read, so a gzip's check sum is verified: a flipped bit is refused.
    """
    raw = _bytes(path)
    header = _header(path, raw)
    grid = _grid(path, header)
    with foreign(path, _KIND):
        image = _image_class(header).from_bytes(raw)
        data = np.asanyarray(image.dataobj)
    return Stored(plain_numbers(path, data).reshape(grid.shape), grid)


def read_grid(path: Path) -> Grid:
    """The grid alone; of the file only the header is read."""
    return _grid(path, _header(path, _bytes(path, _LONGEST_HEADER)))


def is_three_dimensional(path: Path) -> bool:
    """True if the file itself says 3-D, not 4-D with one time point."""
    return len(_header(path, _bytes(path, _LONGEST_HEADER)).get_data_shape()) == 3


def write(path: Path, data: NDArray[Any], grid: Grid, *, note: bytes | None = None) -> None:
    """Write voxels in file order on exactly `grid` to `path`, which ends in .nii or .nii.gz.

    `note` is XML that goes into the header as an extension of Caret's (code 30), the one place
    where the format's registry has room for the names of labels.
    """
    header = _new_header(data, grid)
    if note is not None:
        header.extensions.append(nib.nifti1.Nifti1Extension(_CARET, note))
    image = nib.Nifti1Image(data, None, header)
    with path.open("wb") as file:
        if path.name.endswith(".gz"):
            # Neither a name nor a time in the gzip header, so that two runs give equal bytes.
            with gzip.GzipFile("", "wb", _COMPRESSION, file, mtime=0) as stream:
                image.to_stream(stream)
        else:
            image.to_stream(file)


def write_layered(path: Path, data: NDArray[Any], grid: Grid) -> None:
    """`write` to a .nii.gz file for voxels of which most layers are alike, many times faster.

    Layers along the last axis are compressed once for each content; deflate lets pieces that end
    in a full flush be put together, so the file is one plain gzip stream all the same.
    """
    header = _new_header(data, grid)
    header.set_data_offset(header.single_vox_offset)
    begin = header.binaryblock.ljust(header.single_vox_offset, b"\0")
    packed: dict[bytes, bytes] = {}
    check, size = 0, 0
    with path.open("wb") as file:
        file.write(b"\x1f\x8b\x08" + bytes(6) + b"\xff")  # gzip, no name, no time
        layers = (data[..., index].tobytes(order="F") for index in range(data.shape[-1]))
        for piece in chain([begin], layers):
            check, size = zlib.crc32(piece, check), size + len(piece)
            if piece not in packed:
                packed[piece] = _flushed(piece)
            file.write(packed[piece])
        file.write(zlib.compressobj(wbits=-zlib.MAX_WBITS).flush())
        file.write(struct.pack("<II", check, size & 0xFFFFFFFF))


def _flushed(piece: bytes) -> bytes:
    deflate = zlib.compressobj(_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflate.compress(piece) + deflate.flush(zlib.Z_FULL_FLUSH)


def _new_header(data: NDArray[Any], grid: Grid) -> Any:
    header = nib.Nifti1Header()
    header.set_data_shape(data.shape)
    header.set_data_dtype(data.dtype)
    if grid.forms is None:
        _state(header, grid)
    else:
        _repeat(header, grid.forms)
    return header


def _bytes(path: Path, size: int = -1) -> bytes:
    with foreign(path, _KIND):
        if path.name.lower().endswith(".gz"):
            with gzip.open(path) as stream:
                return stream.read(size)
        with path.open("rb") as file:
            return file.read(size)


def _header(path: Path, raw: bytes) -> Any:
    """The header as it stands, before nibabel mends what it finds wrong (a spacing of 0 to 1)."""
    length = {int.from_bytes(raw[:4], "little"), int.from_bytes(raw[:4], "big")}
    if 348 in length:
        kind = nib.Nifti1Header
    elif 540 in length:
        kind = nib.Nifti2Header
    else:
        raise ScanError(f"{path}: is not a NIfTI file. Export it again as NIfTI.")
    size = kind.template_dtype.itemsize
    if len(raw) < size:
        raise ScanError(f"{path}: is cut short. Copy or export it again.")
    with foreign(path, _KIND):
        header = kind(raw[:size], check=False)
        magic = bytes(header["magic"])[:3]
    if magic not in (b"n+1", b"n+2"):
        raise ScanError(
            f"{path}: has no NIfTI mark in its header (an Analyze file, or half of an .hdr/.img "
            f"pair). Save it as a single .nii.gz file."
        )
    return header


def _image_class(header: Any) -> Any:
    return nib.Nifti2Image if isinstance(header, nib.Nifti2Header) else nib.Nifti1Image


def _grid(path: Path, header: Any) -> Grid:
    with foreign(path, _KIND):
        stored = header.get_data_shape()
        spacing = np.asarray(header["pixdim"][1:4], dtype=np.float64)
        forms = NiftiForms(tuple((name, header[name].tobytes()) for name in _GEOMETRY))
    shape = volume_shape(path, stored)
    if (spacing == 0).any() or not np.isfinite(spacing).all():
        raise zero_spacing(path, spacing)
    with foreign(path, _KIND):
        mended = type(header)(header.binaryblock, check=True)
        affine = mended.get_best_affine()
    native = header.endianness == nib.Nifti1Header().endianness
    simple = native and not isinstance(header, nib.Nifti2Header)
    return Grid(shape, usable_affine(path, affine), forms if simple else None)


def _repeat(header: Any, forms: NiftiForms) -> None:
    """Copy the source's own geometry fields, byte for byte."""
    for name, content in forms.fields:
        kept = np.frombuffer(content, dtype=header[name].dtype)
        header[name] = kept.reshape(header[name].shape)


def _state(header: Any, grid: Grid) -> None:
    """State the grid in sform and qform both, so that ITK's programs and nibabel's agree.

    A qform cannot hold shear, nor a turn by nearly 180 degrees to more than 3e-4: where its
    corners would stray, only the sform is stated, so that nothing reads a wrong one.
    """
    header.set_sform(grid.affine, code="scanner")
    header.set_qform(grid.affine, code="scanner", strip_shears=True)
    if not Grid(grid.shape, header.get_qform()).same_as(grid, tolerance_mm=_QFORM_MM):
        header.set_qform(None)
        header["pixdim"][1:4] = grid.spacing
    header.set_xyzt_units("mm")
