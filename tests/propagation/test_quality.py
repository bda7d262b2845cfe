"""The self-check against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from propagation.scenes import dice, drawn, two_blobs
from twoslice.planes import Plane
from twoslice.propagation.propagate import Propagated, propagate_scan
from twoslice.propagation.quality import Check, agreement, fit_decay, judge
from twoslice.settings import PropagationSettings


@given(alpha=st.floats(0.82, 0.995))
def test_the_decay_rate_that_made_the_figures_is_found(alpha: float) -> None:
    rows = [(away, alpha**away, 100 + away) for away in range(1, 40)]
    assert fit_decay(rows) == pytest.approx(alpha, abs=6e-4)


def a_check() -> Check:
    truth = np.array([[0, 1, 1, 2], [0, 1, 2, 2]], np.uint8)
    guess = np.array([[0, 1, 0, 2], [1, 1, 2, 0]], np.uint8)
    odds = np.stack([np.where(guess == value, 3.0, -3.0) for value in (1, 2)])
    return Check(Plane.AXIAL, odds.astype(np.float32), truth, np.array([1, 2]))


def test_dice_per_class_and_per_distance() -> None:
    quality = judge([a_check()], classes=3)
    assert quality.per_class == (2 * 2 / (3 + 3), 2 * 2 / (2 + 3))
    assert quality.dice == pytest.approx((4 / 6 + 4 / 5) / 2)
    assert quality.per_distance == ((1, 2 * 2 / 5, 5), (2, 2 * 2 / 6, 6))


def test_a_class_that_never_shows_counts_for_nothing() -> None:
    check = a_check()
    padded = np.concatenate([check.odds, np.full_like(check.odds[:1], -9)])
    wider = Check(check.plane, padded, check.truth, check.away)
    assert judge([wider], classes=4).per_class[2] is None
    assert judge([wider], classes=4).dice == judge([check], classes=3).dice
    assert judge([], classes=3).dice is None


def test_agreement_is_the_mean_dice_of_two_views() -> None:
    label = two_blobs()[1]
    other = np.roll(label, 2, axis=0)
    expected = (dice(label, other, 1) + dice(label, other, 2)) / 2
    assert agreement(label, other, 3) == pytest.approx(expected)
    assert agreement(label, label, 3) == 1
    assert agreement(label * 0, label * 0, 3) is None


def test_the_self_check_is_the_dice_of_a_plane_alone_on_the_other_drawn_slice() -> None:
    image, label = two_blobs()
    settings = PropagationSettings(cycle=False)

    def run(**slots: int) -> Propagated:
        return propagate_scan(
            image, drawn(label, **slots), classes=3, spacing=(1, 1, 1), settings=settings
        )

    both, alone = run(axial=15, coronal=17), run(axial=15)
    guess = np.delete(alone.views["axial"].label[:, 17], 15, axis=1)
    truth = np.delete(label[:, 17], 15, axis=1)
    found = both.quality.views["axial"].per_class
    assert found == pytest.approx([dice(guess, truth, value) for value in (1, 2)], abs=0.01)


def test_a_scan_that_propagates_badly_is_expected_to_be_worse() -> None:
    image, label = two_blobs()
    noise = np.random.default_rng(0).normal(size=image.shape).astype(np.float32)
    settings = PropagationSettings(cycle=False)
    expected = []
    for scan in (image, noise):
        result = propagate_scan(
            scan,
            drawn(label, axial=15, coronal=17),
            classes=3,
            spacing=(1, 1, 1),
            settings=settings,
        )
        expected.append(result.quality.expected)
    assert expected[0] > expected[1] + 0.05
