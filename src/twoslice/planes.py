"""Plane: axial, coronal, sagittal, and the axis of a RAS volume that each one cuts across."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from twoslice.errors import SettingsError

T = TypeVar("T", bound=np.generic)


class Plane(StrEnum):
    """A viewing plane. Volumes inside twoslice are RAS: axis 0 runs left to right, axis 1 from
    posterior to anterior, axis 2 from inferior to superior.
    """

    SAGITTAL = "sagittal"
    CORONAL = "coronal"
    AXIAL = "axial"

    @property
    def axis(self) -> int:
        """The array axis along which this plane's slices are stacked."""
        return _AXES[self]

    @classmethod
    def of_axis(cls, axis: int) -> Plane:
        """The plane whose slices are stacked along `axis`."""
        return (cls.SAGITTAL, cls.CORONAL, cls.AXIAL)[axis]

    @classmethod
    def parse(cls, name: str) -> Plane:
        """The plane called `name`, or a SettingsError that lists the three."""
        try:
            return cls(name.strip().lower())
        except ValueError:
            known = ", ".join(plane.value for plane in cls)
            raise SettingsError(f"'{name}' is not a plane. Use one of: {known}.") from None

    def slice(self, index: int) -> tuple[slice | int, slice | int, slice | int]:
        """The index expression that takes this plane's slice `index` out of an (I, J, K) array."""
        where: list[slice | int] = [slice(None)] * 3
        where[self.axis] = index
        return where[0], where[1], where[2]

    def take(self, array: NDArray[T], index: int) -> NDArray[T]:
        """This plane's slice `index` of an array whose last three axes are I, J, K (a view)."""
        return array[(..., *self.slice(index))]

    def facing(self, array: NDArray[T], index: int) -> NDArray[T]:
        """A slice of an (I, J, K) array as it is looked at: front or head up, the patient's right
        on the left.
        """
        return self.take(array, index).T[::-1, ::-1]

    def stack_first(self, array: NDArray[T]) -> NDArray[T]:
        """An (I, J, K) array seen as (slices, rows, columns) of this plane (a view)."""
        return np.moveaxis(array, self.axis, 0)

    def unstack(self, slices: NDArray[T]) -> NDArray[T]:
        """The inverse of `stack_first` (a view)."""
        return np.moveaxis(slices, 0, self.axis)


_AXES = {Plane.SAGITTAL: 0, Plane.CORONAL: 1, Plane.AXIAL: 2}
