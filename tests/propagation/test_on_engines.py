"""The stage on several workers: the same files, faults and summaries as in this process."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from engines.loopback import loopback
from propagation.scenes import two_blobs
from twoslice import cli
from twoslice.annotation.simulate import simulate
from twoslice.engines.choose import EngineOptions
from twoslice.io.dataset import Dataset, write_description
from twoslice.progress import Silent, Task
from twoslice.propagation.cases import needed_bytes
from twoslice.propagation.dataset import (
    PropagationPartialError,
    propagate_dataset,
    summary_table,
)


def make_dataset(folder: Path, cases: int) -> Dataset:
    """Small scans with an axial and a coronal slice each."""
    dense = folder / "dense"
    for seed in range(cases):
        image, label = two_blobs((30, 28, 24), seed=seed % 7)
        for place, array in (("imagesTr", image[0]), ("labelsTr", label)):
            name = f"case{seed:03d}{'_0000' if place == 'imagesTr' else ''}.nii.gz"
            (dense / place).mkdir(parents=True, exist_ok=True)
            nib.save(nib.Nifti1Image(array, np.eye(4)), dense / place / name)
    labels = {"background": 0, "left": 1, "right": 2}
    write_description(dense, name="dense", channel_names=["MR"], labels=labels, ignore=None)
    return simulate(Dataset.open(dense), folder / "sparse", labeled=cases)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


@pytest.mark.slow
def test_two_workers_write_the_same_bytes_and_tell_the_same_faults_as_none(
    tmp_path: Path,
) -> None:
    dataset = make_dataset(tmp_path, 6)
    broken = dataset.root / "imagesTr" / "case002_0000.nii.gz"
    nib.save(nib.Nifti1Image(np.ones((30, 28, 24), np.float32), np.eye(4)), broken)
    told = []
    for name, workers in (("one", 1), ("two", 2)):
        with pytest.raises(PropagationPartialError) as raised:
            propagate_dataset(dataset, out=tmp_path / name, engine=EngineOptions(workers=workers))
        summary = raised.value.summary
        told.append((str(raised.value), summary.failures, summary_table(summary)))
    assert told[0] == told[1]
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert not (tmp_path / "two" / "logs").exists()
    again = propagate_dataset(
        dataset.without(["case002"]), out=tmp_path / "two", engine=EngineOptions(workers=2)
    )
    assert all(case.kept for case in again.cases)


def test_a_bound_that_a_scan_would_break_is_told_before_it_is_read(tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path, 1)
    with pytest.raises(PropagationPartialError, match=r"takes about 0\.5 GB, and 0\.1 GB may be"):
        propagate_dataset(dataset, engine=EngineOptions(memory="100MB"))
    needed = needed_bytes(dataset, "case000")
    assert propagate_dataset(dataset, engine=EngineOptions(memory=str(needed))).failures == {}


class Killing(Silent):
    """Kills a process when a quarter of the work is done."""

    def __init__(self, victim: int) -> None:
        self.victim, self.killed = victim, False

    @contextmanager
    def task(self, name: str, total: int, done: int = 0) -> Iterator[Task]:
        """Count the steps."""
        counted, outer = count(1), self

        class Counting:
            def advance(self, steps: int = 1, note: str = "") -> None:
                if next(counted) == total // 4:
                    os.kill(outer.victim, signal.SIGKILL)
                    outer.killed = True

        yield Counting()


@pytest.mark.slow
def test_a_scheduler_whose_worker_is_killed_in_the_middle_gives_the_same_files(
    tmp_path: Path,
) -> None:
    dataset = make_dataset(tmp_path, 16)
    alone = propagate_dataset(dataset, out=tmp_path / "alone", engine=EngineOptions(workers=1))
    with loopback(tmp_path / "dask") as running:
        killing = Killing(running.processes[1].pid)
        options = EngineOptions(scheduler=running.address)
        shared = propagate_dataset(
            dataset, out=tmp_path / "shared", engine=options, progress=killing
        )
        assert killing.killed
    assert summary_table(shared) == summary_table(alone)
    assert files(tmp_path / "shared") == files(tmp_path / "alone")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--engine", "dask"], "pip install 'twoslice[dask]'"),
        (["--cluster", "slurm"], "pip install 'twoslice[dask]'"),
        (["--engine", "local", "--cluster", "slurm"], "--cluster is for --engine dask"),
        (["--memory", "much"], "'much' is no amount of memory"),
    ],
)
def test_the_command_says_in_one_line_what_is_missing_or_wrong(
    options: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dataset = make_dataset(tmp_path, 1)
    found = importlib.util.find_spec
    absent = ("distributed", "dask_jobqueue")
    monkeypatch.setattr("importlib.util.find_spec", lambda n: None if n in absent else found(n))
    with pytest.raises(SystemExit) as ended:
        cli.main(["propagate", str(dataset.root), *options])
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert told in line
    assert not (dataset.root / "propagated").exists()
