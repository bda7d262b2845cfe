"""Devices, the random state of a step, the moving average, checkpoints on their own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from twoslice.errors import SettingsError
from twoslice.settings import parse_settings
from twoslice.training.averaging import Averaged
from twoslice.training.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from twoslice.training.devices import make_fabric, seed_everything


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device")
def test_a_device_that_is_not_there_is_told_in_one_line() -> None:
    settings = parse_settings({"training": {"device": "cuda"}}).training
    with pytest.raises(SettingsError, match=r"training.device = 'cuda'.*auto or cpu"):
        make_fabric(settings)


def test_the_random_state_of_a_step_follows_from_seed_and_step() -> None:
    def draw(seed: int, step: int) -> float:
        seed_everything(seed, step=step)
        return float(torch.rand(()))

    assert draw(3, 7) == draw(3, 7)
    assert len({draw(seed, step) for seed in range(3) for step in range(50)}) == 150


def test_the_average_of_a_still_module_is_the_module_and_counters_follow() -> None:
    module = nn.Sequential(nn.Conv3d(1, 2, 1), nn.BatchNorm3d(2))
    averaged = Averaged(module, 0.9)
    module(torch.randn(2, 1, 3, 3, 3))
    with torch.no_grad():
        module[0].weight.fill_(1.0)
        averaged.module[0].weight.fill_(0.0)
    for step in range(200):
        averaged.follow(module, step)
    torch.testing.assert_close(averaged.module[0].weight, module[0].weight)
    assert int(averaged.module[1].num_batches_tracked) == 1


def test_the_average_after_warm_up_is_the_geometric_one() -> None:
    module = nn.Linear(1, 1, bias=False)
    averaged = Averaged(module, 0.5)
    with torch.no_grad():
        averaged.module.weight.zero_()
        for step, value in ((100, 8.0), (101, 16.0), (102, 4.0)):
            module.weight.fill_(value)
            averaged.follow(module, step)
    assert float(averaged.module.weight) == pytest.approx(8 / 8 + 16 / 4 + 4 / 2)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_a_checkpoint_brings_weights_and_optimizer_back_bit_for_bit(
    kind: type[torch.optim.Optimizer], tmp_path: Path
) -> None:
    def steps(net: nn.Module, optimizer: torch.optim.Optimizer, count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            net(torch.ones(1, 4)).square().sum().backward()
            optimizer.step()

    options = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    net = nn.Linear(4, 3)
    optimizer = kind(net.parameters(), lr=0.1, **options)  # type: ignore[call-arg]
    steps(net, optimizer, 3)
    path = save_checkpoint(
        tmp_path, Checkpoint(3, net.state_dict(), None, optimizer.state_dict(), {"note": 1})
    )
    steps(net, optimizer, 2)

    again = nn.Linear(4, 3)
    other = kind(again.parameters(), lr=0.5, **options)  # type: ignore[call-arg]
    loaded = load_checkpoint(path)
    again.load_state_dict(loaded.weights)
    other.load_state_dict(dict(loaded.optimizer))
    steps(again, other, 2)
    assert torch.equal(net.weight, again.weight)
    assert loaded.meta["note"] == 1
    assert {file.suffix for file in path.iterdir()} == {".safetensors", ".json"}
