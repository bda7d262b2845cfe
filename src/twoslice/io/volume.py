"""Volume: a scan in RAS, and the grid of the file that it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from twoslice.io.grid import Grid, Shape

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Volume:
    """An image: `data` is (C, I, J, K) in RAS; `grid` is the file's own, for the way back."""

    data: NDArray[np.float32]
    grid: Grid

    @property
    def shape(self) -> Shape:
        """Voxels along I, J, K."""
        i, j, k = self.data.shape[-3:]
        return i, j, k

    @property
    def channels(self) -> int:
        """How many channels each voxel has."""
        return int(self.data.shape[0])

    @property
    def spacing(self) -> tuple[float, float, float]:
        """Millimetres along I, J, K."""
        return self.grid.ras.spacing

    def to_file_order(self, array: NDArray[T]) -> NDArray[T]:
        """A RAS array brought back to the axis order of the file."""
        return self.grid.from_ras(array)


@dataclass(frozen=True, eq=False)
class LabelMap:
    """Whole-number labels: `data` is (I, J, K) in RAS; `grid` is the file's own."""

    data: NDArray[np.int16]
    grid: Grid

    @property
    def shape(self) -> Shape:
        """Voxels along I, J, K."""
        i, j, k = self.data.shape
        return i, j, k
