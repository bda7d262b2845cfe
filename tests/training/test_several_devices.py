"""Several devices learn what one with the larger batch would: two CPU processes over gloo."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from training import one_of_two, tiny
from twoslice.errors import SettingsError
from twoslice.io.dataset import Dataset
from twoslice.methods.registry import find_method
from twoslice.progress import Silent
from twoslice.settings import Settings
from twoslice.training.augment import quarter_turns
from twoslice.training.checkpoints import list_checkpoints
from twoslice.training.devices import refuse_other_launch, started_by_torchrun
from twoslice.training.journal import read_metrics
from twoslice.training.patches import PatchSource
from twoslice.training.planner import make_plan
from twoslice.training.run import Run
from twoslice.training.sources import open_source

# Both processes on the loopback, whatever the machine's name resolves to.
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
LIMIT = 300


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return tiny.make_dataset(tmp_path / "data", cases=6, labeled=3)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, **LOOPBACK, **more}


def written(settings: Settings, path: Path) -> Path:
    path.write_text(settings.to_yaml())
    return path


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("iteration", [0, 5])
def test_processes_share_the_larger_batch_without_overlap(
    world: int, iteration: int, dataset: Dataset, tmp_path: Path
) -> None:
    settings = tiny.settings()
    source = open_source(
        dataset,
        make_plan(dataset, settings),
        settings,
        find_method("desco"),
        folder=tmp_path,
        progress=Silent(),
    )
    whole = replace(source, sizes=(world, world)).batch(iteration)
    parts = [replace(source, rank=rank, world=world).batch(iteration) for rank in range(world)]
    assert torch.equal(torch.cat([part.labeled for part in parts]), whole.labeled)
    assert torch.equal(torch.cat([part.unlabeled for part in parts]), whole.unlabeled)
    for index, view in enumerate(whole.views):
        assert torch.equal(torch.cat([part.views[index].label for part in parts]), view.label)
        assert torch.equal(torch.cat([part.views[index].distance for part in parts]), view.distance)
    told = replace(source, rank=1, world=world).all_cases(iteration)
    assert told == whole.cases
    assert told[1] == parts[1].cases[0]


@pytest.mark.parametrize(("world", "size"), [(2, 1), (2, 2), (3, 1), (4, 3)])
def test_no_unlabelled_scan_is_seen_twice_in_a_round_of_all_processes(
    world: int, size: int, tmp_path: Path
) -> None:
    scans = [f"scan {number}" for number in range(11)]
    source = PatchSource(
        labeled=[],
        unlabeled=scans,
        open_image=lambda name: np.zeros((1, 4, 4, 4), np.float32),
        patch=(4, 4, 4),
        voxel=(1.0, 1.0, 1.0),
        augmentation=quarter_turns(),
        sizes=(0, size),
        foreground_share=0.0,
        seed=5,
    )
    ranks = [replace(source, rank=rank, world=world) for rank in range(world)]
    seen: list[str] = []
    for iteration in range(3 * len(scans)):
        for each in ranks:
            slots = range(each.rank * size, (each.rank + 1) * size)
            seen += each.cases(iteration, range(0), slots)
    rounds = [seen[start : start + len(scans)] for start in range(0, 3 * len(scans), len(scans))]
    assert all(sorted(each) == sorted(scans) for each in rounds)
    assert rounds[0] != rounds[1]


@pytest.mark.slow
def test_a_training_resumed_under_torchrun_ends_with_the_weights_of_an_unbroken_one(
    dataset: Dataset, tmp_path: Path
) -> None:
    """Two devices, started by the command, then by torchrun from the first checkpoint."""
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    program = str(Path(sys.executable).with_name("twoslice"))
    settings = tiny.settings(
        iterations=4, checkpoint_every=2, recipe="paper", sync_batch_norm=True, pictures=False
    )
    file = written(settings, tmp_path / "settings.yaml")
    train = [program, "train", str(dataset.root), "--out"]
    first = [*train, str(whole), "--settings", str(file), "--devices", "2"]
    _succeed(first)
    shutil.copytree(whole, resumed)
    shutil.rmtree(resumed / "checkpoints" / "step-000004")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    torchrun += ["--master-addr", "127.0.0.1", "--master-port", str(20000 + os.getpid() % 20000)]
    _succeed([*torchrun, "--no-python", *train, str(resumed), "--resume"])
    weights = [
        load_file(next((folder / "checkpoints" / "step-000004").glob("weights*.safetensors")))
        for folder in (whole, resumed)
    ]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def _succeed(command: list[str]) -> None:
    ended = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_processes_started_otherwise_than_the_settings_say_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = (tiny.settings(devices=count).training for count in (1, 2))
    refuse_other_launch(one)
    with pytest.raises(SettingsError, match="nothing here says which of them this machine is"):
        refuse_other_launch(tiny.settings(nodes=2).training)
    for name, value in (
        ("TORCHELASTIC_RUN_ID", "x"),
        ("LOCAL_WORLD_SIZE", "2"),
        ("WORLD_SIZE", "2"),
    ):
        monkeypatch.setenv(name, value)
    refuse_other_launch(two)
    with pytest.raises(SettingsError, match=r"torchrun started 2 process.*for 1 on each of 1"):
        refuse_other_launch(one)
    assert started_by_torchrun() == (2, 1)


@pytest.mark.slow
def test_the_gradients_of_two_processes_are_those_of_one_with_the_whole_batch(
    dataset: Dataset, tmp_path: Path
) -> None:
    """Their voxel weights differ, so the mean of two losses would not do: the sums are joined."""
    exact = "32-true"  # sums over other parts of a batch are rounded otherwise in 16 bits
    one = tiny.settings(labeled_per_batch=2, unlabeled_per_batch=2, precision=exact)
    one_of_two.step(dataset, written(one, tmp_path / "one.yaml"), tmp_path / "one")
    script = Path(one_of_two.__file__)
    given = written(tiny.settings(devices=2, precision=exact), tmp_path / "two.yaml")
    command = [sys.executable, str(script), str(dataset.root), str(given), str(tmp_path / "two")]
    port = {"MASTER_PORT": str(20000 + os.getpid() % 20000)}
    both = [
        subprocess.Popen(command, env=environment(LOCAL_RANK=str(rank), NODE_RANK="0", **port))
        for rank in range(2)
    ]
    try:
        assert [process.wait(LIMIT) for process in both] == [0, 0]
    finally:
        for process in both:
            process.kill()
    alone = load_file(tmp_path / "one" / "rank-0.safetensors")
    shared = [load_file(tmp_path / "two" / f"rank-{rank}.safetensors") for rank in range(2)]
    assert not torch.equal(shared[0].pop("images"), shared[1].pop("images"))
    alone.pop("images")
    for name, gradient in alone.items():
        torch.testing.assert_close(shared[0][name], gradient, rtol=1e-4, atol=1e-6)
        assert torch.equal(shared[0][name], shared[1][name])


@pytest.mark.slow
def test_the_command_trains_on_two_devices_and_one_process_writes(
    dataset: Dataset, tmp_path: Path
) -> None:
    settings = tiny.settings(iterations=12, checkpoint_every=6, devices=2)
    command = [
        str(Path(sys.executable).with_name("twoslice")),
        *("train", str(dataset.root), "--out", str(tmp_path / "run")),
        *("--settings", str(written(settings, tmp_path / "two.yaml"))),
    ]
    ended = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("trained with desco") == 1
    run = Run.open(tmp_path / "run")
    assert [path.name for path in list_checkpoints(run.checkpoints)] == [
        "step-000006",
        "step-000012",
    ]
    assert [row["step"] for row in read_metrics(run.folder)] == [10, 12]
    assert len([*run.folder.glob("events.*")]) == 1
    assert len([*(run.folder / "pictures").iterdir()]) == 2
