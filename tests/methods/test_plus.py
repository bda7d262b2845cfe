"""Plus: the fused view leads, doubt lowers a voxel's say, boxes travel with all that is known."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from methods.toys import batch, build, settings_of
from training import tiny
from twoslice.methods.base import View
from twoslice.methods.plus import Lesson, Plus, exchange_boxes
from twoslice.methods.registry import find_method
from twoslice.objectives.weights import NEVER
from twoslice.propagation.dataset import propagate_dataset
from twoslice.training.planner import make_plan
from twoslice.training.sources import read_labeled_scan

SHAPE = (9, 8, 7)


def plus(**options: object) -> Plus:
    built = build("plus", plus=options)
    assert isinstance(built, Plus)
    return built


def test_disputed_voxels_count_less_unless_they_were_drawn() -> None:
    given = batch(views=3)
    label = torch.zeros_like(given.views[0].label)
    distance = torch.full_like(label, 2)
    distance[0, 0], distance[0, 1] = 0, NEVER
    other = label.clone()
    other[0, :, 3] = 1
    unknown = torch.full_like(distance, 1)
    unknown[0, :, :, 0] = NEVER
    views = (View(label, distance), View(other, unknown), View(label, distance))
    weight = plus(decay=0.5, decay_end=0.5, doubt=0.1).label_weight(given._replace(views=views), 0)
    expected = torch.full_like(weight, 0.25)
    expected[0, :, 3, 1:] = 0.025  # but not where the plane that says otherwise knows nothing
    expected[0, 0], expected[0, 1] = 1.0, 0.0
    torch.testing.assert_close(weight, expected)


def test_a_teacher_without_an_opinion_has_no_say() -> None:
    method = plus()
    with torch.no_grad():
        for weight in method.teacher.network.parameters():  # type: ignore[union-attr]
            weight.zero_()
    _, certainty = method.teach(batch().unlabeled)
    torch.testing.assert_close(certainty, torch.zeros_like(certainty))


@pytest.mark.parametrize("labeled", [1, 2])
def test_exchanged_boxes_carry_labels_and_weights_and_lose_nothing(labeled: int) -> None:
    """Every voxel is numbered; image, label and weight of one number must stay together."""
    count = 2 * labeled
    numbers = torch.arange(count * 9 * 8 * 7).reshape(count, *SHAPE)
    lesson = Lesson(numbers[:, None].float(), numbers, 2.0 * numbers, numbers % 2 == 0)
    torch.manual_seed(0)
    mixed = exchange_boxes(lesson, labeled)
    assert torch.equal(mixed.images[:, 0].long(), mixed.labels)
    assert torch.equal(mixed.weights, 2.0 * mixed.labels)
    assert torch.equal(mixed.drawn, mixed.labels % 2 == 0)
    assert torch.equal(mixed.labels.flatten().sort().values, numbers.flatten())
    for one in range(labeled):
        moved = mixed.labels[one] != numbers[one]
        assert 0.02 < float(moved.float().mean()) < 0.6
        assert torch.equal(mixed.labels[one][moved], numbers[labeled + one][moved])
        assert torch.equal(moved, mixed.labels[labeled + one] != numbers[labeled + one])
    assert torch.equal(lesson.labels, numbers)


def test_without_weight_the_unlabelled_patches_teach_nothing() -> None:
    method = plus(weight=0.0, exchange=0.0)
    given = batch()
    other = given._replace(unlabeled=given.unlabeled + 1)
    assert torch.equal(method.losses(given, 1.0).total, method.losses(other, 1.0).total)


def test_it_learns_from_the_fused_view_first(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    propagate_dataset(dataset)
    settings = settings_of("plus")
    views = {
        name: read_labeled_scan(
            dataset, dataset.labeled[0], make_plan(dataset, settings), kind, settings
        ).views
        for name, kind in (("plus", Plus), ("desco", type(build("desco"))))
    }
    assert len(views["plus"]) == len(views["desco"]) + 2  # a label and a distance more
    assert (views["plus"][2:] == views["desco"]).all()


def test_batches_are_as_the_method_has_them_unless_settings_say_otherwise() -> None:
    assert Plus.batch_sizes(settings_of("plus")) == (2, 2)
    assert Plus.batch_sizes(settings_of("plus", training={"unlabeled_per_batch": 0})) == (2, 0)
    assert Plus.batch_sizes(settings_of("plus", training={"labeled_per_batch": 3})) == (3, 2)
    assert find_method("desco").batch_sizes(settings_of("desco")) == (1, 1)
    assert find_method("supervised").batch_sizes(settings_of("supervised")) == (1, 0)
