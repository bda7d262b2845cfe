"""HSIC against what is known of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twoslice.studies.hsic import alignment, hsic
from twoslice.studies.hsic_study import compare_rows, compare_scans, draw_places, in_words


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
    assert alignment(x, noise) < 0.1


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
    draws = [(0.1, 0.6, 0.2), (0.3, 0.8, 0.4), (0.5, 0.5, 0.1)]  # the last is no pair, and passed
    found = {"image": compare_rows(scans, draws), "feature": compare_rows(scans, draws)}
    assert found["image"]["share"] == 1.0
    across = {"image": compare_scans(scans, draws), "feature": compare_scans(scans, draws)}
    assert "parallel slices know more" in in_words({"rows": found, "scans": across})


def test_the_same_seed_draws_the_same_slices() -> None:
    assert draw_places(3, seed=4) == draw_places(3, seed=4) != draw_places(3, seed=5)
