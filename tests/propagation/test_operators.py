"""The operators against SciPy and torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import ndimage

from twoslice.propagation import operators
from twoslice.propagation.registrars import Displacements

SLICES = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 2, 23, 17)).astype(np.float32))


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.7])
def test_smoothing_agrees_with_scipy(sigma: float) -> None:
    radius = int(np.ceil(3 * sigma))
    expected = ndimage.gaussian_filter(
        SLICES.numpy(), (0, 0, sigma, sigma), mode="nearest", radius=(0, 0, radius, radius)
    )
    np.testing.assert_allclose(operators.smooth(SLICES, sigma), expected, atol=1e-5)


@pytest.mark.parametrize("size", [(23, 17), (11, 9), (40, 33), (1, 1)])
def test_resizing_agrees_with_torch(size: tuple[int, int]) -> None:
    expected = F.interpolate(SLICES, size=size, mode="bilinear", align_corners=True)
    torch.testing.assert_close(operators.resize(SLICES, size), expected, atol=1e-5, rtol=0)


def test_sampling_agrees_with_scipy() -> None:
    generator = np.random.default_rng(1)
    pixels = generator.normal(0, 2, size=(3, 2, 23, 17)).astype(np.float32)
    field = Displacements.from_pixels(torch.from_numpy(pixels))
    sampled = operators.sample(SLICES, field.field)
    grid = np.mgrid[:23, :17]
    for n in range(3):
        places = [np.clip(grid[a] + pixels[n, a], 0, (22, 16)[a]) for a in (0, 1)]
        expected = ndimage.map_coordinates(SLICES[n, 1].numpy(), places, order=1, mode="nearest")
        np.testing.assert_allclose(sampled[n, 1], expected, atol=1e-4)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_erosion_and_dilation_agree_with_scipy(steps: int) -> None:
    side = (1, 1, 2 * steps + 1, 2 * steps + 1)
    low = ndimage.grey_erosion(SLICES.numpy(), size=side, mode="nearest")
    high = ndimage.grey_dilation(SLICES.numpy(), size=side, mode="nearest")
    np.testing.assert_array_equal(operators.erode(SLICES, steps), low)
    np.testing.assert_array_equal(operators.dilate(SLICES, steps), high)


def test_the_gradient_of_a_ramp_is_its_slope() -> None:
    rows, columns = np.mgrid[:9, :8].astype(np.float32)
    ramp = torch.from_numpy(2 * rows + 3 * columns)[None, None]
    along_columns, along_rows = operators.gradient(ramp)
    assert (along_columns[0, 0, :, 1:-1] == 3).all()
    assert (along_rows[0, 0, 1:-1] == 2).all()


def test_displacements_keep_their_pixels() -> None:
    pixels = torch.randn(2, 2, 9, 14, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(Displacements.from_pixels(pixels).pixels(), pixels)
