"""A Dask scheduler and its workers as processes of their own, on the loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = str(Path(__file__).parents[1])
LIMIT = 240.0


class Loopback:
    """What is running: `address`, the scheduler's process, and the workers'."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.log = (folder / "dask.log").open("ab")
        self.scheduler = self._start("dask_scheduler", "--host", "127.0.0.1", "--port", "0")
        end = time.monotonic() + LIMIT
        while True:
            try:
                self.address: str = json.loads(self.file.read_text())["address"]
                return
            except (OSError, ValueError):
                assert time.monotonic() < end, "the scheduler did not start"
                time.sleep(0.05)

    def add_worker(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a worker with one thread; ending this process ends its nanny and the worker."""
        return self._start(
            "dask_worker", "--nthreads", "1", "--host", "127.0.0.1", "--memory-limit", "0",
            "--death-timeout", "240", *arguments,
        )  # fmt: skip

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{program}", "--no-dashboard"]
        command += ["--dashboard-address", "127.0.0.1:0"]
        command += ["--scheduler-file", str(self.file), *arguments]
        paths = os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")])
        process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            cwd=self.file.parent,
            stdout=self.log,
            stderr=self.log,
        )
        self.processes.append(process)
        return process

    def end(self) -> None:
        """End everything that was started here; a worker ends with its nanny."""
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        self.log.close()


@contextmanager
def loopback(folder: Path, workers: int = 2) -> Iterator[Loopback]:
    """A scheduler with so many workers, ended with the context."""
    folder.mkdir(parents=True, exist_ok=True)
    running = Loopback(folder)
    try:
        for _ in range(workers):
            running.add_worker()
        yield running
    finally:
        running.end()
