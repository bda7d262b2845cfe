"""Entropy, Monte-Carlo passes, slice weights and the curve's Dice."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from twoslice.objectives.agreement import hard_dice
from twoslice.objectives.uncertainty import entropy, monte_carlo_probabilities, softmax_entropy
from twoslice.objectives.weights import NEVER, slice_weight


def test_entropy_agrees_with_scipy() -> None:
    p = torch.rand(2, 4, 3, 3, 2, dtype=torch.double).softmax(dim=1)
    torch.testing.assert_close(entropy(p), torch.from_numpy(stats.entropy(p.numpy(), axis=1)))


def test_entropy_is_zero_for_certainty_and_ln_c_for_none() -> None:
    certain = torch.zeros(1, 3, 1, 1, 1)
    certain[:, 1] = 1.0
    assert float(entropy(certain)) == 0.0
    assert float(softmax_entropy(torch.zeros(1, 3, 1, 1, 1))) == pytest.approx(math.log(3))


def test_a_network_without_noise_gives_its_own_softmax_in_any_number_of_passes() -> None:
    scores = torch.randn(2, 3, 4, 4, 2)
    deaf = lambda x: scores.repeat(x.shape[0] // 2, 1, 1, 1, 1)  # noqa: E731
    for passes in (1, 3, 8):
        mean = monte_carlo_probabilities(deaf, torch.zeros(2, 1, 4, 4, 2), passes=passes)
        torch.testing.assert_close(mean, scores.softmax(dim=1))


def test_every_pass_sees_the_image_with_clipped_noise_of_its_own() -> None:
    torch.manual_seed(0)
    seen: list[torch.Tensor] = []

    def network(x: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return torch.cat([x, -x], dim=1)

    image = torch.full((1, 1, 20, 20, 20), 5.0)
    monte_carlo_probabilities(network, image, passes=8)
    noise = torch.cat(seen) - image
    assert noise.shape[0] == 8
    assert float(noise.abs().max()) <= 0.2 + 1e-5
    # N(0, 0.1²) clipped at two deviations has a deviation of 0.0958.
    assert float(noise.std()) == pytest.approx(0.0958, abs=1e-3)
    assert len({tuple(passing.flatten()[:5].tolist()) for passing in noise}) == 8


def test_slice_weight_at_every_decay() -> None:
    distance = torch.tensor([[[[0, 1, 2, 30, NEVER]]]])
    weights = {decay: slice_weight(distance, decay).flatten().tolist() for decay in (1.0, 0.5, 0.0)}
    assert weights[1.0] == [1, 1, 1, 1, 0]
    assert weights[0.5] == pytest.approx([1, 0.5, 0.25, 0.5**30, 0])
    assert weights[0.0] == [1, 0, 0, 0, 0]


def test_hard_dice_counts_only_where_it_is_told() -> None:
    rng = np.random.default_rng(0)
    label = torch.from_numpy(rng.integers(0, 3, (1, 6, 6, 6)))
    predicted = torch.from_numpy(rng.integers(0, 3, (1, 6, 6, 6)))
    where = torch.from_numpy(rng.random((1, 6, 6, 6)) < 0.3)
    logits = torch.nn.functional.one_hot(predicted, 3).movedim(-1, 1).float()
    p, y = predicted.numpy()[where.numpy()], label.numpy()[where.numpy()]
    each = [2 * np.sum((p == c) & (y == c)) / (np.sum(p == c) + np.sum(y == c)) for c in (1, 2)]
    assert hard_dice(logits, label, where) == pytest.approx(np.mean(each))
    assert math.isnan(hard_dice(logits, label, torch.zeros_like(where)))
