"""The UNETR: MONAI's, padded to the size it is built for."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from twoslice.networks.unetr import Unetr


def test_a_patch_of_the_full_size_goes_through_as_monai_has_it() -> None:
    torch.manual_seed(0)
    network = Unetr(1, 3, 2, (16, 32, 16))
    image = torch.randn(1, 1, 16, 32, 16)
    torch.testing.assert_close(network(image), network.network(image))


def test_smaller_patches_keep_their_size_and_larger_ones_are_refused() -> None:
    network = Unetr(2, 3, 2, (20, 10, 7))
    assert network.multiple == (32, 16, 16)
    assert network(torch.randn(1, 2, 20, 10, 7)).shape == (1, 3, 20, 10, 7)
    with pytest.raises(ValueError, match="was given"):
        network(torch.randn(1, 2, 33, 10, 7))


def test_16_filters_give_the_published_transformer() -> None:
    with torch.device("meta"):
        network = Unetr(1, 2, 16, (96, 96, 96))
    vit = network.network.vit
    assert (vit.blocks[0].mlp.linear1.in_features, vit.blocks[0].mlp.linear1.out_features) == (
        768,
        3072,
    )
    assert len(vit.blocks) == 12
    assert not [m for m in network.modules() if type(m) is nn.InstanceNorm3d]


def test_the_gradient_of_a_channels_last_patch_is_that_of_a_plain_one() -> None:
    torch.manual_seed(0)
    network = Unetr(1, 2, 2, (16, 16, 16))
    image = torch.randn(1, 1, 16, 16, 16)
    gradients = []
    for each in (image, image.contiguous(memory_format=torch.channels_last_3d)):
        network.zero_grad()
        network(each).square().mean().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in network.parameters()]))  # type: ignore[union-attr]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)
