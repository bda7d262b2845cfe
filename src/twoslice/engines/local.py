"""Jobs in processes of this machine. A worker that dies loses only its job, which is tried again
in another; leaving the engine ends every worker and whatever it started.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from twoslice.engines.jobs import RETRIES, Attempt, Engine, Job, Outcome, T, given_up
from twoslice.engines.worker import Place, Worker
from twoslice.errors import EngineError
from twoslice.memory import available_memory


class LocalEngine(Engine):
    """Up to `workers` processes at once, as the needs of their jobs allow.

    Args:
        workers: how many jobs run at once; cores and memory are shared among them.
        memory: the most that a worker may take; its share of what is free if unsaid.
        retries: how often a job is tried again that no fault of its input ended.
    """

    def __init__(self, workers: int, *, memory: int | None = None, retries: int = RETRIES) -> None:
        self._count, self.retries = workers, retries
        self.cores = usable_cores()
        self._limit = memory
        self.memory = memory or available_memory() // workers
        self.gpus = usable_gpus()
        self._folder = tempfile.TemporaryDirectory(prefix="twoslice-workers-")
        self._idle: list[Worker] = []
        self._busy: dict[Worker, tuple[Job[Any], int]] = {}
        self._made = 0

    @property
    def workers(self) -> int:
        """How many jobs may run at once."""
        return self._count

    def run(self, jobs: Sequence[Job[T]]) -> Iterator[Outcome[T]]:
        """Run the jobs; a caller that stops asking cancels those that have not ended."""
        for job in jobs:
            self._refuse_impossible(job)
        waiting = deque((job, 1) for job in jobs)
        ready: deque[Outcome[T]] = deque()
        try:
            while waiting or self._busy or ready:
                while waiting and (place := self._place_for(waiting[0][0])) is not None:
                    self._start(place, *waiting.popleft())
                if ready:  # the next jobs are under way while the caller looks at this one
                    yield ready.popleft()
                    continue
                for worker, attempt in self._ended():
                    job, tried = self._busy.pop(worker)
                    self._put_back(worker)
                    if attempt.raised is None:
                        ready.append(Outcome(job, attempt.value, attempt.error, attempt.log, tried))
                    elif tried <= self.retries:
                        waiting.appendleft((job, tried + 1))
                    else:
                        ready.append(given_up(job, attempt.raised, tried, attempt.log))
        finally:
            self._stop([*self._busy])
            self._busy.clear()

    def close(self) -> None:
        """End every worker."""
        self._stop([*self._busy, *self._idle])
        self._busy.clear()
        self._idle.clear()
        self._folder.cleanup()

    @property
    def share(self) -> int:
        """The cores of a worker, if all of them run."""
        return max(1, self.cores // self._count)

    def _refuse_impossible(self, job: Job[Any]) -> None:
        if self._gpus(job) > len(self.gpus):
            raise EngineError(
                f"{job.name}: needs {job.needs.gpus} GPU(s), and this machine has "
                f"{len(self.gpus)}. Ask for fewer, or use --engine dask."
            )

    def _gpus(self, job: Job[Any]) -> int:
        return min(1, len(self.gpus)) if job.needs.gpus is None else job.needs.gpus

    def _place_for(self, job: Job[Any]) -> Place | None:
        """Where a job can start now; None while others take what it needs."""
        if len(self._busy) >= self._count:
            return None
        cores = min(job.needs.cores or self.share, self.cores)
        memory = job.needs.memory or self.memory
        if self._busy:  # alone, a job may always run
            if cores + sum(each.place.cores for each in self._busy) > max(self.cores, self._count):
                return None
            taken = sum(other.needs.memory or self.memory for other, _ in self._busy.values())
            if memory + taken > self.memory * self._count:
                return None
        wanted = self._gpus(job)
        if not wanted:
            return Place(cores, None)
        given = {gpu for each in self._busy for gpu in each.place.gpus or ()}
        free = [gpu for gpu in self.gpus if gpu not in given]
        return Place(cores, tuple(free[:wanted])) if len(free) >= wanted else None

    def _start(self, place: Place, job: Job[Any], tried: int) -> None:
        """Give the job to an idle worker of that place, or to a new one."""
        fitting = [worker for worker in self._idle if worker.place == place]
        if fitting:
            worker = fitting[0]
            self._idle.remove(worker)
        else:
            if len(self._idle) + len(self._busy) >= self._count:
                self._stop([self._idle.pop(0)])
            self._made += 1
            worker = Worker(place, Path(self._folder.name) / f"worker-{self._made}.log")
        bound = self._limit or max(job.needs.memory or 0, self.memory)
        self._busy[worker] = (job, tried)
        worker.give(replace(job, needs=replace(job.needs, memory=bound)))

    def _ended(self) -> list[tuple[Worker, Attempt[Any]]]:
        """The workers whose job ended; waits for the first."""
        wait([side for each in self._busy for side in (each.pipe, each.process.sentinel)])
        collected = [(worker, worker.collect()) for worker in self._busy]
        return [(worker, attempt) for worker, attempt in collected if attempt is not None]

    def _put_back(self, worker: Worker) -> None:
        if worker.process.is_alive():
            self._idle.append(worker)
            return
        worker.stop(kindly=False)  # what it started may live still
        if not worker.started:
            raise EngineError(
                "a worker process ended before its first job. In a script of your own, the call "
                "belongs under: if __name__ == '__main__'."
            )

    def _stop(self, workers: Sequence[Worker]) -> None:
        """All are asked before the first is waited for; idle ones end at once."""
        try:
            for worker in workers:
                worker.ask_to_end()
            for worker in workers:
                worker.stop()
        except KeyboardInterrupt:
            for worker in workers:
                worker.stop(kindly=False)
            raise


def usable_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_gpus() -> tuple[str, ...]:
    """The CUDA devices that this process may use, by the names that a child is given."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return tuple(each for each in named.split(",") if each and each != "-1")
    count = 0
    with suppress(OSError):
        count = len([*Path("/proc/driver/nvidia/gpus").iterdir()])
    return tuple(map(str, range(count)))
