"""Slices on the screen: where the patient's sides are, and masks as runs."""

from __future__ import annotations

import nibabel as nib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from twoslice.annotator.runs import encode, from_screen, letters, paint, to_screen
from twoslice.errors import AnnotationError
from twoslice.planes import Plane

masks = arrays(
    np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.integers(0, 3)
)


@pytest.mark.parametrize("plane", Plane)
def test_the_letters_say_where_the_patients_sides_are_by_nibabels_axes(plane: Plane) -> None:
    """A volume whose value is one millimetre coordinate grows towards the letter's side."""
    affine = np.diag([2.0, 3.0, 4.0, 1.0])
    positive = nib.aff2axcodes(affine)
    opposite = {"R": "L", "A": "P", "S": "I"}
    shape = (5, 6, 7)
    for axis, letter in enumerate(positive):
        if axis == plane.axis:
            continue
        rows = to_screen(plane.take(np.indices(shape)[axis], 2))
        across, down = np.sign(rows[0, -1] - rows[0, 0]), np.sign(rows[-1, 0] - rows[0, 0])
        side = (
            {1: "right", -1: "left"}[int(across)] if across else {1: "bottom", -1: "top"}[int(down)]
        )
        other = {"right": "left", "left": "right", "top": "bottom", "bottom": "top"}[side]
        assert letters(plane)[side] == letter
        assert letters(plane)[other] == opposite[letter]


def test_axial_slices_are_shown_as_radiologists_do() -> None:
    assert letters(Plane.AXIAL) == {"left": "R", "right": "L", "top": "A", "bottom": "P"}
    assert letters(Plane.CORONAL) == {"left": "R", "right": "L", "top": "S", "bottom": "I"}
    assert letters(Plane.SAGITTAL) == {"left": "A", "right": "P", "top": "S", "bottom": "I"}


@given(masks)
def test_the_screen_and_back_changes_nothing(mask: np.ndarray) -> None:
    assert np.array_equal(from_screen(to_screen(mask)), mask)


@given(masks)
def test_runs_hold_the_whole_mask(mask: np.ndarray) -> None:
    runs = encode(mask)
    lengths, values = runs[::2], runs[1::2]
    rows = np.repeat(values, lengths).reshape(mask.shape[::-1])
    assert np.array_equal(rows, to_screen(mask))


@given(masks, masks)
def test_painting_the_difference_gives_the_other_mask(one: np.ndarray, other: np.ndarray) -> None:
    other = np.resize(other, one.shape)
    flat = to_screen(other).reshape(-1)
    runs = [number for place, value in enumerate(flat) for number in (place, 1, int(value))]
    assert np.array_equal(paint(one, runs, classes=4), other)


@pytest.mark.parametrize(
    "runs",
    [[0, 1], [-1, 1, 0], [0, 0, 1], [3, 2, 1], [0, 1, 3], [0, 1, -1], [2**40, 1, 1], [2**70, 1, 1]],
)
def test_runs_that_leave_the_slice_or_the_labels_are_refused(runs: list[int]) -> None:
    with pytest.raises(AnnotationError):
        paint(np.zeros((2, 2), np.uint8), runs, classes=3)
