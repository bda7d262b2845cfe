"""Jobs one after another in this process: no start-up, nothing retried, and a bug in a job comes
out with its traceback.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twoslice.engines.jobs import Engine, Job, Outcome, T
from twoslice.errors import TwosliceError
from twoslice.memory import bounded


class Here(Engine):
    """The engine of one worker that is this process; a job may take `memory` bytes."""

    def __init__(self, memory: int | None = None) -> None:
        self.memory = memory

    @property
    def workers(self) -> int:
        """One."""
        return 1

    def run(self, jobs: Sequence[Job[T]]) -> Iterator[Outcome[T]]:
        """Run each job when its outcome is asked for."""
        for job in jobs:
            try:
                with bounded(job.needs.memory or self.memory):
                    value = job.function(**job.arguments)
            except TwosliceError as error:
                yield Outcome(job, error=error)
            else:
                yield Outcome(job, value=value)

    def close(self) -> None:
        """There is nothing to end."""
