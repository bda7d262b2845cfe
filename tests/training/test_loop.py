"""The loop: a run folder, stops that say what next, and a tiny scan learned from two slices."""

from __future__ import annotations

import csv
import itertools
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from training import tiny
from twoslice.cli import main
from twoslice.errors import (
    AnnotationError,
    DatasetError,
    OutputError,
    SettingsError,
    TrainingError,
)
from twoslice.inference.volume import predict_volume
from twoslice.io.dataset import Dataset
from twoslice.methods.base import Losses
from twoslice.progress import Silent
from twoslice.settings import load_settings
from twoslice.training import loop, sources
from twoslice.training.checkpoints import list_checkpoints, load_checkpoint
from twoslice.training.journal import read_metrics
from twoslice.training.loop import Trainer, train
from twoslice.training.run import Run


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return tiny.make_dataset(tmp_path / "data")


class Told(Silent):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def test_a_run_folder_holds_settings_plan_curves_and_two_checkpoints(
    dataset: Dataset, tmp_path: Path
) -> None:
    settings = tiny.settings(iterations=12, checkpoint_every=3)
    told = Told()
    run = train(dataset, tmp_path / "run", settings, progress=told)
    assert load_settings(file=run.folder / "settings.yaml") == settings
    assert told.lines == [run.plan.why]
    assert [path.name for path in list_checkpoints(run.checkpoints)] == [
        "step-000009",
        "step-000012",
    ]
    rows = list(csv.DictReader((run.folder / "metrics.csv").read_text().splitlines()))
    assert [row["step"] for row in rows] == ["10", "12"]
    figures = {"loss", "supervised", "cross", "alpha", "trust", "mask_fraction", "dice_drawn"}
    assert figures | {"learning_rate", "seconds"} <= set(rows[0])
    events = EventAccumulator(str(run.folder)).Reload()
    assert [event.step for event in events.Scalars("loss")] == [10, 12]
    reopened = Run.open(tmp_path / "run")
    assert reopened.plan == run.plan
    assert reopened.data.class_names == ("background", "ball", "pebble")


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(
    dataset: Dataset, tmp_path: Path
) -> None:
    def weights(name: str, seed: int) -> torch.Tensor:
        run = train(dataset, tmp_path / name, tiny.settings(seed=seed, iterations=2))
        state = load_checkpoint(run.latest).weights
        return torch.cat([state[key].double().flatten() for key in sorted(state)])

    first = weights("a", 0)
    assert torch.equal(first, weights("b", 0))
    assert not torch.equal(first, weights("c", 1))


