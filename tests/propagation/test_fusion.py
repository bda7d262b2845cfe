"""The fused view: weights, expected Dice, disagreement, against plain arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from twoslice.planes import Plane
from twoslice.propagation.fusion import Carried, classify, disagreement, fuse

SHAPE = (6, 7, 8)


def carried(plane: Plane, volume: np.ndarray, trust: float = 1.0, decay: float = 0.9) -> Carried:
    """A plane whose log odds are `volume` (classes - 1, I, J, K), drawn at its slice 0."""
    stacked = np.moveaxis(np.moveaxis(volume, 1 + plane.axis, 0), 1, 1)
    odds = torch.from_numpy(np.ascontiguousarray(stacked)).half()
    away = torch.arange(volume.shape[1 + plane.axis])
    return Carried(plane, odds, away, decay, torch.full((volume.shape[0],), trust))


def noise(seed: int, classes: int = 3) -> np.ndarray:
    values = np.random.default_rng(seed).normal(0, 3, (classes - 1, *SHAPE))
    return values.astype(np.float16).astype(np.float32)


def fused(planes: list[Carried]) -> tuple[np.ndarray, tuple[float | None, ...]]:
    slices = torch.zeros(len(planes[0].odds), 1, *planes[0].odds.shape[2:])
    radii = [6.0] * planes[0].odds.shape[1]
    result = fuse(planes, slices, appearance=None, radii=radii, spacing=(1.0, 1.0, 1.0))
    return result.label, result.expected


@pytest.mark.parametrize("first", list(Plane))
def test_each_voxel_gets_the_weighted_mean_of_the_planes(first: Plane) -> None:
    second = Plane.AXIAL if first != Plane.AXIAL else Plane.CORONAL
    one, other = noise(0), noise(1)
    label, _ = fused([carried(first, one, trust=0.5), carried(second, other, decay=0.8)])
    place = np.indices(SHAPE)
    weights = 0.5 * 0.9 ** place[first.axis], 0.8 ** place[second.axis]
    mean = (weights[0] * one + weights[1] * other) / (weights[0] + weights[1])
    expected = np.where(mean.max(0) > 0, mean.argmax(0) + 1, 0)
    assert (label == expected).mean() > 0.995  # float16 may turn an even voxel


def test_the_expected_dice_is_that_of_the_probabilities() -> None:
    odds = noise(2, classes=2)
    label, expected = fused([carried(Plane.AXIAL, odds), carried(Plane.CORONAL, odds)])
    chance = 1 / (1 + np.exp(-odds[0]))
    chance[chance < 0.02] = 0
    assert expected[0] == pytest.approx(
        2 * chance[label == 1].sum() / (chance.sum() + label.sum()), abs=1e-3
    )


def test_planes_that_contradict_each_other_are_expected_to_be_worse() -> None:
    odds = noise(3)
    _, alike = fused([carried(Plane.AXIAL, odds), carried(Plane.CORONAL, odds)])
    _, apart = fused([carried(Plane.AXIAL, odds), carried(Plane.CORONAL, noise(4))])
    assert all(a is not None and b is not None and a > b for a, b in zip(alike, apart, strict=True))


def test_an_absent_class_has_no_expected_dice() -> None:
    odds = np.full((2, *SHAPE), -6.9, np.float32)
    odds[0, 2:4, 2:4, 2:4] = 6.9
    label, expected = fused([carried(Plane.AXIAL, odds), carried(Plane.CORONAL, odds)])
    assert label.sum() == 8
    assert expected[0] == pytest.approx(1, abs=0.01)
    assert expected[1] is None


def test_disagreement_is_half_the_difference_of_probabilities() -> None:
    one, other = noise(5), noise(6)
    found = disagreement(carried(Plane.AXIAL, one), carried(Plane.CORONAL, other))

    def soft(odds: np.ndarray) -> np.ndarray:
        full = np.exp(np.concatenate([np.zeros_like(odds[:1]), odds]))
        return full / full.sum(0)

    expected = 50 * np.abs(soft(one) - soft(other)).sum(0)
    np.testing.assert_allclose(found, expected, atol=0.6)


def test_classify_takes_background_where_no_class_is_likelier() -> None:
    odds = torch.tensor([[-1.0, 2.0, 0.5], [-2.0, 1.0, 0.7]]).view(1, 2, 1, 3)
    assert classify(odds).flatten().tolist() == [0, 1, 2]
