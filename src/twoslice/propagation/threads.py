"""One thread an operation, several operations at a time.

A sum that torch splits over threads may be added up in another order, and its last bit then
depends on how many threads there are. So each operation runs on one thread, the work is cut into
pieces whose borders do not depend on the machine, and the pieces share the cores: the files come
out the same on any number of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from twoslice.engines.local import usable_cores


@contextmanager
def single_threaded() -> Iterator[None]:
    """Give torch one thread an operation inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def workers() -> int:
    """How many pieces of work may run at once: the cores, or OMP_NUM_THREADS where it is set."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return usable_cores()
