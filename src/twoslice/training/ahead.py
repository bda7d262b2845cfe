"""The next batch is cut while the networks learn from this one."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import torch

from twoslice.methods.base import Batch
from twoslice.training.patches import PatchSource


class Ahead:
    """The batches of a source, each cut in a thread before it is asked for.

    A batch depends on its iteration alone, so it does not matter who cuts it or when. A fault shows
    when the batch is asked for. On two cores that each train a network, cutting in between would
    leave one of them idle for a tenth of the time.
    """

    def __init__(self, source: PatchSource) -> None:
        self.source = source
        self._thread = ThreadPoolExecutor(
            1, thread_name_prefix="patches", initializer=torch.set_num_threads, initargs=(1,)
        )
        self._next: tuple[int, Future[Batch]] | None = None

    def batch(self, iteration: int) -> Batch:
        """The batch of this iteration; the next one is begun."""
        waiting = self._next
        if waiting is None or waiting[0] != iteration:
            waiting = iteration, self._thread.submit(self.source.batch, iteration)
        found = waiting[1].result()
        self._next = iteration + 1, self._thread.submit(self.source.batch, iteration + 1)
        return found
