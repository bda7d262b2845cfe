"""Drawings: the shared line, undo without end, and equality with what the file then says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.strategies import IGNORE
from twoslice.annotation.reading import annotation_from_labels
from twoslice.annotation.types import SparseAnnotation
from twoslice.annotator.drawing import Drawing
from twoslice.errors import AnnotationError
from twoslice.planes import Plane

SHAPE = (5, 6, 7)
SLOTS = ((Plane.AXIAL, 3), (Plane.CORONAL, 2), (Plane.SAGITTAL, 1))


def empty(slots=SLOTS) -> Drawing:
    return Drawing(SparseAnnotation(SHAPE, ()), slots, IGNORE)


@st.composite
def strokes(draw: st.DrawFn) -> tuple[tuple[Plane, int], list[int]]:
    slot = draw(st.sampled_from(SLOTS))
    size = int(np.prod(SHAPE)) // SHAPE[slot[0].axis]
    start = draw(st.integers(0, size - 1))
    length = draw(st.integers(1, size - start))
    return slot, [start, length, draw(st.integers(0, IGNORE - 1))]


@given(st.lists(strokes(), max_size=12))
def test_the_file_says_exactly_what_is_drawn(painted: list) -> None:
    """Slices that cross share voxels: one label map holds all of them without loss."""
    drawing = empty()
    for slot, runs in painted:
        drawing.paint(slot, runs)
    annotation = drawing.annotation()
    read = annotation_from_labels(annotation.label_map(elsewhere=IGNORE), ignore=IGNORE)
    assert {(d.plane, d.index) for d in read.slices} == {slot for slot, _ in painted}
    for drawn in read.slices:
        assert np.array_equal(drawn.mask, drawing.seen((drawn.plane, drawn.index)))


@given(st.lists(strokes(), min_size=1, max_size=15), st.integers(0, 40))
def test_undo_and_redo_walk_through_every_state(painted: list, back: int) -> None:
    drawing = empty()
    versions = [drawing.state.version()]
    for slot, runs in painted:
        drawing.paint(slot, runs)
        versions.append(drawing.state.version())
    for step in range(len(painted)):
        assert drawing.undo()
        assert drawing.state.version() == versions[len(painted) - 1 - step]
    assert not drawing.undo()
    for step in range(min(back, len(painted))):
        assert drawing.redo()
        assert drawing.state.version() == versions[step + 1]


def test_what_is_drawn_in_one_panel_appears_on_the_line_in_the_other() -> None:
    drawing = empty()
    width = SHAPE[0]
    # The axial row at coronal index 2, in the screen's rows: y = J - 1 - 2.
    drawing.paint(SLOTS[0], [(SHAPE[1] - 1 - 2) * width, width, 1])
    coronal = drawing.seen(SLOTS[1])
    assert (coronal[:, 3] == 1).all()
    assert (np.delete(coronal, 3, axis=1) == 255).all()


def test_an_edit_on_the_line_is_an_edit_of_both_slices() -> None:
    drawing = empty()
    drawing.paint(SLOTS[0], [])
    drawing.paint(SLOTS[1], [0, SHAPE[0] * SHAPE[2], 2])
    axial = drawing.seen(SLOTS[0])
    assert (axial[:, 2] == 2).all()
    assert (np.delete(axial, 2, axis=1) == 0).all()


def test_a_slice_with_nothing_on_it_is_drawn_all_the_same() -> None:
    drawing = empty()
    drawing.paint(SLOTS[0], [])
    (drawn,) = drawing.annotation().slices
    assert not drawn.mask.any()
    drawing.clear(SLOTS[0])
    assert drawing.annotation().slices == ()


def test_a_moved_slice_takes_its_drawing_along_and_keeps_the_lines_of_others() -> None:
    drawing = empty()
    size = SHAPE[0] * SHAPE[1]
    drawing.paint(SLOTS[0], [0, size, 1])
    drawing.paint(SLOTS[1], [0, SHAPE[0] * SHAPE[2], 2])
    drawing.move(SLOTS[0], 5, carry=True)
    moved = drawing.seen((Plane.AXIAL, 5))
    assert (moved[:, 2] == 2).all()
    assert (np.delete(moved, 2, axis=1) == 1).all()
    assert SLOTS[0] not in drawing.state.chosen
    drawing.undo()
    assert (drawing.seen(SLOTS[0])[:, 0] == 1).all()


def test_a_discarded_drawing_can_be_copied_from() -> None:
    drawing = empty()
    drawing.paint(SLOTS[0], [0, 4, 1])
    drawn = drawing.seen(SLOTS[0])
    drawing.move(SLOTS[0], 4, carry=False)
    target = (Plane.AXIAL, 4)
    assert target not in drawing.state.sheets
    near = drawing.neighbour(target)
    assert near is not None
    assert near[0] == 3
    drawing.copy(target, near[1])
    assert np.array_equal(drawing.seen(target), drawn)


def test_equal_content_has_an_equal_version_in_another_run() -> None:
    one, other = empty(), empty()
    for drawing in (one, other):
        drawing.paint(SLOTS[0], [3, 4, 1])
    again = Drawing(one.annotation(), SLOTS, IGNORE)
    assert one.state.version() == other.state.version() == again.state.version()
    other.paint(SLOTS[0], [3, 1, 0])
    assert one.state.version() != other.state.version()


def test_only_chosen_slices_inside_the_scan_are_drawn_on() -> None:
    drawing = empty()
    for slot in ((Plane.AXIAL, 2), (Plane.AXIAL, 7), (Plane.CORONAL, -1)):
        with pytest.raises(AnnotationError):
            drawing.paint(slot, [])
    with pytest.raises(AnnotationError, match="chosen already"):
        drawing.add(SLOTS[0])
    with pytest.raises(AnnotationError, match="chosen already"):
        drawing.move((Plane.AXIAL, 3), 3, carry=False)
