"""The intensity scale, and how classes look."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from propagation.scenes import texture, two_blobs
from twoslice.errors import ScanError
from twoslice.propagation.intensity import HIGH, LOW, Appearance, normalize


def test_the_bounds_are_the_percentiles() -> None:
    image = np.exp(texture((2, 30, 25, 20))) * 1000
    scaled = normalize(image)
    for channel, values in enumerate(image):
        low, high = np.percentile(values, [100 * LOW, 100 * HIGH])
        expected = (np.clip(values, low, high) - low) / (high - low)
        np.testing.assert_allclose(scaled[channel], expected, atol=2e-3)


def test_neither_flips_nor_scale_change_the_result() -> None:
    image = texture((1, 20, 18, 16))
    scaled = normalize(image)
    np.testing.assert_array_equal(normalize(image[:, ::-1])[:, ::-1], scaled)
    np.testing.assert_allclose(normalize(image * 7 + 40), scaled, atol=1e-4)


@pytest.mark.parametrize(
    ("image", "word"),
    [(np.full((1, 4, 4, 4), 3.0), "constant"), (np.full((1, 4, 4, 4), np.nan), "not finite")],
)
def test_images_that_cannot_be_registered_are_refused(image: np.ndarray, word: str) -> None:
    with pytest.raises(ScanError, match=word):
        normalize(image.astype(np.float32))


def test_a_few_bright_voxels_on_nothing_still_have_a_scale() -> None:
    image = np.zeros((1, 20, 20, 20), np.float32)
    image[0, 5, 5, 5] = 9
    assert normalize(image).max() == 1


def test_evidence_prefers_the_class_that_looks_so_and_is_even_for_an_unseen_one() -> None:
    image, label = two_blobs()
    scaled = torch.from_numpy(normalize(image))
    drawn = [(scaled[..., 15], torch.from_numpy(np.where(label == 2, 0, label)[..., 15]))]
    appearance = Appearance.seen_on(drawn, classes=3)
    evidence = appearance.evidence(scaled.movedim(-1, 0))[15].numpy()
    inside, outside = label[..., 15] == 1, label[..., 15] == 0
    assert evidence[0][inside].mean() > 1 > 0 > evidence[0][outside].mean()
    assert appearance.log_density[0, 2].std() < 1e-6
