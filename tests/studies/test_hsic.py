"""HSIC against what is known of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twoslice.studies.hsic import alignment, hsic
from twoslice.studies.hsic_study import Comparison, draw_places, in_words


def naive(x: np.ndarray, y: np.ndarray) -> float:
    """tr(K H L H) / (n − 1)² by loops and the definition."""
    n = len(x)
    kernels = []
    for z in (x, y):
        d = np.array([[((a - b) ** 2).sum() for a in z] for b in z])
        width = np.median([d[i, j] for i in range(n) for j in range(i + 1, n) if d[i, j] > 0])
        kernels.append(np.exp(-d / (2 * width)))
    h = np.eye(n) - np.ones((n, n)) / n
    return float(np.trace(kernels[0] @ h @ kernels[1] @ h)) / (n - 1) ** 2


@given(seed=st.integers(0, 1000), n=st.integers(4, 12))
def test_hsic_is_its_definition(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((n, 3)), rng.standard_normal((n, 5))
    assert hsic(x, y) == pytest.approx(naive(x, y), abs=1e-12)
    assert hsic(x, y) == pytest.approx(hsic(y, x))


def test_dependent_samples_score_higher_than_independent_ones() -> None:
    rng = np.random.default_rng(0)
    x, noise = rng.standard_normal((200, 2)), rng.standard_normal((200, 2))
    assert hsic(x, x**2) > 5 * hsic(x, noise)
    assert alignment(x, 3 * x + 1) == pytest.approx(1.0)  # the kernel knows no scale and no place


def test_few_independent_samples_of_many_values_align_to_zero_on_average() -> None:
    rng = np.random.default_rng(0)
    found = [alignment(*rng.standard_normal((2, 10, 500))) for _ in range(200)]
    assert abs(np.mean(found)) < 3 * np.std(found) / np.sqrt(200)
    biased = [hsic(*rng.standard_normal((2, 10, 500))) for _ in range(20)]
    assert np.mean(biased) > 5 * np.std(biased)  # which is why both are told


def test_a_constant_slice_depends_on_nothing() -> None:
    x = np.random.default_rng(0).standard_normal((10, 3))
    assert hsic(x, np.ones((10, 4))) == pytest.approx(0.0, abs=1e-15)
    assert alignment(x, np.ones((10, 4))) == 0.0


def test_scans_whose_slices_repeat_along_the_body_have_parallel_slices_that_know_each_other() -> (
    None
):
    """Each axial slice is the same picture, each coronal one is noise of its own."""
    rng = np.random.default_rng(0)
    scans = []
    for _ in range(6):
        scan = rng.standard_normal((1, 20, 18, 12)).astype(np.float32)
        scan[:, :, 9:, :] = rng.standard_normal((1, 20, 9, 1))
        scans.append(scan)
    draws = [
        (0.1, 0.6, 0.2),
        (0.3, 0.8, 0.4),
        (0.5, 0.5, 0.1),
    ]  # the last: a slice and its neighbour
    level = Comparison(draws, np.array([20, 18, 12]))
    for scan in scans:
        level.add(scan, level.draws)
    rows, across = level.by_rows(), level.by_scans()
    assert rows["share"] == 1.0
    told = {"rows": {"image": rows, "feature": rows}, "scans": {"image": across, "feature": across}}
    told |= {"distance": {"image": level.by_distance()}}
    assert in_words(told).count(", more") == 6  # all but HSIC over six scans, which is bias alone
    assert across["parallel"]["alignment"] > 0.2 > across["orthogonal"]["alignment"]
    expected = np.mean([hsic(scan[0, :, :, 1], scan[0, :, :, 7]) for scan in scans])
    only = Comparison(draws[:1], np.array([20, 18, 12]))
    for scan in scans:
        only.add(scan, only.draws)
    assert only.by_rows()["parallel"]["hsic"] == pytest.approx(expected)


def test_neighbours_are_told_from_slices_far_apart() -> None:
    """Each slice is the one below it with a little noise: what is shared fades with distance."""
    rng = np.random.default_rng(0)
    level = Comparison([(0.5, 0.52, 0.1), (0.1, 0.9, 0.1)], np.array([30, 20, 40]))
    for _ in range(4):
        walk = np.cumsum(rng.standard_normal((1, 30, 20, 40)), axis=3)
        level.add(walk.astype(np.float32), level.draws)
    near, far = level.by_distance()
    assert (near["from"], far["to"]) == (0.0, 1.0)
    assert near["pairs"] == far["pairs"] == 4
    assert near["alignment"] > 2 * far["alignment"]


def test_scans_of_different_sizes_are_compared_in_their_common_middle() -> None:
    rng = np.random.default_rng(0)
    level = Comparison([(0.1, 0.6, 0.2)], np.array([8, 9, 10]))
    cut = []
    for extra in (0, 2, 4, 6):
        scan = rng.standard_normal((2, 8 + extra, 9 + extra, 10 + extra)).astype(np.float32)
        level.add(scan, level.draws)
        half = extra // 2
        cut.append(scan[:, half : half + 8, half : half + 9, half : half + 10].astype(np.float16))
    first, second = (np.stack([scan[..., index] for scan in cut]) for index in (1, 6))
    assert level.by_scans()["parallel"]["hsic"] == pytest.approx(hsic(first, second))


def test_the_same_seed_draws_the_same_slices() -> None:
    assert draw_places(3, seed=[4]) == draw_places(3, seed=[4]) != draw_places(3, seed=[5])
