"""Batches cut ahead of time: the same ones, whatever is asked for, and faults are not lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, cast

import pytest
import torch

from twoslice.methods.base import Batch
from twoslice.training.ahead import Ahead
from twoslice.training.patches import PatchSource


@dataclass
class Cutter:
    """Stands for a source: the batch of an iteration holds its number."""

    broken: int = -1
    cut: list[int] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)

    def batch(self, iteration: int) -> Batch:
        self.threads.add(get_ident())
        if iteration == self.broken:
            raise ValueError(f"no batch {iteration}")
        self.cut.append(iteration)
        assert torch.get_num_threads() == 1
        return Batch(torch.full((1, 1), iteration), torch.empty(0), (), (str(iteration),))


def ahead_of(cutter: Cutter) -> Ahead:
    return Ahead(cast(PatchSource, cast(Any, cutter)))


def test_batches_come_in_order_and_each_is_cut_once_elsewhere() -> None:
    cutter, threads = Cutter(), torch.get_num_threads()
    ahead = ahead_of(cutter)
    for iteration in range(7, 20):
        assert ahead.batch(iteration).cases == (str(iteration),)
    ahead._thread.shutdown()
    assert cutter.cut == list(range(7, 21))
    assert get_ident() not in cutter.threads
    assert torch.get_num_threads() == threads


def test_another_iteration_than_the_next_may_be_asked_for() -> None:
    ahead = ahead_of(Cutter())
    assert [ahead.batch(iteration).cases for iteration in (3, 9, 0, 0)] == [
        (name,) for name in ("3", "9", "0", "0")
    ]


def test_a_fault_shows_when_its_batch_is_asked_for_and_again_then() -> None:
    ahead = ahead_of(Cutter(broken=2))
    assert ahead.batch(1).cases == ("1",)
    for _ in range(2):
        with pytest.raises(ValueError, match="no batch 2"):
            ahead.batch(2)
    assert ahead.batch(3).cases == ("3",)
