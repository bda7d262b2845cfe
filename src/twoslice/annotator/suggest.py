"""Which slices to draw, and why: never from labels that nobody drew.

The first scan: through the middle of the body. Later ones: at the place, relative to the body, of
which the slices drawn before show least, as far as these cross and so tell where the target ends.
Once `predict --uncertainty` has told how sure a model is: through
the place where it is least sure. A scan that is propagated already, and doubtful, gets one slice
more where its planes disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.cover import Slot
from twoslice.annotation.seen import Seen
from twoslice.annotation.types import SparseAnnotation
from twoslice.annotator.pictures import Picture
from twoslice.errors import InputError
from twoslice.io.grid import Grid
from twoslice.io.scans import read_scan
from twoslice.planes import Plane

_COARSE = 64
"""Voxels along each side, at most, of the coarse scan in which the body is sought."""
_BLUR = 0.04
"""Share of a plane's slices over which uncertainty is averaged: no single noisy slice wins."""

_RIM = 0.1
"""Of the largest area that a class is thought to have: slices with less may miss it."""

Extent = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
Curve = NDArray[np.float64]


@dataclass(frozen=True)
class Suggestion:
    """One slice and the reason for it, in a sentence."""

    plane: Plane
    index: int
    why: str

    @property
    def slot(self) -> Slot:
        """Where it lies."""
        return self.plane, self.index


@dataclass(frozen=True)
class Wanted:
    """How many slices a scan gets, in which planes, and where in the body they aim."""

    planes: tuple[Plane, ...] = (Plane.AXIAL, Plane.CORONAL)
    aims: tuple[float, ...] = (0.5, 0.5)


