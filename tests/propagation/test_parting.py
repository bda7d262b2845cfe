"""Parts of a body by their place: who meets whom, which planes part them, what is left alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from propagation.scenes import texture
from twoslice.annotation.reading import annotation_at
from twoslice.planes import Plane
from twoslice.propagation.fusion import classify
from twoslice.propagation.parting import find_partings
from twoslice.propagation.propagate import propagate_scan
from twoslice.settings import PropagationSettings

SHAPE = (24, 40, 28)
SLOTS = ((Plane.AXIAL, 14), (Plane.CORONAL, 18))


def lost(classes: int) -> np.ndarray:
    """What a check counts where every class was carried onto the others as often as onto itself."""
    return np.full((classes, classes), 10, dtype=np.int64)


def sausage(border: float = 20.0) -> np.ndarray:
    """A long body along J, class 2 up to a tilted plane and class 1 beyond it. Where the
    drawn slices cross, they do not show the border, so that its tilt is known."""
    i, j, k = np.indices(SHAPE)
    body = ((i - 12) / 5) ** 2 + ((k - 14) / 6) ** 2 + ((j - 20) / 16) ** 2 < 1
    tilted = j + 0.5 * (k - 14)
    return np.where(body, np.where(tilted < border, 2, 1), 0).astype(np.uint8)


@pytest.mark.parametrize("axis", range(3))
def test_parts_get_the_class_of_their_side_and_the_body_stays_what_it_was(axis: int) -> None:
    truth = sausage()
    (parting,) = find_partings(annotation_at(truth, SLOTS), lost(3))
    confused = np.full((2, *SHAPE), -5.0, np.float32)
    confused[0][truth > 0], confused[1][truth > 0] = 2.0, 3.0  # all of it called class 2
    stacked = np.moveaxis(np.moveaxis(confused, 1 + axis, 0), 1, 1)
    odds = torch.from_numpy(np.ascontiguousarray(stacked))
    parts = [parting.settle(odds[at : at + 5], axis, at) for at in range(0, len(odds), 5)]
    label = np.moveaxis(classify(torch.cat(parts)).numpy(), 0, axis)
    assert ((label > 0) == (truth > 0)).all()
    assert (label == truth)[truth > 0].mean() > 0.97


@given(st.floats(14.0, 26.0), st.integers(11, 17))
def test_the_planes_are_those_of_logistic_regression(border: float, height: int) -> None:
    truth = sausage(border)
    drawn = annotation_at(truth, ((Plane.AXIAL, height), (Plane.CORONAL, round(border) - 2)))
    (parting,) = find_partings(drawn, lost(3))
    known = drawn.label_map(elsewhere=0)
    counted = np.concatenate(  # a voxel on the crossing line was drawn twice
        [
            np.insert(np.argwhere(each.mask), each.plane.axis, each.index, axis=1)
            for each in drawn.slices
        ]
    )
    spread = counted.std(ddof=1)
    theirs = LogisticRegression(C=100.0, max_iter=2000, tol=1e-9)
    theirs.fit((counted - counted.mean(0)) / spread, known[tuple(counted.T)])
    everywhere = np.argwhere(truth > 0)
    want = theirs.decision_function((everywhere - counted.mean(0)) / spread)
    scores = torch.from_numpy(everywhere).float() @ parting.slopes.T + parting.offsets
    ours = (scores[:, 1] - scores[:, 0]).numpy()
    sure = np.abs(want) > 0.5
    assert (np.sign(ours) == np.sign(want))[sure].mean() > 0.995


def test_labels_that_do_not_meet_and_labels_within_others_are_left_to_propagation() -> None:
    i, j, k = np.indices(SHAPE)
    apart = np.zeros(SHAPE, np.uint8)
    apart[4:10, 10:30, 8:20], apart[14:20, 10:30, 8:20] = 1, 2
    assert find_partings(annotation_at(apart, SLOTS), lost(3)) == ()
    radius = np.sqrt((i - 12) ** 2 + (j - 20) ** 2 + (k - 14) ** 2)
    core = np.where(radius < 4, 2, np.where(radius < 9, 1, 0)).astype(np.uint8)
    assert find_partings(annotation_at(core, SLOTS), lost(3)) == ()
    one = np.minimum(sausage(), 1).astype(np.uint8)
    assert find_partings(annotation_at(one, SLOTS), lost(2)) == ()


def test_parts_that_propagation_keeps_apart_are_left_to_it() -> None:
    drawn, kept = annotation_at(sausage(), SLOTS), np.diag([900, 60, 80])
    assert find_partings(drawn, kept) == ()
    kept[1, 0] = 500  # missed altogether: that is no matter of parts
    assert find_partings(drawn, kept) == ()
    kept[1, 2] = 30
    assert len(find_partings(drawn, kept)) == 1


def test_bodies_are_parted_each_by_itself_and_classes_that_show_nowhere_do_no_harm() -> None:
    truth = np.zeros(SHAPE, np.uint8)
    truth[2:10, 5:20, 8:20], truth[2:10, 20:35, 8:20] = 1, 4
    truth[13:22, 5:22, 8:20], truth[13:22, 22:35, 8:20] = 2, 5
    found = find_partings(annotation_at(truth, SLOTS), lost(7))
    assert sorted(parting.parts for parting in found) == [(1, 4), (2, 5)]


def test_the_fused_view_knows_the_parts_that_each_plane_confuses() -> None:
    truth = sausage()
    image = (2.0 * (truth > 0) + 0.3 * texture(SHAPE))[None].astype(np.float32)
    drawn = annotation_at(truth, SLOTS)

    def mean_dice(settings: PropagationSettings) -> float:
        result = propagate_scan(image, drawn, classes=3, spacing=(1.0, 1.0, 1.0), settings=settings)
        label = result.views["fused"].label
        parts = ((label == value, truth == value) for value in (1, 2))
        return float(np.mean([2 * (a & b).sum() / (a.sum() + b.sum()) for a, b in parts]))

    parted, carried = (
        mean_dice(PropagationSettings()),
        mean_dice(PropagationSettings(parting=False)),
    )
    assert parted > 0.9
    assert 1 - parted < 0.8 * (1 - carried)
