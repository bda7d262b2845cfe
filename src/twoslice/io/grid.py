"""Grid: where the voxels of a file lie, and the way from its axis order to RAS and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

import nibabel as nib
import numpy as np
from nibabel.orientations import (
    apply_orientation,
    inv_ornt_aff,
    io_orientation,
    ornt_transform,
)
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)
Shape = tuple[int, int, int]
_RAS = np.array([[0, 1], [1, 1], [2, 1]])


class NiftiForms(NamedTuple):
    """A NIfTI header's own words about its geometry, kept so that they can be written back.

    A NIfTI file states its geometry up to three times (sform, qform, pixdim) and programs differ
    in which one they follow. A label that repeats all three lies on its image in each of them.
    """

    fields: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, eq=False)
class Grid:
    """The shape and the affine (voxel index to RAS+ millimetres) of a file, as it was stored."""

    shape: Shape
    affine: NDArray[np.float64]
    forms: NiftiForms | None = field(default=None, repr=False)

    @cached_property
    def spacing(self) -> tuple[float, float, float]:
        """Millimetres between neighbours along each array axis."""
        lengths = np.linalg.norm(self.affine[:3, :3], axis=0)
        return float(lengths[0]), float(lengths[1]), float(lengths[2])

    @cached_property
    def orientation(self) -> str:
        """The three axis letters, e.g. LPS."""
        return "".join(nib.aff2axcodes(self.affine))

    @cached_property
    def ras(self) -> Grid:
        """The same voxels with the axes permuted and flipped to the nearest RAS order."""
        shape = tuple(self.shape[int(axis)] for axis in np.argsort(self._to_ras[:, 0]))
        affine = self.affine @ inv_ornt_aff(self._to_ras, self.shape)
        return Grid((shape[0], shape[1], shape[2]), affine)

    def to_ras(self, array: NDArray[T]) -> NDArray[T]:
        """An array on this grid, brought to RAS (a view; leading axes are kept)."""
        return _reorient(array, self._to_ras)

    def from_ras(self, array: NDArray[T]) -> NDArray[T]:
        """A RAS array brought back to this grid's own axis order (a view)."""
        return _reorient(array, ornt_transform(_RAS, self._to_ras))

    def same_as(self, other: Grid, *, tolerance_mm: float | None = None) -> bool:
        """Equal shapes, and no corner of the grid further than `tolerance_mm` apart.

        By default a quarter of the smallest voxel side: programs round an oblique qform to 3e-4
        radians, a tenth of a voxel at the edge of a scan, and no two conventions about where a
        voxel lies differ by less than half of one.
        """
        if tolerance_mm is None:
            tolerance_mm = min(*self.spacing, *other.spacing) / 4
        return self.shape == other.shape and self._apart(other) <= tolerance_mm

    def against(self, other: Grid) -> str:
        """How two grids differ, in words, for an error."""
        text = f"{self.describe()}; expected {other.describe()}"
        if self.shape == other.shape:
            text += f": corners up to {self._apart(other):.3g} mm apart"
        return text

    def describe(self) -> str:
        """Shape, orientation, spacing and origin in words."""
        sides = "×".join(map(str, self.shape))
        spacing = "×".join(f"{side:.4g}" for side in self.spacing)
        origin = ", ".join(f"{place:.4g}" for place in self.affine[:3, 3])
        return f"{sides} voxels, {self.orientation}, {spacing} mm, origin {origin}"

    def _apart(self, other: Grid) -> float:
        """The distance in mm between the corners of two grids of one shape, at most."""
        corners = np.array(np.meshgrid(*[[0, side - 1] for side in self.shape])).reshape(3, -1)
        homogeneous = np.vstack([corners, np.ones(corners.shape[1])])
        gap = (self.affine - other.affine) @ homogeneous
        return float(np.linalg.norm(gap[:3], axis=0).max())

    @cached_property
    def _to_ras(self) -> NDArray[np.float64]:
        orientation: NDArray[np.float64] = io_orientation(self.affine)
        return orientation


def _reorient(array: NDArray[T], orientation: NDArray[np.float64]) -> NDArray[T]:
    """`apply_orientation` on the last three axes; leading axes (channels) stay in front."""
    lead = array.ndim - 3
    moved = np.moveaxis(array, range(lead), range(3, array.ndim)) if lead else array
    turned = apply_orientation(moved, orientation)
    return np.moveaxis(turned, range(3, array.ndim), range(lead)) if lead else turned
