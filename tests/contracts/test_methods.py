"""What every method must obey. A new line in METHODS is covered here without a new test."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from methods.toys import PATCH, batch, build
from training import tiny
from twoslice.inference.volume import predict_volume
from twoslice.io.volume import Volume
from twoslice.methods.base import View
from twoslice.methods.registry import METHODS
from twoslice.objectives.weights import NEVER
from twoslice.progress import Silent
from twoslice.settings import Settings
from twoslice.training.checkpoints import load_checkpoint
from twoslice.training.loop import Trainer, train
from twoslice.training.planner import make_plan
from twoslice.training.recipes import RECIPES
from twoslice.training.run import Run

UNLABELED = [name for name, kind in METHODS.items() if kind.learns_from_unlabeled(Settings())]


@pytest.mark.parametrize("method", UNLABELED)
def test_the_unlabelled_loss_reaches_every_trained_network(method: str) -> None:
    """With no label at all, what is left of the gradient comes from the unlabelled patches."""
    built = build(method)
    blank = batch()
    views = tuple(View(v.label, torch.full_like(v.distance, NEVER)) for v in blank.views)
    built.losses(blank._replace(views=views), 0.9).total.backward()
    for network in built.networks:
        assert any(
            p.grad is not None and float(p.grad.abs().sum()) > 0 for p in network.parameters()
        )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("progress", [0.0, 0.5, 0.95])
def test_labels_under_zero_weight_cannot_change_the_loss(method: str, progress: float) -> None:
    one = batch()
    ignored = torch.rand(one.views[0].label.shape) < 0.5
    known = [View(v.label, v.distance.masked_fill(ignored, NEVER)) for v in one.views]
    other = [View((v.label + 1) % 3, v.distance) for v in known]
    mixed = [View(torch.where(ignored, o.label, v.label), v.distance)
             for v, o in zip(known, other, strict=True)]  # fmt: skip
    built = build(method)
    torch.manual_seed(5)
    first = built.losses(one._replace(views=tuple(known)), progress).total
    torch.manual_seed(5)
    second = built.losses(one._replace(views=tuple(mixed)), progress).total
    assert torch.equal(first, second)
    torch.manual_seed(5)
    changed = built.losses(one._replace(views=tuple(other)), progress).total
    assert not torch.equal(first, changed)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("kind", ["unet", "vnet"])
def test_non_cubic_patches_and_several_classes_work(method: str, classes: int, kind: str) -> None:
    built = build(method, classes=classes, kind=kind)
    given = batch(classes)
    losses = built.losses(given, 0.3)
    assert torch.isfinite(losses.total)
    losses.total.backward()
    predicted = built.eval().probabilities(given.labeled)
    assert predicted.shape == (1, classes, *PATCH)
    torch.testing.assert_close(predicted.sum(dim=1), torch.ones(1, *PATCH))


@pytest.mark.parametrize("method", METHODS)
def test_every_trained_network_gets_a_gradient(method: str) -> None:
    built = build(method)
    built.losses(batch(), 0.5).total.backward()
    assert len(built.networks) == built.trained
    for network in built.networks:
        assert all(p.grad is not None for p in network.parameters())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_learning_rate_moves(method: str, recipe: str, tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    settings = tiny.settings(method, recipe=recipe)
    run = Run.create(tmp_path / "run", settings, make_plan(dataset, settings), dataset)
    trainer = Trainer(run, dataset, Silent())
    seen = []
    for step in (1, 3):
        trainer.step = step
        trainer.train_step()
        seen.append([group["lr"] for group in trainer.optimizer.param_groups])
    assert len(seen[0]) == METHODS[method].trained
    assert all(first > last for first, last in zip(*seen, strict=True))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    method: str, recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    settings = tiny.settings(method, recipe=recipe)
    whole = train(dataset, tmp_path / "whole", settings)

    with monkeypatch.context() as patched:
        step, calls = Trainer.train_step, [0]

        def dies_at_the_fourth(self: Trainer) -> object:
            calls[0] += 1
            if calls[0] == 4:
                raise RuntimeError("killed")
            return step(self)

        patched.setattr(Trainer, "train_step", dies_at_the_fourth)
        with pytest.raises(RuntimeError, match="killed"):
            train(dataset, tmp_path / "parts", settings)
    assert Run.open(tmp_path / "parts").step == 2
    parts = train(dataset, tmp_path / "parts", settings, resume=True)

    one, two = load_checkpoint(whole.latest), load_checkpoint(parts.latest)
    assert one.step == two.step == 4
    assert one.weights.keys() == two.weights.keys()
    for name in one.weights:
        assert torch.equal(one.weights[name], two.weights[name]), name
    for name in one.averaged or {}:
        assert two.averaged is not None
        assert torch.equal(one.averaged[name], two.averaged[name]), name  # type: ignore[index]
    assert one.optimizer["param_groups"] == two.optimizer["param_groups"]
    for index, entry in one.optimizer["state"].items():
        other = two.optimizer["state"][index]
        assert all(torch.equal(entry[name], other[name]) for name in entry)
    rows = [(run.folder / "metrics.csv").read_text().splitlines() for run in (whole, parts)]
    assert [len(lines) for lines in rows] == [2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_the_balls_from_two_slices(method: str, tmp_path: Path) -> None:
    """On a scan that it has not seen; the first steps leave the mean Dice below 0.2."""
    dataset = tiny.make_dataset(tmp_path / "data", cases=6)
    settings = tiny.settings(method, iterations=150, setting="sparse", checkpoint_every=150)
    run = train(dataset, tmp_path / "run", settings)
    image, truth = tiny.scan(77)
    labels, _ = predict_volume(run, Volume(image[None], dataset.read_grid("tiny_0")))
    scores = []
    for value in (1, 2):
        found, there = labels == value, truth == value
        scores.append(2 * (found & there).sum() / (found.sum() + there.sum()))
    assert sum(scores) / 2 > 0.5
