"""Eq. 3 to 6 against closed forms and finite differences."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from twoslice.objectives.losses import (
    cross_supervision,
    segmentation_loss,
    soft_cross_entropy,
    soft_dice,
    teaching_loss,
    weighted_cross_entropy,
    weighted_dice,
)

SHAPE = (2, 3, 4, 5)


def example(classes: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    b, i, j, k = SHAPE
    logits = torch.randn(b, classes, i, j, k, generator=generator, dtype=torch.double)
    label = torch.randint(0, classes, SHAPE, generator=generator)
    weight = torch.rand(SHAPE, generator=generator, dtype=torch.double)
    return logits, label, weight


def test_cross_entropy_of_two_voxels_by_hand() -> None:
    logits = torch.zeros(1, 2, 1, 1, 2)
    logits[0, 1, 0, 0, 0] = math.log(3.0)  # p = 3/4 for the target there, 1/2 in the other
    label = torch.tensor([[[[1, 0]]]])
    weight = torch.tensor([[[[1.0, 0.5]]]])
    expected = (1.0 * -math.log(0.75) + 0.5 * -math.log(0.5)) / 1.5
    assert float(weighted_cross_entropy(logits, label, weight)) == pytest.approx(expected)


def test_dice_of_two_voxels_by_hand() -> None:
    logits = torch.zeros(1, 2, 1, 1, 2)
    logits[0, 1, 0, 0, 0] = math.log(3.0)
    label = torch.tensor([[[[1, 0]]]])
    weight = torch.tensor([[[[1.0, 0.5]]]])
    expected = 1 - 2 * (1.0 * 0.75) / (1.0 * (0.75**2 + 1) + 0.5 * 0.5**2)
    assert float(weighted_dice(logits, label, weight)) == pytest.approx(expected)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_with_equal_weights_cross_entropy_is_pytorchs(classes: int) -> None:
    logits, label, _ = example(classes)
    ours = weighted_cross_entropy(logits, label, torch.full(SHAPE, 0.3, dtype=torch.double))
    torch.testing.assert_close(ours, F.cross_entropy(logits, label))


@pytest.mark.parametrize("classes", [2, 4])
def test_a_perfect_prediction_costs_nothing(classes: int) -> None:
    _, label, weight = example(classes)
    logits = 60.0 * F.one_hot(label, classes).movedim(-1, 1).double()
    assert float(segmentation_loss(logits, label, weight)) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("loss", [weighted_cross_entropy, weighted_dice, segmentation_loss])
def test_gradients_agree_with_finite_differences(loss, classes: int) -> None:  # type: ignore[no-untyped-def]
    logits, label, weight = example(classes)
    weight = weight * (weight > 0.4)
    small = logits[:1, :, :2, :2, :2].clone().requires_grad_()
    arguments = (label[:1, :2, :2, :2], weight[:1, :2, :2, :2])
    assert torch.autograd.gradcheck(lambda x: loss(x, *arguments), (small,))


@given(st.integers(2, 5), st.integers(0, 100))
def test_labels_under_zero_weight_cannot_change_a_loss(classes: int, seed: int) -> None:
    logits, label, weight = example(classes, seed)
    weight = weight * (weight > 0.5)
    other = torch.where(weight > 0, label, 255)  # not even a class: an ignored value
    for loss in (weighted_cross_entropy, weighted_dice):
        assert torch.equal(loss(logits, label, weight), loss(logits, other, weight))


@pytest.mark.parametrize("loss", [weighted_cross_entropy, weighted_dice, segmentation_loss])
def test_without_any_weight_loss_and_gradient_are_zero(loss) -> None:  # type: ignore[no-untyped-def]
    logits, label, _ = example(3)
    logits = logits.float().requires_grad_()
    value = loss(logits, label, torch.zeros(SHAPE))
    value.backward()
    assert float(value.detach()) == 0.0
    assert logits.grad is not None
    assert torch.equal(logits.grad, torch.zeros_like(logits))


@given(st.integers(2, 5), st.integers(0, 100))
def test_soft_cross_entropy_to_certain_probabilities_is_that_to_labels(
    classes: int, seed: int
) -> None:
    logits, label, weight = example(classes, seed)
    certain = F.one_hot(label, classes).movedim(-1, 1).double()
    expected = weighted_cross_entropy(logits, label, weight)
    torch.testing.assert_close(soft_cross_entropy(logits, certain, weight), expected)


def test_soft_cross_entropy_pulls_to_the_probabilities_by_their_weight() -> None:
    logits, _, weight = example(3)
    taught = example(3, seed=5)[0].softmax(dim=1)
    logits.requires_grad_()
    soft_cross_entropy(logits, taught, weight).backward()
    away = logits.detach().softmax(dim=1) - taught  # the gradient in closed form
    torch.testing.assert_close(logits.grad, weight[:, None] * away / weight.sum())
    nowhere = soft_cross_entropy(logits, taught, torch.zeros_like(weight))
    assert nowhere.item() == 0.0


@given(st.integers(2, 4), st.integers(0, 100))
def test_teaching_by_certain_probabilities_is_teaching_by_labels(classes: int, seed: int) -> None:
    logits, label, weight = example(classes, seed)
    label[0, 0, 0, :classes] = torch.arange(classes)  # every class is there
    certain = F.one_hot(label, classes).movedim(-1, 1).double()
    torch.testing.assert_close(
        soft_dice(logits, certain, weight), weighted_dice(logits, label, weight)
    )
    torch.testing.assert_close(
        teaching_loss(logits, certain, weight), segmentation_loss(logits, label, weight)
    )
    for share in (0.0, 0.25, 1.0):
        torch.testing.assert_close(
            teaching_loss(logits, certain, weight, dice=share),
            (1 - share) * weighted_cross_entropy(logits, label, weight)
            + share * weighted_dice(logits, label, weight),
        )


def test_a_class_that_the_teacher_finds_nowhere_is_not_taught_away_by_dice() -> None:
    logits, label, weight = example(3)
    logits.requires_grad_()
    certain = F.one_hot(label.clamp_max(1), 3).movedim(-1, 1).double()
    doubtful = torch.stack([0.6 * certain[:, 0], certain[:, 1], 0.4 * certain[:, 0]], dim=1)
    soft_dice(logits, doubtful, weight).backward()
    p = logits.detach().softmax(dim=1).requires_grad_()
    mine, said = p[:, 1], certain[:, 1]  # what is left: the Dice of the class that was found
    (1 - 2 * (weight * mine * said).sum() / (weight * (mine**2 + said**2)).sum()).backward()
    assert p.grad is not None
    through = p.detach() * (p.grad - (p.grad * p.detach()).sum(dim=1, keepdim=True))
    torch.testing.assert_close(logits.grad, through / 2)


def test_the_mean_of_cross_entropy_and_dice() -> None:
    arguments = example(3)
    expected = (weighted_cross_entropy(*arguments) + weighted_dice(*arguments)) / 2
    torch.testing.assert_close(segmentation_loss(*arguments), expected)


def test_cross_supervision_is_the_mean_over_the_certain_voxels() -> None:
    logits, pseudo, weight = example(3)
    certain = weight > 0.7
    expected = F.cross_entropy(logits.movedim(1, -1)[certain], pseudo[certain])
    torch.testing.assert_close(cross_supervision(logits, pseudo, certain), expected)
    nowhere = torch.zeros_like(certain)
    assert float(cross_supervision(logits, pseudo, nowhere)) == 0.0
