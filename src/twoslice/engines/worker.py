"""A worker process of this machine, seen from its parent: start, give a job, collect, stop."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from twoslice.engines.child import GRACE, serve
from twoslice.engines.jobs import Attempt, Job, tail
from twoslice.errors import EngineError

_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS",
)


@dataclass(frozen=True)
class Place:
    """What a worker was started with, for good: its threads, and the GPUs that it sees (None: as
    many as there are).
    """

    cores: int
    gpus: tuple[str, ...] | None

    def environment(self) -> dict[str, str]:
        """The variables that libraries read when they are loaded."""
        named = {name: str(self.cores) for name in _THREADS}
        if self.gpus is not None:
            named["CUDA_VISIBLE_DEVICES"] = ",".join(self.gpus)
        return named


class Worker:
    """One process; a job at a time."""

    def __init__(self, place: Place, log: Path) -> None:
        self.place, self.log = place, log
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=serve, args=(theirs, log))
        with _variables(place.environment()):
            self.process.start()
        theirs.close()
        self.started = False

    def give(self, job: Job[Any]) -> None:
        """Start a job; `collect` has its end. The worker may be starting still."""
        try:
            packed = pickle.dumps(job)
        except Exception as error:
            raise EngineError(
                f"{job.name}: cannot be sent to another process ({error}). Its function must be "
                f"importable by name, and its arguments plain."
            ) from None
        with suppress(BrokenPipeError, ConnectionResetError):  # `collect` will say so
            self.pipe.send_bytes(packed)

    def collect(self) -> Attempt[Any] | None:
        """The end of the job, when the pipe or the process says something; None: not yet."""
        try:
            while self.pipe.poll():
                came = self.pipe.recv_bytes()
                if came == b"ready":
                    self.started = True
                    continue
                attempt: Attempt[Any] = pickle.loads(came)
                return attempt
        except (EOFError, ConnectionResetError):
            self.process.join(GRACE)
        if self.process.is_alive():
            return None
        return Attempt(raised=self._how_it_ended(), log=tail(self._said()))

    def stop(self, *, kindly: bool = True) -> None:
        """Ask the process to end, and see to it that it and all it started are gone."""
        self.ask_to_end()
        self.process.join(GRACE if kindly else 0)
        if hasattr(os, "killpg") and self.process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.pipe.close()

    def ask_to_end(self) -> None:
        """Let it know, without waiting."""
        if self.process.is_alive():
            self.process.terminate()

    def _how_it_ended(self) -> str:
        code = self.process.exitcode
        if code is not None and code < 0:
            with suppress(ValueError):
                return f"its process killed by {signal.Signals(-code).name}"
        return f"its process ended with {code}"

    def _said(self) -> str:
        try:
            return self.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


@contextmanager
def _variables(values: dict[str, str]) -> Iterator[None]:
    """A process that is started inside has these variables; this one is as it was afterwards."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
