"""Spread slices, against closed forms and the best of all slices."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from annotation.strategies import ball
from twoslice.annotation.choice import choose_slices, wishes
from twoslice.annotation.seen import Seen, areas_of
from twoslice.planes import Plane

AXIAL, CORONAL = Plane.AXIAL, Plane.CORONAL
ORTHOGONAL = wishes("orthogonal", (AXIAL, CORONAL))


def bar(length: int) -> np.ndarray:
    """The same area on every one of `length` slices."""
    areas = np.zeros((2, length + 6))
    areas[1, 3 : 3 + length] = 50
    return areas


def test_nothing_seen_makes_the_middle_of_a_bar_the_best() -> None:
    gains = Seen().gains(AXIAL, bar(41))
    assert gains[23] == gains.max()
    assert int(np.median(np.flatnonzero(gains == gains.max()))) == 23
    np.testing.assert_allclose(gains[3:44], gains[3:44][::-1], atol=1e-9)
    assert (gains[:3] == 0).all()
    assert (gains[44:] == 0).all()


def test_a_slice_that_was_seen_adds_nothing() -> None:
    seen = Seen()
    seen.add(AXIAL, bar(41), 23)
    gains = seen.gains(AXIAL, bar(41))
    assert abs(gains[23]) < 1e-12
    assert gains[3 + 5] > gains[3 + 15]


def test_what_was_seen_counts_at_the_same_place_of_a_body_of_another_size() -> None:
    seen = Seen()
    seen.add(AXIAL, bar(41), 23)
    assert abs(int(np.argmin(seen.gains(AXIAL, bar(21))[3:24])) - 10) <= 1
    assert (seen.gains(CORONAL, bar(21)) == Seen().gains(CORONAL, bar(21))).all()


@given(places=st.lists(st.integers(3, 43), min_size=1, max_size=6), at=st.integers(3, 43))
def test_the_more_was_seen_the_less_a_slice_adds(places: list[int], at: int) -> None:
    areas = bar(41)
    seen = Seen()
    before = seen.gains(AXIAL, areas)[at]
    for place in places:
        seen.add(AXIAL, areas, place)
        after = seen.gains(AXIAL, areas)[at]
        assert -1e-12 <= after <= before + 1e-12
        before = after
    merged = Seen([seen, Seen()])
    np.testing.assert_allclose(merged.gains(AXIAL, areas), seen.gains(AXIAL, areas))


def test_areas_are_those_of_a_plain_count() -> None:
    labels = np.random.default_rng(0).integers(0, 4, (5, 6, 7)).astype(np.uint8)
    areas = areas_of(labels, CORONAL, 3)
    assert areas.shape == (3, 6)
    for value in (1, 2):
        for j in range(6):
            assert areas[value, j] == (labels[:, j] == value).sum()
    assert (areas[0] == 0).all()


def test_slices_of_several_scans_reach_from_end_to_end() -> None:
    labels = ball((40, 40, 40), (20, 20, 20), 15).astype(np.uint8)
    others: list[Seen] = []
    taken: dict[Plane, list[int]] = {AXIAL: [], CORONAL: []}
    for _ in range(5):
        slots = choose_slices(labels, classes=2, wanted=ORTHOGONAL, choice="spread", others=others)
        others.append(Seen.of(labels, slots, 2))
        for plane, index in slots:
            taken[plane].append(index)
    for places in taken.values():
        assert abs(places[0] - 20) <= 1
        ordered = sorted(places)
        assert len(set(places)) == 5
        assert ordered[0] <= 20 - 6
        assert ordered[-1] >= 20 + 6
        assert max(np.diff(ordered)) <= 9


def test_every_class_is_shown_well_where_a_pair_of_slices_can() -> None:
    labels = np.zeros((40, 40, 40), np.uint8)
    labels[5:15, 5:35, 5:15] = 1  # below
    labels[5:15, 5:35, 25:35] = 2  # above: no axial slice shows both
    labels[25:35, 30:38, 5:9] = 3
    for seen_before in range(4):
        others = [Seen.of(labels, [(AXIAL, 10), (CORONAL, 8)], 4)] * seen_before
        slots = choose_slices(labels, classes=4, wanted=ORTHOGONAL, choice="spread", others=others)
        for value in (1, 2, 3):
            shown = []
            for plane, index in slots:
                area = areas_of(labels, plane, 4)[value]
                shown.append(area[index] >= 0.25 * area.max())
            assert any(shown), value
