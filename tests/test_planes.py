from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twoslice.errors import SettingsError
from twoslice.planes import Plane

planes = st.sampled_from(list(Plane))
shapes = st.tuples(*[st.integers(1, 5)] * 3)


def test_planes_cut_across_the_axes_of_a_ras_volume() -> None:
    # RAS: I runs left to right, J back to front, K feet to head.
    assert [plane.axis for plane in (Plane.SAGITTAL, Plane.CORONAL, Plane.AXIAL)] == [0, 1, 2]


@given(planes, shapes, st.data())
def test_a_taken_slice_equals_numpys_take(
    plane: Plane, shape: tuple[int, int, int], data: st.DataObject
) -> None:
    volume = np.arange(2 * np.prod(shape)).reshape(2, *shape)
    index = data.draw(st.integers(0, shape[plane.axis] - 1))
    expected = np.take(volume, index, axis=1 + plane.axis)
    np.testing.assert_array_equal(plane.take(volume, index), expected)
    np.testing.assert_array_equal(volume[0][plane.slice(index)], expected[0])


@given(planes, shapes)
def test_stacking_and_unstacking_are_inverse_and_copy_nothing(
    plane: Plane, shape: tuple[int, int, int]
) -> None:
    volume = np.arange(np.prod(shape)).reshape(shape)
    stacked = plane.stack_first(volume)
    assert stacked.shape[0] == shape[plane.axis]
    assert np.shares_memory(stacked, volume)
    np.testing.assert_array_equal(plane.unstack(stacked), volume)


@given(planes)
def test_a_plane_is_found_by_axis_and_by_name(plane: Plane) -> None:
    assert Plane.of_axis(plane.axis) is plane
    assert Plane.parse(f" {plane.value.upper()} ") is plane


def test_an_unknown_plane_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"'oblique' is not a plane.*sagittal, coronal, axial"):
        Plane.parse("oblique")
