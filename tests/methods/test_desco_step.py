"""The paper's step, however it is computed, is the plain statement in bench/training_step.py."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from twoslice.methods.desco import Desco
from twoslice.settings import load_settings

PATCH = (32, 16, 32)
FILTERS = 4


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).parents[2] / "bench" / "training_step.py"
    spec = importlib.util.spec_from_file_location("training_step", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def both(bench: ModuleType) -> tuple[Desco, list[nn.Module]]:
    """The method, and plain networks with the same weights. A softened ReLU in both: the corner of
    the true one makes a jump in the gradient of a difference in rounding.
    """
    torch.manual_seed(3)
    method = Desco(bench.plan_of("paper", PATCH, FILTERS), load_settings(preset="paper"))
    plain = [bench.PlainVNet(2, FILTERS) for _ in range(2)]
    for network, ours in zip(plain, method.networks, strict=True):
        network.load_state_dict(ours.state_dict())
        _soften(network)
        _soften(ours)
    method.to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]
    return method, plain


def _soften(network: nn.Module) -> None:
    for module in [*network.modules()]:
        for name, child in module.named_children():
            if isinstance(child, nn.ReLU):
                setattr(module, name, nn.Softplus())


@pytest.mark.parametrize("progress", [0.1, 0.6, 0.95])
def test_the_paper_step_has_the_losses_and_gradients_of_the_plain_statement(
    bench: ModuleType, progress: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same draws of dropout and noise, and batch norm's statistics as well. Chance comes
    from one place here, in one order; tests/test_abreast.py has the networks side by side.
    """
    in_turn: Callable[..., list[object]] = lambda jobs, _device: [job() for job in jobs]  # noqa: E731
    monkeypatch.setattr("twoslice.methods.desco.abreast", in_turn)
    method, plain = both(bench)
    batch = bench.make_batch(PATCH, 5)
    torch.manual_seed(11)
    losses = method(batch, progress)
    torch.manual_seed(11)
    expected = bench.plain_losses(plain, [batch, batch], progress)
    torch.testing.assert_close(losses.total, expected, rtol=1e-5, atol=1e-6)
    losses.total.backward()
    expected.backward()
    for ours, network in zip(method.networks, plain, strict=True):
        reference = dict(network.named_parameters())
        scale = max(float(p.grad.abs().max()) for p in reference.values() if p.grad is not None)
        for name, parameter in ours.named_parameters():
            torch.testing.assert_close(
                parameter.grad, reference[name].grad, rtol=1e-3, atol=1e-5 * scale, msg=name
            )
        counts = dict(network.named_buffers())
        for name, buffer in ours.named_buffers():
            torch.testing.assert_close(buffer, counts[name], rtol=1e-4, atol=1e-5, msg=name)


def test_the_mask_bites_in_the_compared_step(bench: ModuleType) -> None:
    """Were every voxel certain, the comparison would say nothing about the passes."""
    method, _ = both(bench)
    share = method(bench.make_batch(PATCH, 5), 0.1).figures["mask_fraction"]
    assert 0.05 < share < 0.95


def test_a_shared_pass_spares_the_teacher_one_look(bench: ModuleType) -> None:
    """Batch norm counts its passes: one to learn, four of two copies, and one to teach."""
    for preset, passes in (("paper", 6), ("fast", 1)):
        method = Desco(bench.plan_of("paper", PATCH, FILTERS), load_settings(preset=preset))
        method(bench.make_batch(PATCH, 5), 0.5)
        for network in method.networks:
            assert int(network.block_one.conv[1].num_batches_tracked) == passes


def test_operations_of_a_step_are_those_of_its_convolutions(bench: ModuleType) -> None:
    """Closed form for the V-Net: 2 · inputs · outputs · kernel · voxels, three times for a pass
    that learns, but for the first layer, whose image needs no gradient.
    """
    f, voxels = FILTERS, PATCH[0] * PATCH[1] * PATCH[2]
    first = 2 * 27 * f * voxels
    blocks = sum(
        2 * 27 * (f * 2**level) ** 2 * voxels // 8**level * count
        for level, count in ((0, 1), (1, 4), (2, 6), (3, 6), (4, 3))
    )
    steps = sum(
        2 * 2 * 8 * (f * 2**level) * (f * 2 ** (level + 1)) * voxels // 8 ** (level + 1)
        for level in range(4)
    )
    look = first + blocks + steps + 2 * 2 * f * voxels
    learn = 2 * (3 * look - first)
    assert bench.operations("plain", PATCH, f) == 2 * (learn + 9 * look)
    assert bench.operations("paper", PATCH, f) == bench.operations("plain", PATCH, f)
    assert bench.operations("fast-vnet", PATCH, f) == 2 * learn