def body_extent(picture: Picture) -> Extent:
    """The first and last index along each axis of what is not the emptiness around the body."""
    codes = picture.channels[0].codes
    steps = [max(1, side // _COARSE) for side in codes.shape]
    coarse = codes[:: steps[0], :: steps[1], :: steps[2]].astype(np.float32)
    inside = coarse > _otsu(coarse)
    found: list[tuple[int, int]] = []
    for axis, (side, step) in enumerate(zip(codes.shape, steps, strict=True)):
        others = tuple(other for other in range(3) if other != axis)
        share = inside.mean(axis=others)
        # A table or a tube shows on few voxels of a slice; the body on many.
        rows = np.flatnonzero(share > 0.25 * share.max())
        low, high = (int(rows[0]), int(rows[-1])) if rows.size else (0, (side - 1) // step)
        found.append((low * step, min(side - 1, high * step + step - 1)))
    return found[0], found[1], found[2]


def relative(slot: Slot, extent: Extent) -> float:
    """Where a slice lies in the body: 0 at one end, 1 at the other."""
    low, high = extent[slot[0].axis]
    return (slot[1] - low) / max(1, high - low)


def from_body(extent: Extent, wanted: Wanted) -> list[Suggestion]:
    """Through the middle of the body."""
    return [
        Suggestion(plane, _at(extent, plane, aim), "Near the middle of the body.")
        for plane, aim in zip(wanted.planes, wanted.aims, strict=True)
    ]


def from_drawn(
    extent: Extent, wanted: Wanted, places: Sequence[tuple[Plane, float]]
) -> list[Suggestion]:
    """At the place where slices of the same plane were drawn in other scans."""
    found = []
    repeats: dict[Plane, int] = {}
    for plane, aim in zip(wanted.planes, wanted.aims, strict=True):
        # Of several slices in one plane, the first takes the lower places, the next those above.
        seen = sorted(place for known, place in places if known == plane)
        number, of = repeats.get(plane, 0), wanted.planes.count(plane)
        repeats[plane] = number + 1
        part = seen[number * len(seen) // of : (number + 1) * len(seen) // of]
        if not part:
            found += from_body(extent, Wanted((plane,), (aim,)))
            continue
        why = f"At the same place in the body as in {_scans(len(part))} drawn before."
        found.append(Suggestion(plane, _at(extent, plane, float(np.median(part))), why))
    return found


@dataclass(frozen=True)
class Example:
    """A scan that is drawn, and where its body lies."""

    annotation: SparseAnnotation
    extent: Extent


def from_examples(
    extent: Extent, wanted: Wanted, examples: Sequence[Example], classes: int
) -> list[Suggestion] | None:
    """Where a slice adds most to what those of other scans show; None where these do not tell how
    far the target reaches in every plane that is wanted.
    """
    seen, found = Seen(), []
    expected = {}
    for plane in wanted.planes:
        known = [(each, areas_across(each.annotation, plane, classes)) for each in examples]
        known = [(each, areas) for each, areas in known if areas.any()]
        if not known:
            return None
        for each, areas in known:
            for drawn in each.annotation.slices:
                if drawn.plane == plane:
                    seen.add(plane, areas, drawn.index)
        expected[plane] = expected_areas(extent, plane, known)
    why = f"Of this part the slices in {_scans(len(examples))} drawn before show least."
    for plane in wanted.planes:
        low, _ = extent[plane.axis]
        gains = seen.gains(plane, expected[plane])
        place = int(np.median(np.flatnonzero(gains == gains.max())))
        seen.add(plane, expected[plane], place)
        found.append(Suggestion(plane, low + place, why))
    return found


def areas_across(annotation: SparseAnnotation, plane: Plane, classes: int) -> NDArray[np.float64]:
    """By class and slice of a plane: how much of it the drawn slices of the other planes show; at
    least a pixel of what was drawn on the slice itself.
    """
    areas = np.zeros((classes, annotation.shape[plane.axis]))
    for drawn in annotation.slices:
        if drawn.plane == plane:
            continue
        kept = [axis for axis in range(3) if axis != drawn.plane.axis]
        across = 1 - kept.index(plane.axis)
        for value in range(1, classes):
            areas[value] += (drawn.mask == value).sum(axis=across)
    if areas.any():
        for drawn in annotation.slices:
            if drawn.plane == plane:
                shown = np.isin(np.arange(1, classes), drawn.mask)
                areas[1:, drawn.index] = np.maximum(areas[1:, drawn.index], shown)
    return areas


def expected_areas(
    extent: Extent, plane: Plane, known: Sequence[tuple[Example, NDArray[np.float64]]]
) -> NDArray[np.float64]:
    """What the slices of a body are thought to show: the mean of the others, laid onto it."""
    low, high = extent[plane.axis]
    places = np.linspace(0, 1, high - low + 1)
    laid = np.zeros((len(known[0][1]), len(places)))
    for example, areas in known:
        first, last = example.extent[plane.axis]
        theirs = (np.arange(areas.shape[1]) - first) / max(1, last - first)
        for value, row in enumerate(areas):
            laid[value] += np.interp(places, theirs, row / max(1.0, row.sum()))
    return np.where(laid >= _RIM * laid.max(axis=1, keepdims=True), laid, 0.0)


def from_doubt(
    curves: dict[Plane, Curve], wanted: Wanted, why: str, *, away_from: Iterable[Slot] = ()
) -> list[Suggestion]:
    """Through the places of most doubt; of one plane, not beside a slice that is taken."""
    taken = list(away_from)
    found = []
    for plane in wanted.planes:
        curve = curves[plane].copy()
        gap = max(2, len(curve) // 6)
        for other, index in taken:
            if other == plane:
                curve[max(0, index - gap) : index + gap + 1] = -1
        best = int(np.argmax(curve))
        taken.append((plane, best))
        found.append(Suggestion(plane, best, why))
    return found


def doubt_curves(path: Path, grid: Grid) -> dict[Plane, Curve] | None:
    """The mean doubt of every slice of a map in RAS; None where there is no map of that scan."""
    try:
        volume = read_scan(path)
    except InputError:
        return None
    if volume.grid.shape != grid.shape:
        return None
    return {plane: _smooth(_means(volume.data[0], plane)) for plane in Plane}


def first_of(*ways: Callable[[], list[Suggestion] | None]) -> list[Suggestion]:
    """What the first way that knows something suggests."""
    for way in ways:
        found = way()
        if found:
            return found
    return []


def _means(data: NDArray[np.float32], plane: Plane) -> Curve:
    axes = tuple(axis for axis in range(3) if axis != plane.axis)
    return np.asarray(data.mean(axis=axes, dtype=np.float64))


def _smooth(curve: Curve) -> Curve:
    width = max(1, round(_BLUR * len(curve)))
    padded = np.pad(curve, width, mode="edge")
    kernel = np.ones(2 * width + 1) / (2 * width + 1)
    return np.asarray(np.convolve(padded, kernel, mode="valid"), dtype=np.float64)


def _at(extent: Extent, plane: Plane, place: float) -> int:
    low, high = extent[plane.axis]
    return int(np.clip(round(low + place * (high - low)), low, high))


def _scans(count: int) -> str:
    return "the scan" if count == 1 else f"{count} scans"


def _otsu(values: NDArray[np.float32]) -> float:
    """The threshold that parts the histogram into its two tightest groups."""
    from skimage.filters import threshold_otsu

    if values.min() == values.max():
        return float(values.min()) - 1
    return float(threshold_otsu(values))
