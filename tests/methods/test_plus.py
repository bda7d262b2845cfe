"""Plus: the fused view leads, doubt lowers a voxel's say, boxes travel with all that is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given as cases
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import ndimage

from methods.toys import batch, build, settings_of
from training import tiny
from twoslice.methods.base import Batch, View
from twoslice.methods.plus import (
    Lesson,
    Plus,
    exchange_boxes,
    own_part,
    spread,
    surely_empty,
    without_targets,
)
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


def test_each_network_is_taught_by_the_other_and_by_its_own_patches() -> None:
    """Weights of one teacher move the other network's lesson, and that of no other."""
    given = batch(unlabeled=2)
    given = given._replace(
        labeled=given.labeled.repeat(2, 1, 1, 1, 1),
        views=tuple(View(*(each.repeat(2, 1, 1, 1) for each in view)) for view in given.views),
    )
    assert len(plus().predicting) == 2
    found = []
    for moved in (None, 0, 1):
        fresh = plus(exchange=0.0)
        if moved is not None:
            with torch.no_grad():
                for weight in fresh.teachers[moved].parameters():
                    weight.add_(0.1)
        torch.manual_seed(1)
        fresh.losses(given, 1.0).total.backward()  # type: ignore[no-untyped-call]
        found.append([_gradient(network) for network in fresh.networks])
    untouched, first, second = found
    assert torch.equal(first[0], untouched[0])
    assert not torch.equal(first[1], untouched[1])
    assert torch.equal(second[1], untouched[1])
    assert not torch.equal(second[0], untouched[0])


@pytest.mark.parametrize(
    ("sizes", "index", "expected"),
    [
        ((2, 2), 0, "ac"),
        ((2, 2), 1, "bd"),
        ((4, 2), 1, "bdf"),
        ((1, 0), 1, "a"),
        ((1, 3), 0, "abd"),
        ((3, 1), 1, "bd"),
    ],
)
def test_networks_share_the_patches_of_a_batch(
    sizes: tuple[int, int], index: int, expected: str
) -> None:
    labeled, unlabeled = sizes
    numbers = torch.arange(float(labeled + unlabeled)).view(-1, 1, 1, 1, 1)
    view = View(numbers[:labeled, 0].long(), 10 + numbers[:labeled, 0].long())
    whole = Batch(numbers[:labeled], numbers[labeled:], (view,), tuple("abcdef"[: sum(sizes)]))
    mine = own_part(whole, index)
    assert "".join(mine.cases) == expected
    assert mine.images.flatten().tolist() == ["abcdef".index(case) for case in expected]
    assert torch.equal(mine.views[0].label.flatten(), mine.labeled.flatten().long())
    assert torch.equal(mine.views[0].distance, 10 + mine.views[0].label)


def _gradient(network: torch.nn.Module) -> torch.Tensor:
    return torch.cat(
        [each.grad.flatten() for each in network.parameters() if each.grad is not None]
    )


def test_where_the_labels_say_all_the_teacher_says_nothing() -> None:
    given = batch(views=1, unlabeled=0)
    known = View(given.views[0].label, torch.zeros_like(given.views[0].distance))
    terms = plus().losses(given._replace(views=(known,)), 1.0).terms
    assert terms["teaching"].item() == 0.0
    assert terms["segmentation"].item() > 0.0


def test_teachers_are_sharper_at_a_lower_temperature_and_carry_no_gradient() -> None:
    image = batch().unlabeled
    soft, sharp = plus(temperature=1.0), plus(temperature=0.25)
    torch.manual_seed(2)
    one = soft.teach(image, 0)
    torch.manual_seed(2)
    two = sharp.teach(image, 0)
    assert not two.requires_grad
    torch.testing.assert_close(two.sum(dim=1), torch.ones_like(two[:, 0]))
    assert torch.equal(one.argmax(dim=1), two.argmax(dim=1))
    assert (two.max(dim=1).values >= one.max(dim=1).values - 1e-6).all()
    assert float(two.max(dim=1).values.mean()) > float(one.max(dim=1).values.mean())


def test_empty_is_what_lies_far_from_targets_by_a_distance_transform_or_beyond_the_scan() -> None:
    """By a reference: the chessboard distance to the nearest target is more than eight."""
    label = torch.zeros(2, 40, 30, 25, dtype=torch.int64)
    label[0, 3:5, 20, 10], label[0, 30, 4, 22:] = 1, 2
    distance = torch.ones_like(label)
    distance[0, 35:] = NEVER
    found = surely_empty(View(label, distance))
    away = ndimage.distance_transform_cdt(label[0].numpy() == 0, metric="chessboard")
    expected = torch.from_numpy(away > 8) | (distance[0] == NEVER)
    assert 0 < int(expected.sum()) < expected.numel()
    assert torch.equal(found[0], expected)
    assert found[1].all()  # no target in the patch


