"""Which labels are one piece: most slices must say so, specks aside."""

from __future__ import annotations

import numpy as np
import pytest

from twoslice.annotation.pieces import single_labels
from twoslice.annotation.types import AnnotatedSlice, SparseAnnotation
from twoslice.planes import Plane

SHAPE = (20, 18, 16)


def drawn(*areas: int, value: int = 1) -> SparseAnnotation:
    """One axial slice with bars of so many pixels, apart from each other."""
    mask = np.zeros(SHAPE[:2], np.uint8)
    for row, area in enumerate(areas):
        mask[2 * row, :area] = value
    return SparseAnnotation(SHAPE, (AnnotatedSlice(Plane.AXIAL, 3, mask),))


ONE, TWO, SPECKED, NONE = drawn(12), drawn(12, 6), drawn(15, 1), drawn()


@pytest.mark.parametrize(
    ("annotations", "single"),
    [
        ([ONE, ONE, ONE], (1,)),
        ([ONE, ONE, TWO], (1,)),
        ([ONE, TWO], ()),
        ([TWO, TWO, TWO], ()),
        ([SPECKED], (1,)),
        ([NONE], ()),
        ([NONE, NONE, ONE], (1,)),
        ([], ()),
        ([ONE, drawn(9, 9, value=2), drawn(8, value=3)], (1, 3)),
    ],
)
def test_a_label_is_single_where_two_slices_in_three_show_it_so(
    annotations: list[SparseAnnotation], single: tuple[int, ...]
) -> None:
    assert single_labels(annotations, 4) == single


def test_pixels_that_touch_at_a_corner_are_one_piece() -> None:
    mask = np.zeros(SHAPE[:2], np.uint8)
    mask[:4, :4], mask[4:8, 4:8] = 1, 1
    slices = (AnnotatedSlice(Plane.AXIAL, 0, mask),)
    assert single_labels([SparseAnnotation(SHAPE, slices)], 2) == (1,)
