"""How the slices of a DICOM series stack: their order and affine, or why they make no box."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoslice.errors import ScanError

_LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
# Positions are stored as short decimal texts: 0.01 mm is their usual last digit.
_SAME_PLACE_MM = 0.01
_SIDEWAYS_MM = 0.1
_UNEVEN = 0.05


def stack_affine(
    folder: Path,
    names: Sequence[str],
    places: NDArray[np.float64],
    orientation: NDArray[np.float64],
    spacing: NDArray[np.float64],
) -> tuple[list[int], NDArray[np.float64]]:
    """The order of the slices along their normal, and the RAS+ affine of (column, row, slice).

    `places` is (slices, 3): ImagePositionPatient; `orientation` and `spacing` as DICOM has them.
    """
    along_row, along_column = orientation[:3], orientation[3:]
    normal: NDArray[np.float64] = np.cross(along_row, along_column).astype(np.float64)
    depth = places @ normal
    order = [int(index) for index in np.argsort(depth, kind="stable")]
    ordered = [names[index] for index in order]
    _refuse_uneven(folder, ordered, np.diff(depth[order]))
    _refuse_tilt(folder, places[order], normal)
    affine = np.eye(4)
    affine[:3, 0] = along_row * spacing[1]
    affine[:3, 1] = along_column * spacing[0]
    affine[:3, 2] = (places[order[-1]] - places[order[0]]) / (len(order) - 1)
    affine[:3, 3] = places[order[0]]
    return order, _LPS_TO_RAS @ affine


def _refuse_uneven(folder: Path, names: Sequence[str], gaps: NDArray[np.float64]) -> None:
    """Refuse two slices at one place, a hole, or gaps that differ."""
    closest = int(np.argmin(gaps))
    if gaps[closest] < _SAME_PLACE_MM:
        raise ScanError(
            f"{folder}: {names[closest]} and {names[closest + 1]} lie at the same place: a copy, "
            f"or several time points or echoes in one series. Keep one of each."
        )
    usual = float(np.median(gaps))
    widest = int(np.argmax(np.abs(gaps - usual)))
    gap = float(gaps[widest])
    if abs(gap - usual) <= max(_UNEVEN * usual, _SAME_PLACE_MM):
        return
    between = f"between {names[widest]} and {names[widest + 1]}"
    times = gap / usual
    if times > 1.5 and abs(times - round(times)) < 0.1:
        raise ScanError(
            f"{folder}: {round(times) - 1} slice(s) missing {between}: the gap is {gap:.3g} mm, "
            f"elsewhere {usual:.3g} mm. Export the whole series again."
        )
    raise ScanError(
        f"{folder}: slices are not evenly spaced: {gap:.3g} mm {between}, elsewhere {usual:.3g} "
        f"mm. Export the series on an even spacing, or resample it with the scanner's own software."
    )


def _refuse_tilt(folder: Path, places: NDArray[np.float64], normal: NDArray[np.float64]) -> None:
    """Refuse slices that shift sideways from one to the next, as a tilted gantry makes them."""
    offset = places - places[0]
    depth = offset @ normal
    sideways = np.linalg.norm(offset - depth[:, None] * normal, axis=1)
    if sideways.max() <= _SIDEWAYS_MM:
        return
    angle = np.degrees(np.arctan2(sideways[-1], depth[-1]))
    raise ScanError(
        f"{folder}: gantry tilt of {angle:.1f} degrees: each slice is shifted sideways, by up to "
        f"{sideways.max():.3g} mm, so the voxels make no box. Straighten the series first "
        f"(dcm2niix and 3D Slicer do)."
    )
