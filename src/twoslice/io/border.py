"""What every reader does at the border: other libraries' refusals become one line that names the
file and a remedy, their warnings stay inside, and only a usable 3-D grid comes through.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from nibabel.imageglobals import LoggingOutputSuppressor
from numpy.typing import NDArray

from twoslice.errors import ScanError, TwosliceError
from twoslice.io.grid import Grid, Shape
from twoslice.progress import VOICE


class Stored(NamedTuple):
    """Voxels in the file's own axis order, and the grid that they lie on."""

    data: NDArray[Any]
    grid: Grid


@contextmanager
def foreign(path: Path, kind: str) -> Iterator[None]:
    """Run another library's reader on `path`: whatever it raises becomes a ScanError.

    Only calls into that library belong inside, so that a bug of ours keeps its traceback.
    """
    try:
        with warnings.catch_warnings(), LoggingOutputSuppressor(), _hushed("pydicom"):
            warnings.simplefilter("ignore")
            yield
    except TwosliceError:
        raise
    except PermissionError:
        raise ScanError(f"{path}: reading it is not allowed. Make it readable.") from None
    except EOFError:
        raise ScanError(f"{path}: is cut short. Copy or export it again.") from None
    except Exception as error:
        raise ScanError(
            f"{path}: not readable as {kind} ({_detail(error)}). It may be damaged or cut short: "
            f"copy or export it again."
        ) from error


@contextmanager
def silent_stderr() -> Iterator[None]:
    """Send the process's standard error nowhere: ITK's C++ readers print there, then raise."""
    with VOICE:
        try:
            kept = os.dup(2)
        except OSError:  # no standard error at all: nothing to silence
            yield
            return
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def volume_shape(path: Path, shape: Sequence[int]) -> Shape:
    """The three sides of a stored array; axes of length 1 past the third may be dropped."""
    sides = tuple(int(side) for side in shape)
    if len(sides) > 3 and all(side == 1 for side in sides[3:]):
        sides = sides[:3]
    if len(sides) > 3:
        raise ScanError(
            f"{path}: is {len(sides)}-D {_times(sides)}, expected 3-D. Save each time point or "
            f"channel as a 3-D file of its own (CASE_0000, CASE_0001, …)."
        )
    if len(sides) < 3 or 1 in sides:
        raise ScanError(
            f"{path}: is a single slice {_times(sides)}, expected a 3-D volume. Give the whole "
            f"scan, not one image of it."
        )
    if 0 in sides:
        raise ScanError(f"{path}: holds no voxels {_times(sides)}. Export it again.")
    return sides[0], sides[1], sides[2]


def usable_affine(path: Path, affine: NDArray[Any]) -> NDArray[np.float64]:
    """The affine, once it is known to be finite and to span three dimensions."""
    matrix = np.asarray(affine, dtype=np.float64)
    if not np.isfinite(matrix).all():
        raise ScanError(
            f"{path}: its affine holds values that are not finite. Export it again with its "
            f"orientation, or mend the header."
        )
    spacing = np.linalg.norm(matrix[:3, :3], axis=0)
    if (spacing == 0).any():
        raise zero_spacing(path, spacing)
    # A determinant of unit axes: the volume they span, 1 for a box and 0 if one lies in a plane.
    if abs(np.linalg.det(matrix[:3, :3] / spacing)) < 1e-3:
        raise ScanError(
            f"{path}: its affine is singular: two axes point the same way. Export it again with "
            f"its orientation, or mend the header."
        )
    return matrix


def zero_spacing(path: Path, spacing: Sequence[float] | NDArray[Any]) -> ScanError:
    """The error for a voxel without size."""
    shown = " × ".join(f"{float(side):g}" for side in spacing)
    return ScanError(
        f"{path}: voxel spacing is {shown} mm, expected three sizes above 0. Export it again with "
        f"its spacing, or mend the header."
    )


def plain_numbers(path: Path, data: NDArray[Any]) -> NDArray[Any]:
    """The voxels, once each is one real number."""
    if data.dtype.fields is not None:
        raise ScanError(f"{path}: holds colours, expected one number a voxel. Save it as grey.")
    if not (np.issubdtype(data.dtype, np.integer) or np.issubdtype(data.dtype, np.floating)):
        if data.dtype == np.bool_:
            return data.astype(np.uint8)
        raise ScanError(
            f"{path}: holds {data.dtype} values, expected real numbers. Save it as integers or "
            f"floats."
        )
    return data


@contextmanager
def _hushed(name: str) -> Iterator[None]:
    """Keep a library's log records to itself."""
    logger = logging.getLogger(name)
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def _detail(error: Exception) -> str:
    """The last telling line of a library's message, without its own file and line numbers."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[-1] if lines else type(error).__name__
    return text.rstrip(".")[:200]


def _times(sides: Sequence[int]) -> str:
    return f"({' × '.join(map(str, sides))})"
