"""The loss of outlines without an edge, against sums over pairs written out one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from twoslice.objectives.edges import OFFSETS, edge_loss


def sharp(label: torch.Tensor, classes: int = 2) -> torch.Tensor:
    """Scores that are all but certain of a label (I, J, K)."""
    hot = torch.nn.functional.one_hot(label, classes).movedim(-1, 0)[None]
    return 50.0 * hot.double()


def test_it_is_the_sum_over_pairs_for_each_target_voxel_and_offset() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 3, 4, 3, 5, dtype=torch.float64)
    images = torch.randn(2, 2, 4, 3, 5, dtype=torch.float64)
    p, image = logits.softmax(1).numpy(), images.numpy()
    summed = 0.0
    for b, *place in itertools.product(range(2), range(4), range(3), range(5)):
        for offset in OFFSETS:
            other = [a + o for a, o in zip(place, offset, strict=True)]
            if all(0 <= a < n for a, n in zip(other, (4, 3, 5), strict=True)):
                here, there = (b, slice(None), *place), (b, slice(None), *other)
                alike = np.exp(-np.mean((image[here] - image[there]) ** 2) / (2 * 0.5**2))
                summed += alike * (1 - (p[here] * p[there]).sum())
    expected = summed / p[:, 1:].sum() / len(OFFSETS)
    assert edge_loss(logits, images, 0.5).item() == pytest.approx(expected)


def test_every_pair_of_neighbours_is_looked_at_once() -> None:
    assert len({max(o, tuple(-a for a in o)) for o in OFFSETS}) == len(OFFSETS)


def test_an_outline_on_the_edge_costs_less_than_one_beside_it() -> None:
    image, label = torch.zeros(1, 1, 8, 8, 8).double(), torch.zeros(8, 8, 8).long()
    image[..., 4:], label[..., 4:] = 2.0, 1
    on_edge = edge_loss(sharp(label), image, 0.3)
    beside = edge_loss(sharp(label.roll(1, -1) * (torch.arange(8) > 0)), image, 0.3)
    assert on_edge.item() < 1e-6
    assert beside.item() > 0.02


def test_thin_patches_and_empty_targets_have_a_finite_gradient() -> None:
    logits = torch.zeros(1, 2, 1, 6, 2, requires_grad=True)
    loss = edge_loss(logits, torch.rand(1, 1, 1, 6, 2), 0.3)
    loss.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert edge_loss(sharp(torch.zeros(4, 4, 4).long()), torch.rand(1, 1, 4, 4, 4), 0.3) == 0
