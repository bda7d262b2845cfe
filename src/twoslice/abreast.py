"""Networks that do not wait for each other do their work side by side, each in a thread.

A layer that many threads share ends when the slowest of them is done, and between layers all of
them wait; two networks on two threads each go at their own pace. What is random in them comes from
a generator for each, so that it does not matter who asks first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import lru_cache
from typing import TypeVar

import torch

T = TypeVar("T")
_generator: ContextVar[torch.Generator | None] = ContextVar("generator", default=None)


def generator() -> torch.Generator | None:
    """Where a network's dropout, noise and other chance come from; None is PyTorch's own."""
    return _generator.get()


def abreast(jobs: Sequence[Callable[[], T]], device: torch.device) -> list[T]:
    """What the jobs return, in their order. They share the CPU's threads among them; on another
    device, within another job or with fewer threads than jobs, they run one after another.
    """
    if device.type != "cpu":
        return [job() for job in jobs]
    seeds = torch.randint(2**62, (len(jobs),), generator=generator()).tolist()
    threads, within = torch.get_num_threads(), generator() is not None
    if len(jobs) == 1 or within or threads < len(jobs):
        return [_run(job, seed) for job, seed in zip(jobs, seeds, strict=True)]
    share, wanted = threads // len(jobs), torch.is_grad_enabled()
    mixed, kind = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def run(job: Callable[[], T], seed: int) -> T:
        torch.set_num_threads(share)
        with torch.set_grad_enabled(wanted), torch.autocast("cpu", dtype=kind, enabled=mixed):
            return _run(job, seed)

    try:
        return list(_workers(len(jobs)).map(run, jobs, seeds))
    finally:
        torch.set_num_threads(threads)  # PyTorch counts them by thread, MKL in one place for all


def _run(job: Callable[[], T], seed: int) -> T:
    """The job with a generator of its own."""
    token = _generator.set(torch.Generator().manual_seed(seed))
    try:
        return job()
    finally:
        _generator.reset(token)


@lru_cache(maxsize=1)
def _workers(count: int) -> ThreadPoolExecutor:
    """Threads that stay: PyTorch's own, which each of them starts, would be made anew otherwise."""
    return ThreadPoolExecutor(count, thread_name_prefix="network")


if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_workers.cache_clear)  # threads do not follow one
