"""From label files to SparseAnnotation: which slices were drawn?

Two kinds of file come in. A map with the dataset's `ignore` label says it outright: a drawn slice
is one without a single ignored voxel. A map painted in ITK-SNAP, 3D Slicer or napari does not,
since there an unpainted voxel and one that was seen to be background are both 0: the drawn slices
are then the fewest that hold every painted voxel, and must be the only such set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.cover import Slot, smallest_covers
from twoslice.annotation.crossing import merge_annotations
from twoslice.annotation.types import AnnotatedSlice, SparseAnnotation
from twoslice.errors import AnnotationError
from twoslice.io.dataset import Dataset
from twoslice.io.grid import Shape
from twoslice.planes import Plane

MOST_SLICES = 6
"""A plainly painted map with more slices than this reads as a dense label."""

Labels = NDArray[np.integer]


class DenseLabelError(AnnotationError):
    """A label without ignored voxels that is painted all over: dense, not a few slices."""


def read_annotation(dataset: Dataset, case: str) -> SparseAnnotation:
    """The slices drawn in one labelled case; none where the whole file is `ignore` or unpainted.

    Slices that lie in files of their own (`CASE_axial.nii.gz`) are added, and must agree with
    those that they cross.
    """
    found = dataset.case(case)
    annotations = []
    if found.label is not None or not found.parts:
        labels = dataset.read_labels(case).data
        annotations.append(_of_file(found.label, labels, dataset.ignore, tuple(Plane)))
    for plane, path in found.parts.items():
        labels = dataset.read_label_file(case, path).data
        annotations.append(_of_file(path, labels, dataset.ignore, (plane,)))
    try:
        return reduce(merge_annotations, annotations)
    except AnnotationError as error:
        files = ", ".join(path.name for path in found.parts.values())
        raise type(error)(f"{files}: {error}") from None


def _of_file(
    path: Path | None, labels: Labels, ignore: int | None, planes: Sequence[Plane]
) -> SparseAnnotation:
    try:
        return annotation_from_labels(labels, ignore=ignore, planes=planes)
    except AnnotationError as error:
        raise type(error)(f"{path}: {error}") from None


def annotation_from_labels(
    labels: Labels, *, ignore: int | None, planes: Sequence[Plane] = tuple(Plane)
) -> SparseAnnotation:
    """The drawn slices of a RAS label map, in the planes that may have been drawn in.

    With ignored voxels in it the map is read by them; without any it is taken as plainly painted.
    """
    undrawn = np.zeros(labels.shape, bool) if ignore is None else labels == ignore
    painted = (labels != 0) & ~undrawn
    if undrawn.all() or not (undrawn.any() or painted.any()):
        return SparseAnnotation(_shape(labels), ())
    if not undrawn.any():
        return annotation_at(labels, _painted(painted, planes))
    _refuse_few_ignored(labels, undrawn)
    return annotation_at(labels, _fully_drawn(~undrawn))


def annotation_at(labels: Labels, slots: Iterable[Slot]) -> SparseAnnotation:
    """The annotation that holds the slices `slots` of a RAS label map, axial ones first."""
    ordered = sorted(set(slots), key=lambda slot: (-slot[0].axis, slot[1]))
    slices = [
        AnnotatedSlice(plane, index, plane.take(labels, index).astype(np.uint8))
        for plane, index in ordered
    ]
    return SparseAnnotation(_shape(labels), tuple(slices))


def describe(slots: Iterable[Slot]) -> str:
    """Slices in words, such as `axial 31, 58 and coronal 40`."""
    by_plane: dict[Plane, list[str]] = {}
    for plane, index in sorted(slots, key=lambda slot: (-slot[0].axis, slot[1])):
        by_plane.setdefault(plane, []).append(str(index))
    return " and ".join(f"{plane} {', '.join(found)}" for plane, found in by_plane.items())


def _refuse_few_ignored(labels: Labels, undrawn: NDArray[np.bool_]) -> None:
    """A few drawn slices leave most of a scan ignored; where most is 0, more was meant."""
    few = 2 * int(undrawn.sum()) < labels.size
    full = [plane.stack_first(~undrawn).all(axis=(1, 2)).sum() for plane in Plane]
    if not few or sum(full) <= MOST_SLICES:
        return
    seen = f"only {int(undrawn.sum())} of {labels.size} voxels carry 'ignore', most are 0"
    if smallest_covers(labels != 0, at_most=MOST_SLICES):
        raise AnnotationError(
            f"{seen}. If that value was painted as a class, name all classes in dataset.json (or "
            f"with --names at import), so that 'ignore' comes after them."
        )
    raise DenseLabelError(
        f"looks like a dense label: {seen}. Take slices from it with 'twoslice simulate', or set "
        f"every voxel off the drawn slices to 'ignore'."
    )


def _fully_drawn(drawn: NDArray[np.bool_]) -> list[Slot]:
    """Every slice without an ignored voxel; each labelled voxel must lie on one of them."""
    slots: list[Slot] = []
    rest = drawn.copy()
    for plane in Plane:
        full = plane.stack_first(drawn).all(axis=(1, 2))
        slots += [(plane, int(index)) for index in np.flatnonzero(full)]
        plane.stack_first(rest)[full] = False
    if rest.any():
        _refuse_partly_drawn(drawn, rest, slots)
    return slots


def _refuse_partly_drawn(
    drawn: NDArray[np.bool_], rest: NDArray[np.bool_], slots: list[Slot]
) -> None:
    """Say how many voxels lie on no full slice, and which slice they were likely meant for."""

    def left(slot: Slot) -> int:
        return int((~slot[0].take(drawn, slot[1])).sum())

    first = tuple(int(index) for index in np.argwhere(rest)[0])
    plane, index = nearest = min(_slots_through(rest), key=left)
    seen = f"beside the full slice(s) {describe(slots)}" if slots else "and no slice is full"
    raise AnnotationError(
        f"{int(rest.sum())} labelled voxel(s) lie on no fully drawn slice (first at RAS voxel "
        f"{first}), {seen}. A drawn slice has no voxel of 'ignore': paint the {left(nearest)} left "
        f"on {plane} {index} as background, or set these voxels to ignore."
    )


def _slots_through(mask: NDArray[np.bool_]) -> list[Slot]:
    """Every slice that holds a voxel of `mask`."""
    return [
        (plane, int(index))
        for plane in Plane
        for index in np.flatnonzero(plane.stack_first(mask).any(axis=(1, 2)))
    ]


def _painted(painted: NDArray[np.bool_], planes: Sequence[Plane]) -> list[Slot]:
    """The fewest slices that hold every painted voxel, if there is one such set only."""
    thin = [Plane.of_axis(axis) for axis in range(3) if painted.shape[axis] == 1]
    if thin:  # A scan of a single slice: that slice was drawn.
        return [(thin[-1], 0)]
    covers = smallest_covers(painted, planes=planes, at_most=MOST_SLICES)
    dense = not covers or any(_neighbours(cover) for cover in covers)
    if dense:
        counts = {plane: int(plane.stack_first(painted).any(axis=(1, 2)).sum()) for plane in planes}
        plane = min(counts, key=lambda plane: counts[plane])
        raise DenseLabelError(
            f"looks like a dense label: {int(painted.sum())} painted voxels on {counts[plane]} "
            f"{plane} slices. Take slices from it with 'twoslice simulate', or paint no more than "
            f"{MOST_SLICES} separate slices and set every other voxel to 'ignore'."
        )
    if len(covers) > 1:
        ways = ", or as ".join(describe(cover) for cover in covers[:3])
        raise AnnotationError(
            f"{int(painted.sum())} painted voxel(s) can be read as {ways}: too few to tell which "
            f"slice was drawn. Paint the whole target on it, or add an 'ignore' label to "
            f"dataset.json and set every voxel off the drawn slices to it."
        )
    return list(covers[0])


def _neighbours(cover: Iterable[Slot]) -> bool:
    """Three slices in a row: nobody skips none when asked for a few slices."""
    slots = set(cover)
    return any({(p, i + 1), (p, i + 2)} <= slots for p, i in slots)


def _shape(labels: Labels) -> Shape:
    i, j, k = labels.shape
    return i, j, k
