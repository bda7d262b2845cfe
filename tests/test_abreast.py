"""Jobs side by side: what they return, their chance, their gradients, their threads."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from functools import partial

import pytest
import torch
from torch import Tensor

from methods.toys import batch, plan, settings_of
from twoslice.abreast import abreast, generator
from twoslice.methods.base import Losses
from twoslice.methods.registry import METHODS

CPU = torch.device("cpu")


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_results_come_in_the_jobs_order_and_threads_are_shared(threads: int) -> None:
    def job(name: str) -> tuple[str, int, int]:
        return name, torch.get_num_threads(), threading.get_ident()

    found = abreast([partial(job, "a"), partial(job, "b")], CPU)
    assert [name for name, _, _ in found] == ["a", "b"]
    if threads > 1:
        assert [share for _, share, _ in found] == [threads // 2] * 2
        assert threading.get_ident() not in {ident for _, _, ident in found}
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("threads", [2], indirect=True)
def test_jobs_do_run_at_the_same_time(threads: int) -> None:
    meet = threading.Barrier(2, timeout=20)  # one after another, the first would wait in vain
    abreast([meet.wait, meet.wait], CPU)


@pytest.mark.parametrize("threads", [4], indirect=True)
def test_a_job_may_have_jobs(threads: int) -> None:
    def job() -> list[int]:
        return abreast([lambda: 1, lambda: 2], CPU)

    assert abreast([job, job], CPU) == [[1, 2], [1, 2]]


def test_chance_follows_from_the_seed_alone(threads: int) -> None:
    def job(others: int) -> Tensor:
        torch.rand(others)  # what somebody else draws from PyTorch's own meanwhile
        return torch.rand(5, generator=generator())

    def both(others: int) -> list[Tensor]:
        torch.manual_seed(3)
        return abreast([partial(job, others)] * 2, CPU)

    first, again = both(0), both(1000)
    assert torch.equal(torch.stack(first), torch.stack(again))
    assert not torch.equal(first[0], first[1])
    assert generator() is None


def test_gradients_are_wanted_as_the_caller_wants_them(threads: int) -> None:
    jobs = [torch.is_grad_enabled] * 2
    with torch.no_grad():
        assert abreast(jobs, CPU) == [False, False]
    assert abreast(jobs, CPU) == [True, True]


def test_mixed_precision_is_the_callers(threads: int) -> None:
    def job() -> torch.dtype:
        return (torch.ones(2, 2) @ torch.ones(2, 2)).dtype

    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert abreast([job, job], CPU) == [torch.bfloat16] * 2
    assert abreast([job, job], CPU) == [torch.float32] * 2


def test_an_error_reaches_the_caller(threads: int) -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        abreast([fail, lambda: None], CPU)
    assert abreast([lambda: 1, lambda: 2], CPU) == [1, 2]


@pytest.mark.parametrize("threads", [2], indirect=True)
def test_a_fork_gets_threads_of_its_own(threads: int) -> None:
    abreast([lambda: 1, lambda: 2], CPU)
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # threads that did not follow would be waited for without an end
        os._exit(0 if abreast([lambda: 1, lambda: 2], CPU) == [1, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0


def gradients(name: str, threads: int, *, mixed: bool = False) -> tuple[Losses, list[Tensor]]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    settings = settings_of(name, desco={"passes": 4, "shared_pass": False})
    method = METHODS[name](plan().model_copy(update={"dropout": 0.5}), settings)
    torch.manual_seed(1)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
        losses = method(batch(views=3), 0.5)
    losses.backward()
    torch.set_num_threads(before)
    return losses, [p.grad for p in method.parameters() if p.grad is not None]


@pytest.mark.parametrize("name", ["desco", "cps", "plus"])
def test_two_networks_abreast_learn_what_they_learn_in_turn(name: str) -> None:
    (turn, in_turn), (side, by_side) = gradients(name, 1), gradients(name, 2)
    assert sorted(side.parts) == [0, 1]
    torch.testing.assert_close(side.total, turn.total)
    torch.testing.assert_close(sum(side.parts.values()), side.total)
    assert len(by_side) == len(in_turn) > 0
    for ours, theirs in zip(by_side, in_turn, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)
    for ours, again in zip(by_side, gradients(name, 2)[1], strict=True):
        assert torch.equal(ours, again)


@pytest.mark.parametrize("name", ["desco", "cps", "plus"])
def test_in_mixed_precision_too_the_same_seed_gives_the_same_gradients(name: str) -> None:
    _, ours = gradients(name, 2, mixed=True)
    assert len(ours) == len(gradients(name, 1)[1])
    for _ in range(3):
        for one, again in zip(ours, gradients(name, 2, mixed=True)[1], strict=True):
            assert torch.equal(one, again)
