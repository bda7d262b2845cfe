"""The least memory that a step needs, against what PyTorch counts; and the patch that would fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from training import tiny
from twoslice.errors import TrainingError
from twoslice.methods.base import Batch, Losses
from twoslice.methods.desco import Desco
from twoslice.networks.build import NetworkPlan, build_network
from twoslice.training import memory
from twoslice.training.loop import train

PLANS = {
    "vnet": NetworkPlan(kind="vnet", channels=1, classes=2, filters=4, normalisation="batch"),
    "unet": NetworkPlan(kind="unet", channels=2, classes=3, filters=4),
}


@pytest.mark.parametrize("kind", PLANS)
def test_the_estimate_is_what_a_real_pass_keeps(kind: str) -> None:
    plan, kept = PLANS[kind], {}
    network = build_network(plan)
    weights = {value.data_ptr() for value in network.state_dict().values()}

    def note(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in weights:
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    image = torch.randn(2, plan.channels, 32, 24, 16)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        scores = network(image)
    size = sum(value.numel() * value.element_size() for value in network.state_dict().values())
    least = memory.step_bytes(plan, (32, 24, 16), networks=1, patches=2) - 5 * size
    assert scores.requires_grad
    assert least == pytest.approx(sum(kept.values()), rel=0.1)


def test_twice_the_patches_or_networks_keep_twice_the_features() -> None:
    plan = PLANS["unet"]
    one, two, four = (
        memory.step_bytes(plan, (32, 32, side), networks=count, patches=2)
        for side, count in ((32, 1), (64, 1), (64, 2))
    )
    assert 1.8 < two / one < 2.1
    assert four == 2 * two


def test_the_longest_side_gives_way_until_the_patch_fits() -> None:
    assert memory.fitting_patch((64, 32, 16), lambda p: p[0] * p[1] * p[2] <= 40 * 32 * 16) == (
        40, 32, 16,
    )  # fmt: skip
    assert memory.fitting_patch((64, 32, 16), lambda p: True) == (64, 32, 16)
    assert memory.fitting_patch((64, 32, 16), lambda p: False) is None


def test_a_step_that_cannot_fit_is_refused_with_a_patch_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    settings = tiny.settings(patch=(40, 36, 24))
    monkeypatch.setattr(memory, "available_memory", lambda: 10 * 2**20)
    with pytest.raises(TrainingError, match=r"40 × 36 × 24 and 4 filters needs at least") as caught:
        train(dataset, tmp_path / "run", settings)
    assert not (tmp_path / "run").exists()
    said = str(caught.value)
    patch = tuple(map(int, said[said.index("[") + 1 : said.index("]")].split(",")))
    train(dataset, tmp_path / "run", tiny.settings(patch=patch, iterations=1))
    monkeypatch.setattr(memory, "available_memory", lambda: 2**10)
    with pytest.raises(TrainingError, match=r"No patch would fit: lower network.filters"):
        train(dataset, tmp_path / "none", settings)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
)
def test_a_step_that_runs_out_of_memory_says_what_patch_should_fit(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Desco, batch: Batch, progress: float) -> Losses:
        raise error

    monkeypatch.setattr(Desco, "losses", full)
    dataset = tiny.make_dataset(tmp_path / "data")
    with pytest.raises(TrainingError, match=r"ran out of memory. This should fit: --set") as caught:
        train(dataset, tmp_path / "run", tiny.settings(patch=(40, 36, 24)))
    assert "training.patch=[" in str(caught.value)


def test_other_faults_of_a_step_keep_their_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Desco, batch: Batch, progress: float) -> Losses:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(Desco, "losses", broken)
    with pytest.raises(RuntimeError, match="shapes differ"):
        train(tiny.make_dataset(tmp_path / "data"), tmp_path / "run", tiny.settings())
