"""The interface between stages and engines: jobs go in, outcomes come out as the jobs end.

with open_engine(EngineOptions(workers=2)) as engine:
    for outcome in engine.run([Job("a", work, {"path": path}), …]):
        value = outcome.get()  # or its error, raised
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from twoslice.errors import JobError, TwosliceError
from twoslice.memory import bounded
from twoslice.progress import Progress

T = TypeVar("T")
RETRIES = 2
"""How often a job is tried again that ended in anything but a fault of its input."""
_LOG_LINES = 200


@dataclass(frozen=True)
class Needs:
    """What a job takes while it runs: `cores` (None: its worker's share of the machine), whole
    `gpus` (None: one, where there are any), and `memory` in bytes (None: its worker's share). It is
    held to the larger of need and share, or to the bound that somebody set for every worker.
    """

    cores: int | None = None
    gpus: int | None = 0
    memory: int | None = None


@dataclass(frozen=True)
class Job(Generic[T]):
    """A function to call elsewhere: importable by its name, with arguments that can be pickled.

    It must be pure in this sense: what it does follows from its arguments and the files they name,
    and running it twice, even at the same time, does no harm. `name` is what people see.
    """

    name: str
    function: Callable[..., T]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    needs: Needs = Needs()


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """How a job ended: a value, or an error that is one line, and what it printed on its way.

    `error` is what the job raised if a user can mend it; anything else, tried again and again, is
    a JobError.
    """

    job: Job[T]
    value: T | None = None
    error: TwosliceError | None = None
    log: str = ""
    attempts: int = 1

    def get(self) -> T:
        """The value; the error, if there is one, is raised."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # None is then what the job gave


class Engine(AbstractContextManager["Engine"], Protocol):
    """Runs jobs somewhere. Leaving its context cancels what still runs and ends every worker."""

    @property
    def workers(self) -> int:
        """How many jobs may run at once."""
        ...

    def run(self, jobs: Sequence[Job[T]]) -> Iterator[Outcome[T]]:
        """Run the jobs; each outcome comes when its job has ended, in whatever order."""
        ...

    def close(self) -> None:
        """Cancel what runs and end every worker; nothing, if that was done."""
        ...

    def __exit__(self, *raised: object) -> None:
        self.close()


@dataclass(frozen=True)
class Attempt(Generic[T]):
    """One try of a job, as it comes back from a worker. `raised` is what nobody foresaw."""

    value: T | None = None
    error: TwosliceError | None = None
    raised: str | None = None
    log: str = ""


_in_worker = False


def in_worker() -> bool:
    """Whether this process runs jobs for another: it then starts no workers of its own unasked."""
    return _in_worker


def attempt(job: Job[T]) -> Attempt[T]:
    """Try a job, in the worker that it was given to, within the memory that it may take."""
    global _in_worker
    _in_worker = True
    try:
        with bounded(job.needs.memory):
            return Attempt(value=job.function(**job.arguments))
    except TwosliceError as error:
        return Attempt(error=plain(error))
    except Exception as error:
        said = (str(error).strip().splitlines() or [""])[0][:300]
        return Attempt(raised=f"{type(error).__name__}: {said}", log=traceback.format_exc())


def plain(error: TwosliceError) -> TwosliceError:
    """The error as the nearest kind that is told by its line alone, and so can be sent."""
    for kind in type(error).__mro__:
        if kind.__module__ == TwosliceError.__module__:
            told = kind(str(error))
            assert isinstance(told, TwosliceError)
            return told
    return TwosliceError(str(error))


def given_up(job: Job[T], last: str, attempts: int, log: str) -> Outcome[T]:
    """The outcome of a job that was tried often enough."""
    times = "once" if attempts == 1 else f"{attempts} times"
    error = JobError(f"{job.name}: tried {times}, and the last time it ended with {last}.")
    return Outcome(job, error=error, log=tail(log), attempts=attempts)


def tail(log: str) -> str:
    """The end of a log: what a person reads first."""
    return "\n".join(log.splitlines()[-_LOG_LINES:])


def watch(
    engine: Engine, jobs: Sequence[Job[T]], *, name: str, progress: Progress, done: int = 0
) -> Iterator[Outcome[T]]:
    """Run the jobs with the progress and the estimate of all of them in one place; `done` more
    were finished before.
    """
    with progress.task(name, len(jobs) + done, done=done) as task:
        for outcome in engine.run(jobs):
            yield outcome
            task.advance(note=outcome.job.name)
