"""A worker killed in the middle: 200 scans and a study of 8 runs on Dask, against this machine.

    python bench/killed_worker.py --work DIR [--only scans,study]

A scheduler and two workers as processes of their own on the loopback. One worker is killed with
SIGKILL when a quarter of the work is done; files and tables must be those of `local`. Also: how
many empty jobs a second the scheduler takes.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from scale import TINY, files, propagate_by, two_hundred
from twoslice.demo.phantom import write_phantoms
from twoslice.engines.choose import EngineOptions, open_engine
from twoslice.engines.jobs import Job
from twoslice.engines.local import usable_cores
from twoslice.propagation.dataset import propagate_dataset
from twoslice.studies.study import run_study

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from engines.loopback import loopback


class Killer(threading.Thread):
    """Kills a process once a condition holds."""

    def __init__(self, victim: int, condition: Callable[[], bool]) -> None:
        super().__init__(daemon=True)
        self.victim, self.condition, self.killed = victim, condition, False
        self.start()

    def run(self) -> None:
        """Wait and kill."""
        while not self.condition():
            time.sleep(0.05)
        os.kill(self.victim, signal.SIGKILL)
        self.killed = True


def scans(work: Path) -> None:
    """200 scans, and the scheduler's pace."""
    dataset, out = two_hundred(work), work / "by-dask"
    shutil.rmtree(out, ignore_errors=True)
    with loopback(work / "dask") as running:
        killer = Killer(running.processes[1].pid, lambda: len([*out.glob("*.json")]) >= 50)
        options = EngineOptions(scheduler=running.address)
        begun = time.monotonic()
        propagate_dataset(dataset, out=out, engine=options)
        taken = time.monotonic() - begun
        begun = time.monotonic()
        with open_engine(options) as engine:
            jobs = [Job(str(n), usable_cores) for n in range(300)]  # which takes no time
            assert len([*engine.run(jobs)]) == 300
        pace = 300 / (time.monotonic() - begun)
    if not (work / "by-one").exists():
        propagate_by(dataset, work / "by-one", 1)
    same = files(work / "by-one") == files(out)
    print(f"200 scans, a worker killed ({killer.killed}): {taken:.0f} s; same files: {same}")
    print(f"empty jobs: {pace:.0f} a second", flush=True)


def study(work: Path) -> None:
    """8 runs: two methods, four seeds."""
    place = work / "eight"
    shutil.rmtree(place, ignore_errors=True)
    write_phantoms(place / "phantoms", training=6, test=2, shape=(24, 24, 16))
    tree: dict[str, Any] = {
        "title": "eight runs",
        "data": {"dense": "phantoms", "labeled": 2},
        "set": TINY,
        "rows": [
            {"name": "net", "method": "supervised", "set": {"training.setting": "sparse"}},
            {"name": "DeSCO", "method": "desco"},
        ],
        "seeds": [0, 1, 2, 3],
    }
    file = place / "study.yaml"
    file.write_text(yaml.safe_dump(tree))
    run_study(file, place / "local", engine=EngineOptions(workers=2))
    out = place / "dask-study"
    with loopback(place / "dask") as running:
        ended = lambda: len([*out.glob("runs/*/result.json")]) >= 2  # noqa: E731
        killer = Killer(running.processes[1].pid, ended)
        run_study(file, out, engine=EngineOptions(scheduler=running.address))
    tables = [(place / each / "table.md").read_text() for each in ("local", "dask-study")]
    rows = [_rows(place / each / "runs.csv") for each in ("local", "dask-study")]
    maps = [_maps(place / each / "runs") for each in ("local", "dask-study")]
    print(f"study of {len(rows[0])} runs, a worker killed ({killer.killed}): same tables: ", end="")
    print(f"{tables[0] == tables[1]}, same rows: {rows[0] == rows[1]}, ", end="")
    print(f"same {len(maps[0])} label maps: {maps[0] == maps[1]}", flush=True)


def _rows(path: Path) -> list[dict[str, str]]:
    """Every run's scores, without the time that it took."""
    with path.open(newline="") as file:
        return [{k: v for k, v in row.items() if k != "minutes"} for row in csv.DictReader(file)]


def _maps(folder: Path) -> dict[str, bytes]:
    found = folder.rglob("predictions/*.nii.gz")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def main() -> None:
    """Both, or what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("bench-scale"))
    parser.add_argument("--only", default="scans,study")
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    for name, part in (("scans", scans), ("study", study)):
        if name in asked.only.split(","):
            part(asked.work)


if __name__ == "__main__":
    main()
