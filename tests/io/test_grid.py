"""Grids: to RAS and back over every axis order, and which grids count as the same."""

from __future__ import annotations

import nibabel as nib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scan_files import AXES, Affine, affine_of, affines, blocks, shapes
from twoslice.io.grid import Grid


def test_there_are_48_ways_to_lay_a_box() -> None:
    assert len({axes.tobytes() for axes in AXES}) == 48


@pytest.mark.parametrize("number", range(48))
def test_each_of_the_48_axis_orders_comes_back_exactly(number: int) -> None:
    grid = Grid((3, 4, 5), affine_of(AXES[number], (0.5, 1.0, 2.0), (10, 20, 30)))
    stored = blocks(grid.shape)
    ras = grid.to_ras(stored)
    assert grid.ras.orientation == "RAS"
    assert ras.shape == grid.ras.shape
    np.testing.assert_array_equal(grid.from_ras(ras), stored)


@given(affines(), shapes())
def test_ras_agrees_with_nibabels_closest_canonical(affine: Affine, shape: tuple[int, ...]) -> None:
    grid = Grid((shape[0], shape[1], shape[2]), affine)
    stored = blocks(grid.shape)
    canonical = nib.as_closest_canonical(nib.Nifti1Image(stored, affine))
    np.testing.assert_array_equal(grid.to_ras(stored), np.asanyarray(canonical.dataobj))
    np.testing.assert_allclose(grid.ras.affine, canonical.affine, atol=1e-4)
    np.testing.assert_array_equal(grid.from_ras(grid.to_ras(stored)), stored)


@given(affines(), shapes(), st.data())
def test_a_voxel_keeps_its_place_in_the_body(
    affine: Affine, shape: tuple[int, int, int], data: st.DataObject
) -> None:
    grid = Grid(shape, affine)
    marked = np.zeros(shape, np.uint8)
    where = tuple(data.draw(st.integers(0, side - 1)) for side in shape)
    marked[where] = 1
    found = np.argwhere(grid.to_ras(marked))[0]
    place = grid.affine @ [*where, 1]
    np.testing.assert_allclose(grid.ras.affine @ [*found, 1], place, atol=1e-9)


@given(affines(), shapes())
def test_channels_stay_in_front(affine: Affine, shape: tuple[int, int, int]) -> None:
    grid = Grid(shape, affine)
    channels = np.stack([blocks(shape, seed=0), blocks(shape, seed=1)])
    turned = grid.to_ras(channels)
    for channel in range(2):
        np.testing.assert_array_equal(turned[channel], grid.to_ras(channels[channel]))
    np.testing.assert_array_equal(grid.from_ras(turned), channels)


def test_spacing_follows_the_axes_to_ras() -> None:
    grid = Grid((3, 4, 5), affine_of(AXES[-1], (0.5, 1.0, 2.0), (0, 0, 0)))
    assert grid.spacing == (0.5, 1.0, 2.0)
    assert sorted(grid.ras.spacing) == [0.5, 1.0, 2.0]
    assert grid.ras.spacing == tuple(np.abs(grid.affine[:3, :3]).sum(axis=1))


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.2])
def test_grids_a_fraction_of_a_voxel_apart_are_the_same(shift: float) -> None:
    affine = affine_of(AXES[0], (2, 1, 3), (0, 0, 0))
    moved = affine.copy()
    moved[0, 3] += shift
    assert Grid((3, 4, 5), affine).same_as(Grid((3, 4, 5), moved))
    assert Grid((3, 4, 5), affine).same_as(Grid((3, 4, 5), moved), tolerance_mm=0) == (shift == 0)


@pytest.mark.parametrize("shift", [0.5, 1.0, 40.0])
def test_grids_half_a_voxel_apart_are_not_and_the_gap_is_told(shift: float) -> None:
    affine = affine_of(AXES[0], (2, 1, 3), (0, 0, 0))
    moved = affine.copy()
    moved[1, 3] += shift
    there, here = Grid((3, 4, 5), affine), Grid((3, 4, 5), moved)
    assert not there.same_as(here)
    assert f"corners up to {shift:g} mm apart" in here.against(there)
    assert not there.same_as(Grid((3, 4, 6), affine))


def test_a_small_turn_is_seen_at_the_far_corner() -> None:
    affine = affine_of(AXES[0], (1, 1, 1), (0, 0, 0))
    turned = affine.copy()
    turned[1, 0] = 2e-3  # a millimetre at the far end of 500 voxels
    assert Grid((50, 4, 5), affine).same_as(Grid((50, 4, 5), turned))
    assert not Grid((500, 4, 5), affine).same_as(Grid((500, 4, 5), turned))
