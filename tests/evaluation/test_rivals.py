"""Rivals of a label map: Dice by label against plain sums, and a map that its image bears out."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from propagation.scenes import texture
from twoslice.evaluation.rivals import carried, dice_by_label
from twoslice.planes import Plane

PLANES = (Plane.AXIAL, Plane.CORONAL)


@given(st.integers(0, 100), st.integers(2, 5))
def test_dice_is_that_of_every_label_by_itself(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, classes, (2, 5, 4, 3)).astype(np.uint8)
    one[one == classes - 1] = 0  # a label that only one map shows
    for value, found in enumerate(dice_by_label(one, other, classes), start=1):
        a, b = one == value, other == value
        expected = 2 * (a & b).sum() / max(1, a.sum() + b.sum())
        assert abs(found - expected) < 1e-5


def ball(middle: tuple[float, float, float], radius: float) -> np.ndarray:
    place = np.indices((40, 40, 32)) - np.array(middle)[:, None, None, None]
    return (np.sqrt((place**2).sum(axis=0)) < radius).astype(np.uint8)


def test_a_map_that_follows_the_image_comes_back_better_than_one_that_does_not() -> None:
    truth = ball((20, 20, 16), 10)
    image = (2.0 * ndimage.gaussian_filter(truth.astype(float), 0.7))[None]
    image = (image + 0.2 * texture(truth.shape)).astype(np.float32)
    settings = {"classes": 2, "spacing": (1.0, 1.0, 1.0), "planes": PLANES}
    (sound,) = carried(image, truth, **settings)
    jagged = truth.copy()
    jagged[:, :, 20:] = np.roll(truth, 7, axis=0)[:, :, 20:]  # half of it lies beside the object
    jagged[:, 24:] = np.roll(jagged, 6, axis=2)[:, 24:]
    (wrong,) = carried(image, jagged, **settings)
    assert sound > 0.9
    assert wrong < sound - 0.1


def test_an_empty_map_has_nothing_to_carry() -> None:
    image = texture((12, 12, 12))[None]
    empty = np.zeros((12, 12, 12), np.uint8)
    assert carried(image, empty, classes=3, spacing=(1.0, 1.0, 1.0), planes=PLANES) == [0.0, 0.0]
