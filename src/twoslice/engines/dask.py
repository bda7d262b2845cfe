"""Jobs on a Dask cluster: a scheduler that runs already, or a cluster that is started for them.

Dask gives the jobs of a lost worker to another, a bounded number of times; a job that raises is
sent again here, as on this machine. Dask counts a worker's death against every job that it had, so
one that was lost too often may be innocent: it gets another chance when all others are done, alone.
Leaving the engine cancels what runs. Workers have one thread each, so one job at a time.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from twoslice.engines.jobs import RETRIES, Attempt, Engine, Job, Outcome, T, attempt, given_up
from twoslice.errors import EngineError

GPU, MEMORY, CORES = "GPU", "MEMORY", "CORES"
"""Names of Dask resources that a worker may be started with: --resources "GPU=1,MEMORY=16e9"."""
CONNECT_SECONDS = 6.0
_ROUND_SECONDS = 1.0
_STOP_SECONDS = 15.0


class DaskEngine(Engine):
    """Runs jobs through a Dask client.

    Args:
        client: connected to the scheduler; closed with the engine.
        cluster: what was started for this engine, to be closed with it.
        memory: the most that a job may take; what it says that it needs, if unsaid.
        retries: how often a job is sent again that no fault of its input ended.
        say: where a line goes that a person should read.
    """

    def __init__(
        self,
        client: Any,
        cluster: Any = None,
        *,
        memory: int | None = None,
        retries: int = RETRIES,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.client, self.cluster = client, cluster
        self.memory, self.retries = memory, retries
        self.say = say or (lambda line: None)
        self._address = str(client.scheduler.address)
        self._running: dict[Any, tuple[Job[Any], int]] = {}
        self._declared: list[dict[str, float]] = []
        self._slots, self._asked = 1, -math.inf
        self._closed = False

    @property
    def workers(self) -> int:
        """How many jobs may run at once, as many as there are workers now; asked for anew every
        second.
        """
        if time.monotonic() > self._asked + _ROUND_SECONDS:
            threads = (int(worker.get("nthreads", 1)) for worker in self._found().values())
            self._slots, self._asked = max(1, sum(threads)), time.monotonic()
        return self._slots

    def run(self, jobs: Sequence[Job[T]]) -> Iterator[Outcome[T]]:
        """Run the jobs; a caller that stops asking cancels those that have not ended."""
        self._refuse_impossible(jobs)
        if not self._declared:
            self.say(f"{self._address}: has no worker yet. Waiting for the first.")
        waiting = deque((job, 1) for job in jobs)
        suspects: deque[tuple[Job[T], int]] = deque()
        alone = False
        ready: deque[Outcome[T]] = deque()
        try:
            while waiting or self._running or ready or suspects:
                while waiting and len(self._running) < self.workers:
                    self._send(*waiting.popleft())
                if suspects and not self._running:
                    alone = True
                    self._send(*suspects.popleft())
                if ready:  # the next jobs are under way while the caller looks at this one
                    yield ready.popleft()
                    continue
                for future in self._ended():
                    job, tried = self._running.pop(future)
                    came, status = self._came(future), future.status
                    future.release()  # or it is done again if its worker goes
                    if came.raised is None:
                        ready.append(Outcome(job, came.value, came.error, came.log, tried))
                    elif tried <= self.retries and status == "finished":
                        (suspects if alone else waiting).appendleft((job, tried + 1))
                    elif status != "finished" and not alone:
                        suspects.append((job, tried + 1))
                    else:
                        ready.append(given_up(job, came.raised, tried, came.log))
        finally:
            self._cancel()

    def close(self) -> None:
        """Cancel what runs, and end the workers that were started for this engine."""
        if self._closed:
            return
        self._closed = True
        self._cancel()
        with contextlib.suppress(Exception):  # a scheduler that is gone cannot be told goodbye
            self.client.close(timeout=_STOP_SECONDS)
        if self.cluster is not None:
            with contextlib.suppress(TimeoutError):
                self.cluster.close(timeout=_STOP_SECONDS)

    def require(self, shared: Path) -> None:
        """Every worker has this version of twoslice and sees the folder that results go to, or
        one line says which does not.
        """
        from twoslice import __version__

        shared.mkdir(parents=True, exist_ok=True)
        probe = shared / f".seen-by-workers-{uuid4().hex[:8]}"
        probe.touch()
        try:
            told = self.client.run(look_around, str(probe), on_error="return")
        finally:
            probe.unlink()
        for worker, found in told.items():
            if isinstance(found, Exception):
                raise EngineError(
                    f"worker {worker}: cannot run twoslice ({found}). Install twoslice "
                    f"{__version__} in its environment."
                )
            version, sees = found
            if version != __version__:
                raise EngineError(
                    f"worker {worker}: has twoslice {version}, and this is {__version__}. Install "
                    f"the same version on both sides."
                )
            if not sees:
                raise EngineError(
                    f"worker {worker}: does not see {shared}. Put it on a disk that all machines "
                    f"share, under the same path."
                )

    def _found(self) -> dict[str, Any]:
        """The workers that there are, by address."""
        try:
            found: dict[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
        except Exception:  # Dask has several for a connection that is lost
            raise self._gone() from None
        return found

    def _gone(self) -> EngineError:
        return EngineError(
            f"{self._address}: the scheduler is gone, and the jobs with it. What is finished is "
            f"kept: start a scheduler and run the same command again."
        )

    def _ended(self) -> list[Any]:
        """The jobs that ended; after a while also none, for new workers to get theirs."""
        from distributed import wait

        futures = [*self._running]
        # A scheduler that is gone cancels them all; `_came` says so.
        with contextlib.suppress(TimeoutError, CancelledError), self.client.as_current():
            wait(futures, timeout=_ROUND_SECONDS, return_when="FIRST_COMPLETED")
        # A value that is "lost" went with its worker, and is on its way once more.
        return [future for future in futures if future.status not in ("pending", "lost")]

    def _send(self, job: Job[Any], tried: int) -> None:
        """No more are sent than can run: Dask counts a death against every job that its worker
        had, so those that wait do so here.
        """
        bounded = replace(job, needs=replace(job.needs, memory=self.memory or job.needs.memory))
        future = self.client.submit(
            attempt_and_listen,
            bounded,
            key=f"{job.name}-{tried}-{uuid4().hex}",
            resources=self._resources(job) or None,
            pure=False,
        )
        self._running[future] = (job, tried)

    def _resources(self, job: Job[Any]) -> dict[str, float]:
        """What the job takes of its worker; memory and cores count where every worker has some."""
        gpus = job.needs.gpus
        if gpus is None:
            gpus = min(1, int(max((each.get(GPU, 0) for each in self._declared), default=0)))
        wanted: dict[str, float] = {GPU: gpus} if gpus else {}
        for name, amount in ((MEMORY, job.needs.memory), (CORES, job.needs.cores)):
            if amount and self._declared and all(name in each for each in self._declared):
                # One that needs more than any has gets a whole worker, and says itself if it
                # cannot be done there.
                wanted[name] = min(amount, max(each[name] for each in self._declared))
        return wanted

    def _refuse_impossible(self, jobs: Sequence[Job[Any]]) -> None:
        """Dask would wait for ever for a worker that has what such a job needs."""
        self._declared = [worker.get("resources") or {} for worker in self._found().values()]
        for job in {job.needs: job for job in jobs}.values():
            wanted = self._resources(job)
            if not self._declared or any(
                all(each.get(name, 0) >= amount for name, amount in wanted.items())
                for each in self._declared
            ):
                continue
            named = ",".join(f"{name}={amount:g}" for name, amount in wanted.items())
            raise EngineError(
                f"{job.name}: needs {named}, and no worker of {self._address} has that. Start "
                f"workers with --resources '{named}'."
            )

    def _came(self, future: Any) -> Attempt[Any]:
        """What came back: an attempt, or why none did."""
        from distributed import KilledWorker

        try:
            came: Attempt[Any] = future.result()
        except CancelledError:
            raise self._gone() from None
        except KilledWorker:
            return Attempt(raised="its worker lost, as often as the scheduler allows")
        except Exception as error:  # the job could not even be read on the worker
            return Attempt(raised=f"{type(error).__name__}: {error}")
        return came

    def _cancel(self) -> None:
        """Let go of what is queued, and restart the workers that are amid one of our jobs: Dask
        cannot stop a job in any other way.
        """
        if not self._running:
            return
        ours = {future.key for future in self._running}
        with contextlib.suppress(Exception):  # as in `close`
            busy = [
                worker
                for worker, keys in self.client.processing().items()
                if keys and ours.issuperset(map(str, keys))
            ]
            self.client.cancel([*self._running], force=True)
            if busy and self.cluster is None:
                self.client.restart_workers(busy, timeout=_STOP_SECONDS, raise_for_error=False)
        self._running.clear()


def attempt_and_listen(job: Job[T]) -> Attempt[T]:
    """Try a job on a Dask worker, with what it prints as its log."""
    _use_cores(job.needs.cores)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        ended = attempt(job)
    return replace(ended, log=said.getvalue() + ended.log)


def look_around(probe: str) -> tuple[str, bool]:
    """On a worker: its version of twoslice, and whether it sees a file."""
    from twoslice import __version__

    return __version__, Path(probe).exists()


def _use_cores(cores: int | None) -> None:
    """Dask gives a worker one thread for numerics; a job that needs more says so."""
    if cores is None:
        return
    os.environ["OMP_NUM_THREADS"] = str(cores)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(cores)
