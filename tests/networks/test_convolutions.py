"""The faster ways give what PyTorch's own layers give."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from twoslice.networks.convolutions import Convolution, Scores, StepUp

SHAPE = (5, 4, 6)
KINDS: dict[str, tuple[Callable[[], nn.Module], Callable[[], nn.Module]]] = {
    "3×3×3": (
        lambda: Convolution(3, 4, 3, padding=1),
        lambda: nn.Conv3d(3, 4, 3, padding=1),
    ),
    "no bias": (
        lambda: Convolution(3, 4, 3, padding=1, bias=False),
        lambda: nn.Conv3d(3, 4, 3, padding=1, bias=False),
    ),
    "step down": (
        lambda: Convolution(3, 6, (2, 2, 1), stride=(2, 2, 1)),
        lambda: nn.Conv3d(3, 6, (2, 2, 1), stride=(2, 2, 1)),
    ),
    "step up": (
        lambda: StepUp(3, 5, (2, 2, 2), stride=(2, 2, 2)),
        lambda: nn.ConvTranspose3d(3, 5, (2, 2, 2), stride=(2, 2, 2)),
    ),
    "step up, thick axis": (
        lambda: StepUp(3, 5, (2, 2, 1), stride=(2, 2, 1)),
        lambda: nn.ConvTranspose3d(3, 5, (2, 2, 1), stride=(2, 2, 1)),
    ),
    "scores": (lambda: Scores(3, 2), lambda: nn.Conv3d(3, 2, 1)),
}


def image(batch: int = 2) -> Tensor:
    x = torch.randn(batch, 3, *SHAPE, generator=torch.Generator().manual_seed(0))
    return x.contiguous(memory_format=torch.channels_last_3d)


def gradients(layer: nn.Module, x: Tensor) -> list[Tensor]:
    x = x.clone(memory_format=torch.preserve_format).requires_grad_()
    out = layer(x)
    found = torch.autograd.grad(out.sin().sum(), [x, *layer.parameters()])
    return [out.detach(), *found]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 2])
def test_results_and_gradients_are_those_of_pytorch(kind: str, batch: int) -> None:
    ours, theirs = (make() for make in KINDS[kind])
    theirs.load_state_dict(ours.state_dict())
    theirs.to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]
    mine = gradients(ours, image(batch))
    for got, expected in zip(mine, gradients(theirs, image(batch)), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(ours(image(batch)), mine[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["step up", "step up, thick axis"])
def test_in_16_bits_a_step_up_gives_what_pytorch_gives(kind: str) -> None:
    ours, theirs = (make() for make in KINDS[kind])
    theirs.load_state_dict(ours.state_dict())
    theirs.to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]
    with torch.autocast("cpu", torch.bfloat16):
        mine, expected = gradients(ours, image()), gradients(theirs, image())
    assert mine[0].dtype == torch.bfloat16
    for got, wanted in zip(mine, expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=3e-2, atol=3e-2)


def test_scores_of_dropped_maps_are_those_of_maps_that_were_dropped() -> None:
    scores, x = Scores(3, 2), image()
    scale = torch.tensor([[2.0, 0.0, 2.0], [0.0, 0.0, 2.0]]).view(2, 3, 1, 1, 1)
    expected = F.conv3d(x * scale, scores.weight, scores.bias)
    torch.testing.assert_close(scores(x, scale), expected)
    torch.testing.assert_close(scores(x.contiguous(), scale), expected)
