"""SparseAnnotation: the few slices of a scan on which every voxel's label is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoslice.errors import AnnotationError
from twoslice.io.grid import Shape
from twoslice.planes import Plane


@dataclass(frozen=True, eq=False)
class AnnotatedSlice:
    """One drawn slice: its plane, its index in the RAS volume, and the label of every pixel."""

    plane: Plane
    index: int
    mask: NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class SparseAnnotation:
    """Any number of drawn slices of one scan of `shape` (I, J, K, RAS)."""

    shape: Shape
    slices: tuple[AnnotatedSlice, ...]

    def __post_init__(self) -> None:
        for drawn in self.slices:
            side = self.shape[drawn.plane.axis]
            if not 0 <= drawn.index < side:
                raise AnnotationError(
                    f"{drawn.plane} slice {drawn.index} lies outside the scan, whose {drawn.plane} "
                    f"slices run from 0 to {side - 1}. Draw a slice inside it."
                )
            expected = tuple(np.delete(self.shape, drawn.plane.axis))
            if drawn.mask.shape != expected:
                raise AnnotationError(
                    f"{drawn.plane} slice {drawn.index} has {drawn.mask.shape} pixels, expected "
                    f"{expected}. Draw it on the scan's own grid."
                )

    @property
    def planes(self) -> tuple[Plane, ...]:
        """The planes that were drawn in, each once, in the order they were drawn."""
        return tuple(dict.fromkeys(drawn.plane for drawn in self.slices))

    def in_plane(self, plane: Plane) -> tuple[AnnotatedSlice, ...]:
        """The drawn slices of one plane, by index."""
        chosen = [drawn for drawn in self.slices if drawn.plane == plane]
        return tuple(sorted(chosen, key=lambda drawn: drawn.index))

    def drawn(self) -> NDArray[np.bool_]:
        """True on every voxel that lies on a drawn slice."""
        known = np.zeros(self.shape, dtype=bool)
        for drawn in self.slices:
            known[drawn.plane.slice(drawn.index)] = True
        return known

    def label_map(self, *, elsewhere: int) -> NDArray[np.uint8]:
        """The drawn labels on the whole grid, with `elsewhere` where nothing was drawn."""
        labels = np.full(self.shape, elsewhere, dtype=np.uint8)
        for drawn in self.slices:
            labels[drawn.plane.slice(drawn.index)] = drawn.mask
        return labels

    def without(self, plane: Plane) -> SparseAnnotation:
        """The annotation with one plane left out."""
        return SparseAnnotation(
            self.shape, tuple(drawn for drawn in self.slices if drawn.plane != plane)
        )