def test_a_used_folder_is_refused_and_left_alone(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(OutputError, match=r"already there.*--resume"):
        train(dataset, tmp_path / "mine", tiny.settings())
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_what_a_killed_start_or_save_left_behind_is_no_hindrance(
    dataset: Dataset, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    (out / ".writing-abc").mkdir(parents=True)
    (out / "plan.json").write_text("{}")
    train(dataset, out, tiny.settings(iterations=2))
    half = out / "checkpoints" / ".writing-step-000004-xyz"
    half.mkdir()
    (half / "weights.safetensors").write_bytes(b"half")
    train(dataset, out, resume=True)
    assert not half.exists()


def test_going_on_with_a_run_that_is_not_there_says_that_a_new_one_begins(
    dataset: Dataset, tmp_path: Path
) -> None:
    told = Told()
    train(dataset, tmp_path / "mistyped", tiny.settings(iterations=1), resume=True, progress=told)
    assert any("mistyped: no run is there" in line for line in told.lines)


def test_other_settings_than_the_runs_are_refused_when_resuming(
    dataset: Dataset, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    train(dataset, out, tiny.settings(iterations=2))
    with pytest.raises(SettingsError, match=r"training.iterations is 2 in the run, 6 was asked"):
        train(dataset, out, tiny.settings(iterations=6), resume=True)
    with pytest.raises(SettingsError, match="method is desco in the run, supervised was asked"):
        train(dataset, out, tiny.settings("supervised", iterations=2), resume=True)
    named = load_settings(assignments=["training.seed=9"])
    with pytest.raises(SettingsError, match=r"training.seed is 0 in the run, 9 was asked"):
        train(dataset, out, named, resume=True)
    assert train(dataset, out, tiny.settings(iterations=2), resume=True).step == 2


def test_the_command_resumes_bare_and_refuses_other_settings(
    dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(dataset, tmp_path / "run", tiny.settings(iterations=2))
    command = ["train", str(dataset.root), "--out", str(tmp_path / "run"), "--resume"]
    for more in (["--set", "training.iterations=3"], ["--preset", "paper"], ["--method", "x"]):
        with pytest.raises(SystemExit) as ended:
            main([*command, *more])
        assert ended.value.code == 2
        assert "was asked for" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 0


def test_a_file_in_the_way_of_the_run_is_called_a_file(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("keep")
    with pytest.raises(OutputError, match="notes: is a file"):
        train(dataset, tmp_path / "notes", tiny.settings())
    assert (tmp_path / "notes").read_text() == "keep"


def test_without_any_label_the_line_names_editors_that_draw(tmp_path: Path) -> None:
    bare = tiny.make_dataset(tmp_path / "data", labeled=0)
    with pytest.raises(DatasetError, match=r"Draw two slices.*ITK-SNAP.*docs/guide.md"):
        train(bare, tmp_path / "run", tiny.settings())


def test_a_loss_that_is_no_number_stops_and_names_step_cases_and_checkpoint(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Trainer.train_step

    def spoilt(self: Trainer) -> Losses:
        if self.step == 3:
            with torch.no_grad():
                next(self.method.parameters()).fill_(float("nan"))
        return step(self)

    monkeypatch.setattr(Trainer, "train_step", spoilt)
    with pytest.raises(TrainingError) as caught:
        train(dataset, tmp_path / "run", tiny.settings())
    said = str(caught.value)
    assert "at step 3" in said
    assert "tiny_" in said
    assert str(tmp_path / "run" / "checkpoints" / "step-000002") in said
    kept = load_checkpoint(Run.open(tmp_path / "run").latest)
    assert kept.step == 2
    assert all(torch.isfinite(value).all() for value in kept.weights.values())


def test_ctrl_c_saves_a_whole_step_and_says_how_to_resume(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGINT)  # ignored where the tests run in the background
    step = Trainer.train_step

    def interrupted(self: Trainer) -> Losses:
        if self.step == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self)

    monkeypatch.setattr(Trainer, "train_step", interrupted)
    told = Told()
    with pytest.raises(KeyboardInterrupt):
        train(dataset, tmp_path / "run", tiny.settings(checkpoint_every=100), progress=told)
    assert Run.open(tmp_path / "run").step == 3
    assert "--resume" in told.lines[-1]
    assert signal.getsignal(signal.SIGINT) is before


def test_without_label_views_the_line_says_to_propagate_first(tmp_path: Path) -> None:
    bare = tiny.make_dataset(tmp_path / "data", views=False)
    with pytest.raises(DatasetError, match=r"twoslice propagate .*data' first"):
        train(bare, tmp_path / "run", tiny.settings())
    train(bare, tmp_path / "sparse", tiny.settings("supervised", setting="sparse", iterations=1))


def test_one_drawn_plane_is_refused_by_a_method_of_two_networks(
    dataset: Dataset, tmp_path: Path
) -> None:
    for case in dataset.labeled:
        record = dataset.root / "propagated" / f"{case}.json"
        record.write_text('{"slices": [{"plane": "axial", "index": 7}], "views": ["axial"]}')
    with pytest.raises(AnnotationError, match=r"case tiny_0.*one plane only.*second plane"):
        train(dataset, tmp_path / "run", tiny.settings())
    train(dataset, tmp_path / "one", tiny.settings("supervised", iterations=1))


def test_training_by_the_clock_ends_by_the_clock(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count(step=0.25)  # a step is one tick, and 0.02 minutes are 1.2 s
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    run = train(dataset, tmp_path / "run", tiny.settings(minutes=0.02))
    meta = load_checkpoint(run.latest).meta
    assert run.step == 5
    assert meta["progress"] == 1.0
    assert meta["seconds"] == 1.25


def test_the_curves_of_a_killed_and_resumed_run_are_those_of_one_never_stopped(
    dataset: Dataset, tmp_path: Path
) -> None:
    settings = tiny.settings(iterations=22, checkpoint_every=7)
    step = Trainer.train_step

    def killed(self: Trainer) -> Losses:
        if self.step == 12:
            raise MemoryError
        return step(self)

    whole = train(dataset, tmp_path / "whole", settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train_step", killed)
        with pytest.raises(MemoryError):
            train(dataset, tmp_path / "halves", settings)
    halves = train(dataset, tmp_path / "halves", resume=True)
    curves = [read_metrics(run.folder) for run in (whole, halves)]
    assert [row["step"] for row in curves[0]] == [10, 20, 22]
    for row in curves[0] + curves[1]:
        row.pop("seconds")
    assert curves[0] == curves[1]


def test_what_is_ignored_never_reaches_the_loss(tmp_path: Path) -> None:
    """Two datasets that differ only where nothing was drawn train to the same weights."""
    weights = []
    for name, noise in (("one", 0), ("two", 1)):
        made = tiny.make_dataset(tmp_path / name, views=False)
        scans = [sources.read_drawn(made, case)[0] for case in made.labeled]
        changed = [(np.where(d == 0, y, (y + noise) % 3).astype(np.uint8), d) for y, d in scans]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sources, "read_drawn", lambda _d, case, c=changed: [c[int(case[-1])]])
            settings = tiny.settings("supervised", setting="sparse", iterations=3)
            run = train(made, tmp_path / f"run {name}", settings)
        weights.append(load_checkpoint(run.latest).weights)
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_tiny_scan_is_learned_from_two_slices(tmp_path: Path) -> None:
    made = tiny.make_dataset(tmp_path / "data", cases=2, labeled=1)
    settings = tiny.settings(
        iterations=150, patch=(16, 12, 12), checkpoint_every=150, learning_rate=1e-2
    )
    run = train(made, tmp_path / "run", settings)
    image, truth = made.read_image("tiny_0"), tiny.scan(0)[1]
    labels, probabilities = predict_volume(run, image)
    np.testing.assert_allclose(probabilities.sum(axis=0), 1.0, atol=1e-4)
    for value in (1, 2):
        p, y = labels == value, truth == value
        assert 2 * (p & y).sum() / (p.sum() + y.sum()) > 0.8
