"""Preprocessing: robust z-scores, spacing, and drawn slices that survive resampling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twoslice.errors import ScanError
from twoslice.training.volumes import (
    normalise_intensity,
    prepare_image,
    resample_image,
    resample_view,
    shape_at,
)


@given(st.floats(0.01, 50), st.floats(-500, 500))
def test_gain_and_offset_of_the_scanner_do_not_matter(gain: float, offset: float) -> None:
    image = np.random.default_rng(0).gamma(2.0, 10.0, (1, 8, 9, 7)).astype(np.float32)
    changed = (gain * image.astype(np.float64) + offset).astype(np.float32)
    tolerance = 1e-3 + 1e-4 * abs(offset) / gain
    np.testing.assert_allclose(
        normalise_intensity(changed), normalise_intensity(image), atol=tolerance
    )


def test_each_channel_has_mean_zero_and_deviation_one() -> None:
    image = np.random.default_rng(0).gamma(2.0, 10.0, (3, 20, 20, 20)).astype(np.float32)
    out = normalise_intensity(image * np.array([1, 10, 100], np.float32)[:, None, None, None])
    np.testing.assert_allclose(out.mean(axis=(1, 2, 3)), 0, atol=1e-4)
    np.testing.assert_allclose(out.std(axis=(1, 2, 3)), 1, atol=1e-4)


def test_a_few_extreme_voxels_do_not_set_the_scale() -> None:
    image = np.random.default_rng(0).standard_normal((1, 30, 30, 30)).astype(np.float32)
    spoilt = image.copy()
    spoilt[0, 0, 0, :5] = 1e6
    np.testing.assert_allclose(
        normalise_intensity(spoilt)[0, 5:], normalise_intensity(image)[0, 5:], atol=0.01
    )


def test_a_constant_channel_becomes_zero() -> None:
    assert not normalise_intensity(np.full((1, 4, 4, 4), 7.0, np.float32)).any()


def test_intensities_beyond_what_can_be_summed_are_told() -> None:
    huge = np.linspace(-3e38, 3e38, 512, dtype=np.float32).reshape(1, 8, 8, 8)
    with pytest.raises(ScanError, match="too large for 32-bit sums"):
        normalise_intensity(huge)


def test_shape_at_a_spacing_covers_the_same_extent() -> None:
    assert shape_at((10, 20, 30), (1.0, 1.0, 2.0), None) == (10, 20, 30)
    assert shape_at((10, 20, 30), (1.0, 1.0, 2.0), (2.0, 1.0, 1.0)) == (5, 20, 60)


def test_resampling_a_linear_ramp_stays_linear() -> None:
    ramp = np.broadcast_to(np.arange(12, dtype=np.float32)[:, None, None], (12, 4, 4))[None]
    out = resample_image(np.ascontiguousarray(ramp), (24, 4, 4))[0, :, 0, 0]
    np.testing.assert_allclose(out[1:-1], (np.arange(24)[1:-1] + 0.5) / 2 - 0.5, atol=1e-5)
    assert prepare_image(ramp, (2.0, 1.0, 1.0), (1.0, 1.0, 1.0)).shape == (1, 24, 4, 4)


@pytest.mark.parametrize("shape", [(5, 20, 6), (20, 9, 30), (3, 3, 3)])
def test_no_drawn_slice_is_lost_between_the_voxels(shape: tuple[int, int, int]) -> None:
    label = np.zeros((10, 18, 12), np.uint8)
    label[2:8, 4:12, 3:9] = 1
    distance = np.abs(np.arange(12) - 5).astype(np.int16) + np.zeros((10, 18, 1), np.int16)
    new_label, new_distance = resample_view(label, distance, shape)
    assert new_label.shape == new_distance.shape == shape
    drawn = (new_distance == 0).all(axis=(0, 1))
    assert drawn.any()
    assert new_label[:, :, drawn].any()


def test_a_view_on_its_own_grid_is_left_as_it_is() -> None:
    label, distance = np.ones((3, 4, 5), np.uint8), np.ones((3, 4, 5), np.int16)
    assert resample_view(label, distance, (3, 4, 5)) == (label, distance)
