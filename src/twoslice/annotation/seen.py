"""What drawn slices show of each class, from one end of it to the other: the measure by which
slices of several scans are spread.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.cover import Slot
from twoslice.planes import Plane

_BINS = 40
_REACH = 0.25
"""How far a slice speaks for its neighbours, as a share of a class's extent: the shape of an organ
changes that slowly, and five slices reach from end to end."""

Areas = NDArray[np.integer] | NDArray[np.float64]
_Floats = NDArray[np.float64]


class Seen:
    """For each plane and class, how well each part of its extent (from 0 to 1) is shown by any
    slice so far: 1 where one lies, falling in a line to 0 where none is near.
    """

    def __init__(self, others: Iterable[Seen] = ()) -> None:
        self._shown: dict[tuple[Plane, int], _Floats] = {}
        for other in others:
            for key, shown in other._shown.items():
                self._shown[key] = np.maximum(shown, self._of(*key))

    @classmethod
    def of(cls, labels: NDArray[np.integer], slots: Iterable[Slot], classes: int) -> Seen:
        """What these slices of a dense RAS label show."""
        seen = cls()
        for plane, index in slots:
            seen.add(plane, areas_of(labels, plane, classes), index)
        return seen

    def gains(self, plane: Plane, areas: Areas) -> _Floats:
        """What each slice of a scan would add: the share of each class, by area, that it shows and
        nothing did so far, summed over the classes. `areas` are pixels by class and slice.
        """
        gains = np.zeros(areas.shape[1])
        for value, (near, weights) in _classes(areas).items():
            more = np.maximum(near - self._of(plane, value), 0.0) @ weights
            gains += np.where(areas[value] > 0, more, 0.0)
        return gains.round(6)  # so that equal gains are equal

    def add(self, plane: Plane, areas: Areas, index: int) -> None:
        """Take a chosen slice in."""
        for value, (near, _) in _classes(areas).items():
            if areas[value, index]:
                shown = self._of(plane, value)
                self._shown[plane, value] = np.maximum(shown, near[index])

    def _of(self, plane: Plane, value: int) -> _Floats:
        return self._shown.get((plane, value), np.zeros(_BINS))


def areas_of(labels: NDArray[np.integer], plane: Plane, classes: int) -> NDArray[np.intp]:
    """Pixels by class and slice; background's row is 0."""
    stacked = plane.stack_first(labels)
    areas = np.zeros((classes, len(stacked)), dtype=np.intp)
    for value in range(1, classes):
        areas[value] = (stacked == value).sum(axis=(1, 2))
    return areas


def _classes(areas: Areas) -> dict[int, tuple[_Floats, _Floats]]:
    """For each class that shows: how near each slice is to each part of its extent, and how much
    of its area lies in each part.
    """
    found = {}
    for value in range(1, len(areas)):
        extent = np.flatnonzero(areas[value])
        if not extent.size:
            continue
        first, last = int(extent[0]), int(extent[-1])
        places = (np.arange(areas.shape[1]) - first + 0.5) / (last - first + 1)
        bins = (np.arange(_BINS) + 0.5) / _BINS
        near = np.maximum(0.0, 1.0 - np.abs(places[:, None] - bins) / _REACH)
        inside = np.interp(bins, places[first : last + 1], areas[value, first : last + 1])
        found[value] = (near, inside / inside.sum())
    return found
