"""How a slice looks on the screen, and masks as runs of equal labels.

In all three planes the screen shows the slice with its first axis running to the left and its
second one running up: axial and coronal slices with the patient's right at the viewer's left,
anterior or superior on top, and sagittal slices with anterior at the left. So one flip serves
every plane, and is its own inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from twoslice.errors import AnnotationError
from twoslice.planes import Plane

T = TypeVar("T", bound=np.generic)
Mask = NDArray[np.uint8]

UNDRAWN = 255
"""The value that a pixel nobody drew has on its way to the page and back; no label reaches it."""

_ENDS = (("L", "R"), ("P", "A"), ("I", "S"))


def to_screen(pixels: NDArray[T]) -> NDArray[T]:
    """A slice as rows from the top of the screen (a view)."""
    return pixels.T[::-1, ::-1]


def from_screen(rows: NDArray[T]) -> NDArray[T]:
    """The inverse of `to_screen` (a view)."""
    return rows[::-1, ::-1].T


def letters(plane: Plane) -> dict[str, str]:
    """The patient's directions at the four sides of the screen."""
    across, along = (axis for axis in range(3) if axis != plane.axis)
    return {
        "left": _ENDS[across][1],
        "right": _ENDS[across][0],
        "top": _ENDS[along][1],
        "bottom": _ENDS[along][0],
    }


def encode(mask: Mask) -> list[int]:
    """A mask as `length, value, length, value, …` over the screen's rows."""
    flat = np.ascontiguousarray(to_screen(mask)).reshape(-1)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(flat)) + 1])
    lengths = np.diff(np.concatenate([starts, [flat.size]]))
    return np.stack([lengths, flat[starts]], axis=1).reshape(-1).tolist()


def paint(mask: Mask, runs: Sequence[int], *, classes: int) -> Mask:
    """A copy of `mask` with `start, length, value, …` painted over the screen's rows."""
    if len(runs) % 3:
        raise AnnotationError(f"{len(runs)} numbers of runs, expected start, length and value.")
    try:
        found = np.asarray(runs, dtype=np.int64).reshape(-1, 3)
    except OverflowError:
        raise AnnotationError("a run holds a number that is too large.") from None
    flat = np.ascontiguousarray(to_screen(mask)).reshape(-1).copy()
    starts, lengths, values = found.T
    inside = (starts >= 0) & (lengths > 0) & (starts <= flat.size) & (lengths <= flat.size)
    if not (inside & (starts + lengths <= flat.size)).all():
        raise AnnotationError(f"a run lies outside the slice of {flat.size} pixels.")
    if not ((values >= 0) & (values < classes)).all():
        raise AnnotationError(f"a run paints a label that is not among 0 to {classes - 1}.")
    for start, length, value in found:
        flat[start : start + length] = value
    rows = flat.reshape(to_screen(mask).shape)
    return np.ascontiguousarray(from_screen(rows))
