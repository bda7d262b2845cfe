"""kill -9 of `twoslice train`, twenty times over one run, with --resume after each: what comes out
is what a run that was never touched gives, bit for bit.
"""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch

from training import tiny
from twoslice.cli import main
from twoslice.io.atomic import PREFIX
from twoslice.training.checkpoints import Checkpoint, list_checkpoints, load_checkpoint
from twoslice.training.journal import read_metrics
from twoslice.training.run import Run

KILLS = 20
STEPS = 150
DEADLINE = 600.0  # seconds that one life may take on a busy machine


class Command:
    """`twoslice train` in a process of its own, forked from one that has imported everything."""

    def __init__(self, dataset: Path, out: Path, settings: Path) -> None:
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(
            ["twoslice.cli", "twoslice.training.loop", "torch.utils.tensorboard"]
        )
        self.arguments = ["train", str(dataset), "--out", str(out), "--settings", str(settings)]

    def start(self) -> BaseProcess:
        process = self.context.Process(target=main, args=([*self.arguments, "--resume"],))
        process.start()
        return process

    def run(self) -> None:
        process = self.start()
        process.join(DEADLINE)
        assert process.exitcode == 0


class Watcher:
    """Waits for moments in the life of a training, by what lies in its checkpoint folder."""

    def __init__(self, run: Path, process: BaseProcess) -> None:
        self.folder, self.process = run / "checkpoints", process
        self.until = time.monotonic() + DEADLINE
        self.first = self.latest()

    def latest(self) -> int:
        found = list_checkpoints(self.folder)
        return int(found[-1].name.removeprefix("step-")) if found else 0

    def writing(self) -> bool:
        return any(self.folder.glob(f"{PREFIX}*"))

    def wait_for_more(self, within: float = DEADLINE) -> None:
        """Until there is a new checkpoint, but no longer than `within` seconds."""
        end = time.monotonic() + within
        self._wait(lambda: self.latest() > self.first or time.monotonic() > end)

    def wait_for_writing(self) -> None:
        self._wait(lambda: not self.writing())  # what an earlier life left is cleared first
        self._wait(self.writing)

    def _wait(self, reached) -> None:  # type: ignore[no-untyped-def]
        while not reached():
            assert self.process.is_alive(), "the training ended before it could be killed"
            assert time.monotonic() < self.until
            time.sleep(0.0002)


def kill_at(moment: str, process: BaseProcess, watcher: Watcher, chance: random.Random) -> None:
    if moment == "starting":
        watcher.wait_for_more(within=chance.uniform(0.0, 1.0))
    elif moment == "stepping":
        watcher.wait_for_more()
        time.sleep(chance.uniform(0.0, 0.03))  # some of the steps to the next checkpoint
    else:
        watcher.wait_for_writing()
        time.sleep(chance.uniform(0.0, 0.004))
    process.kill()
    process.join(DEADLINE)


def assert_equal(one: Checkpoint, two: Checkpoint) -> None:
    assert one.step == two.step == STEPS
    assert one.averaged is not None
    assert two.averaged is not None
    for mine, other in ((one.weights, two.weights), (one.averaged, two.averaged)):
        assert mine.keys() == other.keys()
        assert all(torch.equal(mine[name], other[name]) for name in mine)
    assert one.optimizer["param_groups"] == two.optimizer["param_groups"]
    assert one.optimizer["state"].keys() == two.optimizer["state"].keys()
    for index, entry in one.optimizer["state"].items():
        other_entry = two.optimizer["state"][index]
        assert entry.keys() == other_entry.keys()
        assert all(torch.equal(entry[name], other_entry[name]) for name in entry)


@pytest.mark.slow
def test_twenty_kills_and_resumes_give_the_run_that_was_never_touched(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    settings = tmp_path / "settings.yaml"
    settings.write_text(
        tiny.settings(iterations=STEPS, checkpoint_every=2, pictures=False).to_yaml()
    )
    Command(dataset.root, tmp_path / "whole", settings).run()

    out, chance = tmp_path / "killed", random.Random(4)
    command = Command(dataset.root, out, settings)
    halfway = 0
    for index in range(KILLS):
        moment = ("writing", "stepping", "writing", "starting")[index % 4]
        process = command.start()
        watcher = Watcher(out, process)
        kill_at(moment, process, watcher, chance)
        halfway += watcher.writing()
        assert process.exitcode == -signal.SIGKILL
        assert watcher.latest() < STEPS
    assert halfway >= 3  # some of the kills did hit a checkpoint half written
    command.run()

    whole, killed = Run.open(tmp_path / "whole"), Run.open(out)
    assert_equal(load_checkpoint(whole.latest), load_checkpoint(killed.latest))
    curves = [read_metrics(run.folder) for run in (whole, killed)]
    assert [row["step"] for row in curves[0]] == list(range(10, STEPS + 1, 10))
    for row in curves[0] + curves[1]:
        row.pop("seconds")
    assert curves[1] == curves[0]
    assert not [*out.rglob(f"{PREFIX}*")]
    assert len(list_checkpoints(killed.checkpoints)) == 2
