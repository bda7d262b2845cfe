"""The schedules' values at the paper's steps, and what holds at any length."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twoslice.objectives import schedules

PAPER = 6000
share = st.floats(0.0, 1.0)


@pytest.mark.parametrize(
    ("iteration", "alpha"),
    [(0, 0.95), (999, 0.95), (1000, 0.9455), (1999, 0.9455), (2000, 0.761), (3000, 0.5),
     (4000, 0.273), (5000, 0.0737), (5999, 0.0737), (6000, 0.0)],
)  # fmt: skip
def test_slice_decay_takes_the_papers_values(iteration: int, alpha: float) -> None:
    assert schedules.slice_decay(iteration / PAPER) == pytest.approx(alpha, abs=5e-4)


@pytest.mark.parametrize("iteration", range(0, PAPER + 1, 37))
def test_cross_weight_is_the_stepped_ramp_of_the_notes(iteration: int) -> None:
    s = min(iteration // 150, 40) / 40
    expected = 0.8 * math.exp(-5 * (1 - s) ** 2)
    assert schedules.cross_weight(iteration / PAPER) == pytest.approx(expected)


@pytest.mark.parametrize("iteration", range(0, PAPER + 1, 150))
def test_no_step_comes_late_by_rounding(iteration: int) -> None:
    expected = 0.8 * math.exp(-5 * (1 - (iteration // 150) / 40) ** 2)
    assert schedules.cross_weight(iteration / PAPER) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("iteration", "factor"),
    [(0, 1.0), (2499, 1.0), (2500, 0.1), (4999, 0.1), (5000, 0.01), (6000, 0.01)],
)
def test_the_papers_learning_rate_drops_twice(iteration: int, factor: float) -> None:
    assert schedules.step_rate(iteration / PAPER) == pytest.approx(factor)


@pytest.mark.parametrize("classes", [2, 5])
def test_the_threshold_rises_to_the_largest_entropy_there_is(classes: int) -> None:
    start = schedules.uncertainty_threshold(0.0, classes=classes)
    assert start == pytest.approx((0.75 + 0.25 * math.exp(-5)) * math.log(classes))
    assert schedules.uncertainty_threshold(1.0, classes=classes) == pytest.approx(math.log(classes))


@given(share, share)
def test_each_schedule_runs_one_way(one: float, two: float) -> None:
    early, late = sorted((one, two))
    assert schedules.slice_decay(early) >= schedules.slice_decay(late)
    assert schedules.cross_weight(early) <= schedules.cross_weight(late)
    assert schedules.step_rate(early) >= schedules.step_rate(late)
    threshold = schedules.uncertainty_threshold
    assert threshold(early, classes=3) <= threshold(late, classes=3) + 1e-12


@given(share)
def test_every_value_stays_in_its_range(progress: float) -> None:
    assert 0.0 <= schedules.slice_decay(progress, start=0.9) <= 0.9
    assert 0.0 < schedules.cross_weight(progress, full=0.3) <= 0.3
    assert 0.0 <= schedules.poly_rate(progress) <= 1.0


@given(st.integers(1, 10_000), share)
def test_the_rate_is_never_zero_while_training(iterations: int, at: float) -> None:
    step = min(int(at * iterations), iterations - 1)
    assert schedules.poly_rate(step / iterations) > 0.0