@cases(
    marked=arrays(bool, array_shapes(min_dims=3, max_dims=3, max_side=12)),
    axis=st.integers(0, 2),
    reach=st.integers(0, 14),
)
def test_spreading_is_dilation_by_a_line(marked: np.ndarray, axis: int, reach: int) -> None:
    line = [1, 1, 1]
    line[axis] = 2 * reach + 1
    expected = ndimage.binary_dilation(marked, np.ones(line))
    np.testing.assert_array_equal(spread(torch.from_numpy(marked), axis, reach), expected)


def test_a_teacher_may_find_no_target_where_there_is_surely_none() -> None:
    taught = torch.rand(2, 3, 4, 4, 4).softmax(dim=1)
    empty = torch.rand(2, 4, 4, 4) < 0.5
    held = without_targets(taught, empty)
    assert (held.movedim(1, -1)[empty] == torch.tensor([1.0, 0.0, 0.0])).all()
    assert torch.equal(held.movedim(1, -1)[~empty], taught.movedim(1, -1)[~empty])


def test_teaching_draws_far_voxels_of_labelled_scans_to_background() -> None:
    """Teachers that see a target everywhere are obeyed in unlabelled patches alone."""
    given = batch(views=1)
    label, distance = given.views[0]
    nowhere = View(torch.zeros_like(label), torch.full_like(distance, 5))
    method = plus(exchange=0.0, decay=0.0, decay_end=0.0, edges=0.0)
    seen = []
    method.teach = lambda images, index: _one_everywhere(images)  # type: ignore[method-assign]
    for views in ((nowhere,), (View(torch.ones_like(nowhere.label), nowhere.distance),)):
        torch.manual_seed(0)
        seen.append(method.losses(given._replace(views=views), 1.0).terms["teaching"].item())
    assert seen[0] != pytest.approx(seen[1])
    empty = method.known(given._replace(views=(nowhere,)), 1.0)[3]
    assert empty[: len(given.labeled)].all()
    assert not empty[len(given.labeled) :].any()


def test_beyond_the_scan_there_is_no_target_unless_only_slices_are_known() -> None:
    """A patch repeats the scan's border there; without views the same mark is on all not drawn."""
    given = batch(views=1)
    label, distance = torch.ones_like(given.views[0].label), torch.ones_like(given.views[0].label)
    distance[..., -2:] = NEVER
    known = given._replace(views=(View(label, distance),))
    for setting, beyond in (("dense", True), ("full", True), ("sparse", False)):
        method = build("plus", training={"setting": setting})
        assert isinstance(method, Plus)
        empty = method.known(known, 0.5)[3][: len(label)]
        assert bool(empty[..., -2:].all()) is beyond
        assert not empty[..., :-2].any()


def _one_everywhere(images: torch.Tensor) -> torch.Tensor:
    taught = torch.zeros(len(images), 2, *images.shape[2:])
    taught[:, 1] = 1.0
    return taught


@pytest.mark.parametrize("labeled", [1, 2])
def test_exchanged_boxes_carry_labels_and_weights_and_lose_nothing(labeled: int) -> None:
    """Every voxel is numbered; image, label and weight of one number must stay together."""
    count = 2 * labeled
    numbers = torch.arange(count * 9 * 8 * 7).reshape(count, *SHAPE)
    image, taught = numbers[:, None].float(), torch.stack([numbers, -numbers], dim=1)
    lesson = Lesson(image, numbers, 2.0 * numbers, numbers % 2 == 0, taught)
    torch.manual_seed(0)
    mixed = exchange_boxes(lesson, labeled)
    assert torch.equal(mixed.images[:, 0].long(), mixed.labels)
    assert torch.equal(mixed.weights, 2.0 * mixed.labels)
    assert torch.equal(mixed.taught[:, 1], -mixed.labels)
    assert torch.equal(mixed.drawn, mixed.labels % 2 == 0)
    assert torch.equal(mixed.labels.flatten().sort().values, numbers.flatten())
    for one in range(labeled):
        moved = mixed.labels[one] != numbers[one]
        assert 0.02 < float(moved.float().mean()) < 0.6
        assert torch.equal(mixed.labels[one][moved], numbers[labeled + one][moved])
        assert torch.equal(moved, mixed.labels[labeled + one] != numbers[labeled + one])
    assert torch.equal(lesson.labels, numbers)


def test_without_weight_the_unlabelled_patches_teach_nothing() -> None:
    method = plus(weight=0.0, exchange=0.0, edges=0.0)
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
    assert Plus.patches_each(settings_of("plus")) == 2
    assert find_method("cps").patches_each(settings_of("cps")) == 2
    assert Plus.batch_sizes(settings_of("plus", training={"unlabeled_per_batch": 0})) == (2, 0)
    assert Plus.batch_sizes(settings_of("plus", training={"labeled_per_batch": 3})) == (3, 2)
    assert find_method("desco").batch_sizes(settings_of("desco")) == (1, 1)
    assert find_method("supervised").batch_sizes(settings_of("supervised")) == (1, 0)
