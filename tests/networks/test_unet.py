"""The U-Net: any patch, strides that leave an axis alone, instance norm as PyTorch has it."""

from __future__ import annotations

import pytest
import torch

from twoslice.networks.build import NetworkPlan, build_network
from twoslice.networks.dropout import MapDropout
from twoslice.networks.norms import InstanceNorm
from twoslice.networks.unet import UNet


@pytest.mark.parametrize("side", [(16, 16, 8), (15, 22, 5), (9, 9, 9)])
def test_scores_lie_on_the_voxels_of_any_patch(side: tuple[int, int, int]) -> None:
    net = UNet(2, 4, 4, strides=((2, 2, 1), (2, 2, 2)), kernels=((3, 3, 1), (3, 3, 3), (3, 3, 3)))
    assert net(torch.randn(1, 2, *side)).shape == (1, 4, *side)


def test_a_thick_axis_is_neither_halved_nor_convolved_along_at_first() -> None:
    net = UNet(1, 2, 2, strides=((2, 2, 1),), kernels=((3, 3, 1), (3, 3, 1)))
    net = net.double()
    x = torch.randn(1, 1, 8, 8, 6, dtype=torch.double, requires_grad=True)
    features = net.down[0][0](x)
    (gradient,) = torch.autograd.grad(features[..., 3].sum(), x)
    assert gradient[..., 3].abs().sum() > 0
    assert gradient[..., [0, 1, 2, 4, 5]].abs().sum() == 0
    assert net.down[1](net.down[0](x)).shape[2:] == (4, 4, 6)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last_3d])
def test_instance_norm_and_its_gradient_agree_with_the_formula(
    batch: int, layout: torch.memory_format
) -> None:
    norm = InstanceNorm(5)
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2.0)
        norm.bias.normal_()
    x = (3 * torch.randn(batch, 5, 6, 4, 7) + 2).contiguous(memory_format=layout)
    one, two = x.clone().requires_grad_(), x.clone().requires_grad_()
    variance, mean = torch.var_mean(two, (2, 3, 4), keepdim=True, correction=0)
    scale, shift = norm.weight.view(1, 5, 1, 1, 1), norm.bias.view(1, 5, 1, 1, 1)
    formula = (two - mean) / (variance + norm.eps).sqrt() * scale + shift
    found = norm(one)
    torch.testing.assert_close(found, formula, rtol=1e-4, atol=1e-5)
    weight = torch.randn_like(x)
    (found * weight).sum().backward()
    (formula * weight).sum().backward()
    torch.testing.assert_close(one.grad, two.grad, rtol=1e-4, atol=1e-4)


def test_a_plan_survives_json_and_builds_the_same_network() -> None:
    plan = NetworkPlan(
        kind="unet", channels=1, classes=3, filters=4, strides=((2, 2, 1),),
        kernels=((3, 3, 1), (3, 3, 3)),
    )  # fmt: skip
    again = NetworkPlan.model_validate_json(plan.model_dump_json())
    assert again == plan
    one, two = build_network(plan).state_dict(), build_network(again).state_dict()
    assert {name: value.shape for name, value in one.items()} == {
        name: value.shape for name, value in two.items()
    }


def test_dropout_is_there_only_when_asked() -> None:
    assert not [m for m in UNet().modules() if isinstance(m, MapDropout)]
    net = UNet(1, 2, 4, dropout=0.5)
    x = torch.randn(1, 1, 16, 16, 16)
    assert not torch.equal(net(x), net(x))
    assert torch.equal(net.eval()(x), net(x))
