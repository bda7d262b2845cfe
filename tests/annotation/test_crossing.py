"""The line where two slices cross: sound slices pass, moved ones are named."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from annotation.strategies import annotations, equal, layout
from twoslice.annotation.choice import choose_slices, wishes
from twoslice.annotation.crossing import broken_lines, merge_annotations
from twoslice.annotation.moves import Side, crossings, moves
from twoslice.annotation.reading import annotation_at
from twoslice.annotation.types import AnnotatedSlice, SparseAnnotation
from twoslice.errors import AnnotationError
from twoslice.io.dataset import Dataset
from twoslice.io.grid import Shape
from twoslice.planes import Plane

AXIAL, CORONAL, SAGITTAL = Plane.AXIAL, Plane.CORONAL, Plane.SAGITTAL
SHAPE = (40, 36, 32)
PAIRS = [(AXIAL, CORONAL), (AXIAL, SAGITTAL), (CORONAL, SAGITTAL), (CORONAL, AXIAL)]


def organ(tilt: float = 0.35) -> NDArray[np.uint8]:
    """An ellipsoid that leans and lies off the middle, so that no flip leaves it where it was."""
    i, j, k = np.indices(SHAPE)
    x, y, z = i - 15 - tilt * (k - 13) + 0.2 * (j - 15), j - 15 + tilt * (k - 13), k - 13
    return ((x / 9) ** 2 + (y / 8) ** 2 + (z / 8) ** 2 <= 1).astype(np.uint8)


MIDDLE = {SAGITTAL: 13, CORONAL: 13, AXIAL: 11}


def in_one_file(
    first: AnnotatedSlice, last: AnnotatedSlice, shape: Shape = SHAPE
) -> SparseAnnotation:
    """Two slices written into one label map, one after the other, and read back."""
    labels = SparseAnnotation(shape, (first, last)).label_map(elsewhere=255)
    return annotation_at(labels, [(first.plane, first.index), (last.plane, last.index)])


def pair(planes: tuple[Plane, Plane]) -> tuple[AnnotatedSlice, AnnotatedSlice]:
    one, other = annotation_at(organ(), [(plane, MIDDLE[plane]) for plane in planes]).slices
    return (one, other) if one.plane == planes[0] else (other, one)


def changed(drawn: AnnotatedSlice, mask: NDArray[np.uint8]) -> AnnotatedSlice:
    return AnnotatedSlice(drawn.plane, drawn.index, mask)


def axis_of(one: AnnotatedSlice, other: AnnotatedSlice) -> int:
    """The axis of the first slice's mask that runs along the crossing line."""
    line = 3 - one.plane.axis - other.plane.axis
    return [axis for axis in range(3) if axis != one.plane.axis].index(line)


@given(
    slots=st.tuples(
        st.tuples(st.just(AXIAL), st.integers(0, SHAPE[2] - 1)),
        st.tuples(st.just(CORONAL), st.integers(0, SHAPE[1] - 1)),
        st.tuples(st.just(SAGITTAL), st.integers(0, SHAPE[0] - 1)),
    )
)
def test_no_three_slices_of_a_smooth_organ_are_blamed(
    slots: tuple[tuple[Plane, int], ...],
) -> None:
    assert broken_lines(annotation_at(organ(), slots)) == []


@pytest.mark.parametrize("last", [True, False], ids=["written last", "written first"])
@pytest.mark.parametrize("planes", PAIRS, ids=lambda pair: " ".join(pair))
def test_a_slice_flipped_along_the_line_is_seen_and_called_so(
    planes: tuple[Plane, Plane], last: bool
) -> None:
    one, other = pair(planes)
    bad = changed(one, np.flip(one.mask, axis_of(one, other)))
    (message,) = broken_lines(in_one_file(other, bad) if last else in_one_file(bad, other))
    names = ("left-right", "posterior-anterior", "inferior-superior")
    direction = names[3 - one.plane.axis - other.plane.axis]
    assert f"flipped {direction}" in message
    assert "\n" not in message


@pytest.mark.parametrize("last", [True, False], ids=["written last", "written first"])
@pytest.mark.parametrize("size", [3, 4, -3, -4])
def test_a_slice_shifted_along_the_line_is_seen_with_the_size_of_the_shift(
    size: int, last: bool
) -> None:
    # To a voxel: where the outline slants, the next size fits the line just as well.
    one, other = pair((AXIAL, CORONAL))
    bad = changed(one, np.roll(one.mask, size, axis_of(one, other)))
    (message,) = broken_lines(in_one_file(other, bad) if last else in_one_file(bad, other))
    named = re.search(r"off by (\d) voxels left-right", message)
    assert named is not None, message
    assert abs(int(named[1]) - abs(size)) <= 1


def test_the_voxels_that_break_are_named_in_ras() -> None:
    one, other = pair((AXIAL, CORONAL))
    bad = changed(one, np.flip(one.mask, 0))
    annotation = in_one_file(other, bad)
    (message,) = broken_lines(annotation)
    spans, coronal, axial = re.findall(r"RAS \((.*), (\d+), (\d+)\)", message)[0]
    assert (int(coronal), int(axial)) == (MIDDLE[CORONAL], MIDDLE[AXIAL])
    named: set[int] = set()
    for span in spans.split(", "):
        first, _, final = span.partition("-")
        named |= set(range(int(first), int(final or first) + 1))
    differing = np.flatnonzero(one.mask[:, MIDDLE[CORONAL]] != bad.mask[:, MIDDLE[CORONAL]])
    assert named <= set(differing.tolist())
    assert str(len(named)) in message.split("breaks at ")[1]


