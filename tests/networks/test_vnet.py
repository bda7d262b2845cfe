"""The V-Net: published names and shapes, any patch size, dropout where the paper has it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from twoslice.networks.dropout import MapDropout
from twoslice.networks.vnet import VNet

DEPTHS = {
    "one": 1, "two": 2, "three": 3, "four": 3, "five": 3, "six": 3, "seven": 3, "eight": 2,
    "nine": 1,
}  # fmt: skip
WIDTHS = dict(zip(DEPTHS, (1, 2, 4, 8, 16, 8, 4, 2, 1), strict=True))


def published(channels: int, classes: int, f: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes as the notes to the paper state them, worked out apart from the module."""
    shapes: dict[str, tuple[int, ...]] = {}

    def norm(prefix: str, width: int) -> None:
        for name in ("weight", "bias", "running_mean", "running_var"):
            shapes[f"{prefix}.{name}"] = (width,)
        shapes[f"{prefix}.num_batches_tracked"] = ()

    for block, depth in DEPTHS.items():
        width = WIDTHS[block] * f
        for index in range(depth):
            inputs = channels if block == "one" and index == 0 else width
            shapes[f"block_{block}.conv.{3 * index}.weight"] = (width, inputs, 3, 3, 3)
            shapes[f"block_{block}.conv.{3 * index}.bias"] = (width,)
            norm(f"block_{block}.conv.{3 * index + 1}", width)
    for block in ("one", "two", "three", "four"):
        width = WIDTHS[block] * f
        shapes[f"block_{block}_dw.conv.0.weight"] = (2 * width, width, 2, 2, 2)
        shapes[f"block_{block}_dw.conv.0.bias"] = (2 * width,)
        norm(f"block_{block}_dw.conv.1", 2 * width)
    for block in ("five", "six", "seven", "eight"):
        width = WIDTHS[block] * f
        shapes[f"block_{block}_up.conv.0.weight"] = (width, width // 2, 2, 2, 2)
        shapes[f"block_{block}_up.conv.0.bias"] = (width // 2,)
        norm(f"block_{block}_up.conv.1", width // 2)
    shapes["out_conv.weight"], shapes["out_conv.bias"] = (classes, f, 1, 1, 1), (classes,)
    return shapes


@pytest.mark.parametrize(("channels", "classes", "filters"), [(1, 2, 16), (2, 4, 3)])
def test_names_and_shapes_are_those_of_the_published_checkpoints(
    channels: int, classes: int, filters: int
) -> None:
    state = VNet(channels, classes, filters).state_dict()
    found = {name: tuple(value.shape) for name, value in state.items()}
    assert found == published(channels, classes, filters)


def test_the_published_network_has_nine_and_a_half_million_weights() -> None:
    count = sum(value.numel() for value in VNet().parameters())
    assert count == sum(
        torch.Size(shape).numel()
        for name, shape in published(1, 2, 16).items()
        if "running" not in name and "num_batches" not in name
    )
    assert 9.0e6 < count < 10.0e6


@pytest.mark.parametrize("side", [(16, 16, 16), (17, 20, 33), (5, 40, 16)])
@pytest.mark.parametrize("norm", ["batch", "instance", "group", "none"])
def test_scores_lie_on_the_voxels_of_any_patch(side: tuple[int, int, int], norm: str) -> None:
    net = VNet(2, 3, 2, norm)  # type: ignore[arg-type]
    assert net(torch.randn(2, 2, *side)).shape == (2, 3, *side)


def test_padding_does_not_change_a_patch_that_already_fits() -> None:
    net = VNet(1, 2, 2, dropout=0.0).eval()
    x = torch.randn(1, 1, 16, 32, 16)
    torch.testing.assert_close(net(x), net(x)[..., :16, :32, :16])
    taller = torch.cat([x, x[:, :, -1:]], dim=2)
    assert net(taller).shape[2] == 17


def test_dropout_acts_in_training_only_and_at_both_places(monkeypatch: pytest.MonkeyPatch) -> None:
    net, dropped = VNet(1, 2, 4, dropout=0.5), []
    scale = MapDropout.scale
    monkeypatch.setattr(
        MapDropout, "scale", lambda self, x: dropped.append(tuple(x.shape)) or scale(self, x)
    )
    x = torch.randn(1, 1, 32, 16, 16)
    net(x)
    assert dropped == [(1, 64, 2, 1, 1), (1, 4, 32, 16, 16)]
    assert not torch.equal(net(x), net(x))
    assert torch.equal(net.eval()(x), net(x))


def test_maps_are_dropped_as_pytorch_drops_them() -> None:
    x = torch.randn(3, 8, 4, 5, 6)
    for share in (0.0, 0.3, 0.5):
        torch.manual_seed(1)
        ours = MapDropout(share)(x)
        torch.manual_seed(1)
        assert torch.equal(ours, nn.Dropout3d(share)(x))
    assert torch.equal(MapDropout(0.5).eval()(x), x)


def test_skips_are_added() -> None:
    """With the way up silenced, what reaches block nine is block one's output alone."""
    net = VNet(1, 2, 2, normalisation="none", dropout=0.0)
    for parameter in net.block_eight_up.parameters():
        nn.init.zeros_(parameter)
    x = torch.randn(1, 1, 16, 16, 16)
    expected = net.out_conv(net.block_nine(net.block_one(x)))
    torch.testing.assert_close(net(x), expected)
