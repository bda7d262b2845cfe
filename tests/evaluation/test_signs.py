"""Signs: agreement where there is agreement, Dice as MedPy has it, doubt where the doubt is."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from medpy.metric.binary import dc
from torch import Tensor

from twoslice.evaluation.signs import Tally, read_answers, shapes
from twoslice.inference.probes import PROBES, Answers

SHAPE = (6, 5, 4)


def softmax_of(labels: Tensor, sure: float, classes: int = 3) -> Tensor:
    """Probabilities (C, I, J, K) with `sure` for the label and the rest spread over the others."""
    spread = torch.full((classes, *labels.shape), (1 - sure) / (classes - 1))
    return spread.scatter(0, labels[None], sure)


def answers(
    one: Tensor, two: Tensor, *probes: Tensor, axis: int = 0, step: int = 2
) -> list[Answers]:
    members, more = torch.stack([one, two]), torch.stack(probes)
    return [
        Answers(axis, s, members.narrow(axis + 2, s, n), more.narrow(axis + 2, s, n))
        for s in range(0, SHAPE[axis], step)
        for n in [min(step, SHAPE[axis] - s)]
    ]


@given(st.integers(0, 2**32 - 1), st.integers(0, 2))
def test_the_networks_sign_is_their_dice_however_the_scan_is_cut(seed: int, axis: int) -> None:
    rng = np.random.default_rng(seed)
    one, two = (torch.from_numpy(rng.integers(0, 3, SHAPE)) for _ in range(2))
    maps = [softmax_of(labels, 0.9) for labels in (one, two)]
    same = [maps[0]] * len(PROBES)
    signs = read_answers(answers(*maps, *same, axis=axis), 3, SHAPE).whole.signs()
    for value, sign in enumerate(signs, start=1):
        expected = dc((one == value).numpy(), (two == value).numpy())
        assert abs(sign["networks"] - expected) < 1e-4


def test_networks_that_are_sure_and_agree_have_every_sign_at_its_best() -> None:
    labels = torch.zeros(SHAPE, dtype=torch.int64)
    labels[1:3, 1:3, 1:3], labels[4, 3:, 2:] = 1, 2
    sure = softmax_of(labels, 1.0)
    for sign in read_answers(answers(sure, sure, sure, sure), 3, SHAPE).whole.signs():
        assert all(value > 0.999 for value in sign.values()), sign


def test_less_sure_networks_have_lower_softmax_and_certainty_and_nothing_else() -> None:
    labels = torch.zeros(SHAPE, dtype=torch.int64)
    labels[1:4, 1:4, 1:3], labels[5] = 1, 2
    signs = []
    for sure in (0.95, 0.6):
        maps = softmax_of(labels, sure)
        signs.append(read_answers(answers(maps, maps, maps, maps), 3, SHAPE).whole.signs()[0])
    assert signs[1]["softmax"] < signs[0]["softmax"]
    assert signs[1]["certainty"] < signs[0]["certainty"]
    assert signs[1]["networks"] == signs[0]["networks"] == 1.0


def test_a_label_that_nobody_finds_is_not_taken_for_a_good_one() -> None:
    nothing = softmax_of(torch.zeros(SHAPE, dtype=torch.int64), 0.99)
    sign = read_answers(answers(nothing, nothing, nothing, nothing), 3, SHAPE).whole.signs()[0]
    assert set(sign.values()) == {0.0}  # all agree, and nothing was found


def test_drawn_slices_are_scored_alone_and_doubt_lies_on_its_slices() -> None:
    truth = torch.zeros(SHAPE, dtype=torch.int64)
    truth[:, 1:4, 1:3] = 1
    said = truth.clone()
    said[2, 1, 1:3] = 0  # wrong on slice 2 alone, by two voxels of six
    maps = softmax_of(said, 0.95)
    maps[:, 4] = softmax_of(said, 0.4)[:, 4]  # doubtful on slice 4 alone
    drawn = []
    for index in (2, 3):
        mask = np.zeros(SHAPE, bool)
        mask[index] = True
        drawn.append((mask, truth.numpy().astype(np.uint8)))
    reading = read_answers(answers(maps, maps, maps, maps), 3, SHAPE, drawn)
    assert reading.drawn[0].dice("truth")[0] == 2 * 4 / (4 + 6)
    assert reading.drawn[1].dice("truth")[0] == 1.0
    assert reading.drawn[0].dice("truth")[1] == 1.0  # neither shows the second label
    assert int(reading.doubt[0].argmax()) == 4
    assert abs(sum(reading.doubt[0]) - sum(reading.doubt[2])) < 1e-6


def test_where_a_label_may_not_lie_its_answer_is_background() -> None:
    labels = torch.zeros(SHAPE, dtype=torch.int64)
    labels[1:3, 1:3, 1:3], labels[5, 4, :], labels[4, 0, 0] = 1, 1, 2
    kept = labels.clone()
    kept[5, 4, :] = 0
    drawn = [(np.ones(SHAPE, bool), labels.numpy().astype(np.uint8))]
    maps = softmax_of(labels, 0.8)
    given = answers(maps, maps, maps, maps)
    reading = read_answers(given, 3, SHAPE, drawn, {1: (kept == 1).numpy()})
    assert reading.drawn[0].dice("truth").tolist() == [2 * 8 / (8 + 12), 1.0]
    assert reading.whole.size.tolist() == [8, 1]
    assert np.array_equal(reading.labels, labels.numpy())
    untouched = read_answers(given, 3, SHAPE, drawn)
    assert untouched.drawn[0].dice("truth").tolist() == [1.0, 1.0]
    assert torch.equal(given[-1].members, answers(maps, maps, maps, maps)[-1].members)


def test_shapes_count_volume_extent_and_pieces() -> None:
    labels = np.zeros((10, 10, 10), np.uint8)
    labels[1:4, 2:6, 3], labels[8, 8, 8] = 1, 1
    one, two = shapes(labels, (1.0, 2.0, 3.0), 3)
    assert one == {
        "ml": 13 * 6 / 1000,
        "extent_mm": [8.0, 14.0, 18.0],
        "thickness_mm": round(
            78 / (2 * (24 + 9 + 24) + 2 * (6 + 3 + 2)), 4
        ),  # of 3×8×3 and 1×2×3 mm
        "pieces": 2,
        "largest": 0.9231,
    }
    assert two["pieces"] == 0
    assert two["ml"] == 0.0


@given(st.tuples(*[st.integers(1, 6)] * 3), st.tuples(*[st.floats(0.5, 5.0)] * 3))
def test_the_thickness_of_a_box_is_that_of_its_sides(
    sides: tuple[int, int, int], mm: tuple[float, float, float]
) -> None:
    labels = np.pad(np.ones(sides, np.uint8), 2)
    a, b, c = (n * each for n, each in zip(sides, mm, strict=True))
    found = shapes(labels, mm, 2)[0]["thickness_mm"]
    assert abs(found - a * b * c / (2 * (a * b + b * c + a * c))) < 1e-4


def test_a_tally_of_nothing_has_signs_all_the_same() -> None:
    assert Tally(3).signs()[0]["softmax"] == 0.0