def test_a_slice_of_another_case_is_suspected_when_no_move_explains_it() -> None:
    one, other = pair((AXIAL, CORONAL))
    stripes = np.zeros_like(one.mask)
    stripes[::2] = 1
    (message,) = broken_lines(in_one_file(other, changed(one, stripes)))
    assert "another case" in message


@given(annotation=annotations())
def test_each_crossing_is_laid_along_its_line(annotation: SparseAnnotation) -> None:
    for crossing in crossings(annotation):
        first, second = crossing.first, crossing.second
        line = first.rows[first.at]
        assert np.array_equal(line, second.rows[second.at])
        where: list[int | slice] = [slice(None)] * 3
        where[first.plane.axis], where[second.plane.axis] = first.index, second.index
        assert np.array_equal(line, annotation.label_map(elsewhere=255)[tuple(where)])


@given(seed=st.integers(0, 99), rows=st.integers(8, 12), columns=st.integers(8, 12))
def test_every_move_is_undone_away_from_the_border(seed: int, rows: int, columns: int) -> None:
    mask = np.zeros((rows + 12, columns + 12), dtype=np.uint8)
    mask[6:-6, 6:-6] = np.random.default_rng(seed).integers(0, 3, (rows, columns))
    side = Side(AXIAL, 0, mask, 7, 1)
    for move in moves(side, 0):
        name = move.name
        if name == "transposed":
            done = mask.T
        elif name.startswith(("flipped", "turned")):
            axes = {"left": [1], "post": [0], "half": [0, 1]}
            key = next(key for key in axes if key in name)
            done = np.flip(mask, axes[key])
        else:
            size, axis = int(name.split()[2]), 1 if name.endswith("left-right") else 0
            both = [np.roll(mask, sign * size, axis) for sign in (1, -1)]
            assert sum(np.array_equal(move.undo(each), mask) for each in both) >= 1, name
            continue
        assert np.array_equal(move.undo(done), mask), name


@given(annotation=annotations())
def test_parts_of_an_annotation_merge_to_the_whole(annotation: SparseAnnotation) -> None:
    one = SparseAnnotation(annotation.shape, annotation.slices[::2])
    other = SparseAnnotation(annotation.shape, annotation.slices[1::2])
    assert equal(merge_annotations(one, other), annotation)
    assert layout(merge_annotations(annotation, annotation)) == layout(annotation)


def apart(*slices: AnnotatedSlice) -> list[SparseAnnotation]:
    return [SparseAnnotation(SHAPE, (drawn,)) for drawn in slices]


def test_one_differing_voxel_on_the_shared_line_is_refused_by_its_place() -> None:
    one, other = pair((AXIAL, CORONAL))
    mask = other.mask.copy()
    mask[17, MIDDLE[AXIAL]] ^= 1
    with pytest.raises(AnnotationError, match=r"differ on 1 of .* RAS \(17, 13, 11\)"):
        merge_annotations(*apart(one, changed(other, mask)))
    # A difference anywhere else is no business of the other slice.
    mask = other.mask.copy()
    mask[17, MIDDLE[AXIAL] + 1] ^= 1
    merge_annotations(*apart(one, changed(other, mask)))


@pytest.mark.parametrize(
    ("axis", "size", "cause"),
    [
        (0, 0, "one of them looks flipped left-right"),
        (1, 0, "coronal slice 13 looks flipped inferior-superior"),
        (0, 2, "one of them looks off by 2 voxels left-right"),
        (1, 3, "coronal slice 13 looks off by 3 voxels inferior-superior"),
    ],
)
def test_a_moved_slice_in_a_file_of_its_own_is_called_so(axis: int, size: int, cause: str) -> None:
    one, other = pair((AXIAL, CORONAL))
    mask = np.roll(other.mask, size, axis) if size else np.flip(other.mask, axis)
    with pytest.raises(AnnotationError, match=cause):
        merge_annotations(*apart(one, changed(other, mask)))


def test_two_drawings_of_one_slice_and_two_shapes_are_refused() -> None:
    one, _ = pair((AXIAL, CORONAL))
    with pytest.raises(AnnotationError, match=r"axial slice 11 is drawn twice, with \d+ differing"):
        merge_annotations(*apart(one, changed(one, one.mask.T.copy().reshape(one.mask.shape))))
    with pytest.raises(AnnotationError, match="own grid"):
        merge_annotations(SparseAnnotation(SHAPE, ()), SparseAnnotation((4, 4, 4), ()))


@pytest.mark.data
@pytest.mark.parametrize("name", ["LA_half", "Hippocampus", "BTCV_ct"])
def test_slices_of_real_scans_pass_and_flipped_ones_mostly_do_not(
    real_data: Path, name: str
) -> None:
    dataset = Dataset.open(real_data / name)
    blamed = found = 0
    cases = list(dataset.cases)[:10]
    for case in cases:
        labels = dataset.read_labels(case).data
        wanted = wishes("orthogonal", (AXIAL, CORONAL))
        slots = choose_slices(labels, classes=dataset.classes, wanted=wanted)
        axial, coronal = annotation_at(labels, slots).slices
        shape = (labels.shape[0], labels.shape[1], labels.shape[2])
        flipped = changed(axial, axial.mask[::-1])
        blamed += bool(broken_lines(in_one_file(axial, coronal, shape)))
        found += bool(broken_lines(in_one_file(coronal, flipped, shape)))
    assert blamed == 0
    assert found >= 0.6 * len(cases)
