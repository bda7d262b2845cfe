"""A study on a scheduler with two workers, one killed in the middle: the tables of `local`."""

from __future__ import annotations

import csv
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engines.loopback import loopback
from studies.worlds import make_dense, write_study
from twoslice.engines.choose import EngineOptions
from twoslice.engines.here import Here
from twoslice.progress import Silent, Task
from twoslice.studies.study import StudyResult, run_study

pytest.importorskip("distributed")


class KillsAtFirstRun(Silent):
    """Kills a process when the first run of a study has ended."""

    def __init__(self, victim: int) -> None:
        self.victim, self.killed = victim, False

    @contextmanager
    def task(self, name: str, total: int, done: int = 0) -> Iterator[Task]:
        """Watch the runs."""
        outer = self

        class Watching:
            def advance(self, steps: int = 1, note: str = "") -> None:
                if name == "runs" and not outer.killed:
                    os.kill(outer.victim, signal.SIGKILL)
                    outer.killed = True

        yield Watching()


def told(result: StudyResult) -> dict[str, object]:
    """All that a study says, but for the time it took."""
    with (result.out / "runs.csv").open(newline="") as file:
        rows = [{k: v for k, v in row.items() if k != "minutes"} for row in csv.DictReader(file)]
    scores = {
        run.name: json.dumps([found["cases"], found["summary"]]) for run, found in result.finished
    }
    maps = {
        path.relative_to(result.out).as_posix(): path.read_bytes()
        for path in sorted((result.out / "runs").rglob("predictions/*.nii.gz"))
    }
    return {"rows": rows, "scores": scores, "maps": maps}


@pytest.mark.slow
def test_a_study_whose_worker_is_killed_has_the_tables_and_maps_of_this_process(
    tmp_path: Path,
) -> None:
    make_dense(tmp_path)
    row = {"name": "net", "method": "supervised", "set": {"training.setting": "sparse"}}
    file = write_study(tmp_path, rows=[row], seeds=[0, 1, 2])
    alone = run_study(file, tmp_path / "alone", engine=Here())
    with loopback(tmp_path / "dask") as running:
        progress = KillsAtFirstRun(running.processes[1].pid)
        options = EngineOptions(scheduler=running.address)
        shared = run_study(file, tmp_path / "shared", engine=options, progress=progress)
    assert progress.killed
    assert len(shared.finished) == 3
    assert told(shared) == told(alone)
    for name in ("table.md", "table.csv", "table.tex"):
        assert (shared.out / name).read_text() == (alone.out / name).read_text()
