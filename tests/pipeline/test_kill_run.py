"""kill -9 of `twoslice run`, twenty times at random moments over all its stages: the label maps and
the verdict are those of a run that was never touched.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from pipeline import made
from training import tiny
from twoslice.cli import main

KILLS = 20
DEADLINE = 900.0


class Command:
    """`twoslice run` in a process of its own, forked from one that has imported everything."""

    def __init__(self, dataset: Path, out: Path, settings: Path) -> None:
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["twoslice.cli", "twoslice.pipeline.run"])
        self.arguments = ["run", str(dataset), "--out", str(out), "--settings", str(settings)]

    def start(self) -> BaseProcess:
        process = self.context.Process(target=main, args=(self.arguments,))
        process.start()
        return process

    def run(self) -> float:
        start = time.monotonic()
        process = self.start()
        process.join(DEADLINE)
        assert process.exitcode == 0
        return time.monotonic() - start


def stage_of(out: Path) -> str:
    """The stage that was under way, by the manifest."""
    try:
        stages = json.loads((out / "run.json").read_text())["stages"]
    except FileNotFoundError:
        return "before"
    open_ones = [name for name, entry in stages.items() if entry["ended"] is None]
    return open_ones[-1] if open_ones else "between"


@pytest.mark.slow
def test_twenty_kills_over_the_whole_run_change_no_label_and_no_verdict(tmp_path: Path) -> None:
    data = tiny.make_dataset(tmp_path / "data", cases=5, labeled=2, views=False)
    other = tiny.make_dataset(tmp_path / "data2", cases=5, labeled=2, views=False)
    settings = tmp_path / "settings.yaml"
    settings.write_text(made.settings(iterations=24, method="plus").to_yaml())
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    seconds = Command(data.root, whole, settings).run()

    command, chance = Command(other.root, killed, settings), random.Random(8)
    met: list[str] = []
    for _ in range(KILLS):
        process = command.start()
        process.join(chance.uniform(0.05, 0.6) * seconds)
        if process.is_alive():
            met.append(stage_of(killed))
            process.kill()
            process.join(DEADLINE)
        else:  # it ended before its time: its last stages are what is left to be killed in
            assert process.exitcode == 0
            for path in (killed / "quality.json", *(killed / "quality").iterdir()):
                path.unlink()
            for path in sorted((killed / "predictions").glob("*.nii.gz"))[::2]:
                path.unlink()
            met.append("ended")
    command.run()
    assert len(set(met) - {"ended", "before"}) >= 3, met

    names = sorted(path.name for path in (whole / "predictions").glob("*.nii.gz"))
    assert len(names) == 5
    for name in names:
        ours, theirs = (nib.load(out / "predictions" / name) for out in (whole, killed))
        np.testing.assert_array_equal(np.asarray(ours.dataobj), np.asarray(theirs.dataobj))
        assert np.array_equal(ours.affine, theirs.affine)
    verdicts = [json.loads((out / "quality.json").read_text()) for out in (whole, killed)]
    assert verdicts[0] == verdicts[1]
    assert not [*killed.rglob(".writing-*")]
