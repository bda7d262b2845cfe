"""Convolutions with PyTorch's names, weights and results, and faster ways through them on a CPU.

oneDNN, which computes PyTorch's convolutions on a CPU, is near the machine's limit where many
channels meet a 3×3×3 kernel, and far from it in three places, each a matrix product or a sum
written differently here: the gradient of a bias, a 1×1×1 kernel with a few outputs, and the
gradients of a step up. And for one small patch on one thread PyTorch does not ask oneDNN at all,
but takes a way of its own that is up to ten times slower. In 16 bits a step up alone is slow: a
third of its time as a matrix product. docs/LOG.md has the times of each.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_ONES = (1, 1, 1)


class Convolution(nn.Conv3d):
    """`nn.Conv3d`, by oneDNN whatever the patch, whose bias gradient is a plain sum."""

    def forward(self, x: Tensor) -> Tensor:
        """The convolution of `x`."""
        if not _worth_it(x):
            return super().forward(x)
        arguments = (x, self.weight, self.bias, self.stride, self.padding)
        out: Tensor = _Convolved.apply(*arguments)  # type: ignore[no-untyped-call]
        return out


class StepUp(nn.ConvTranspose3d):
    """`nn.ConvTranspose3d` whose kernel is its stride: each voxel becomes a block of voxels, all
    blocks in one matrix product.
    """

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        """The grown `x`."""
        if not _worth_it(x, half=True):
            return super().forward(x, output_size)
        i, j, k = self.kernel_size
        inputs, outputs = self.weight.shape[:2]
        weight = self.weight.permute(2, 3, 4, 1, 0).reshape(-1, inputs)
        bias = None if self.bias is None else self.bias.repeat(i * j * k)
        blocks = F.linear(x.movedim(1, -1), weight, bias)
        batch, *sides = x.shape[0], *x.shape[2:]
        apart = blocks.view(batch, *sides, i, j, k, outputs).permute(0, 1, 4, 2, 5, 3, 6, 7)
        grown = apart.reshape(batch, sides[0] * i, sides[1] * j, sides[2] * k, outputs)
        return grown.movedim(-1, 1)


class Scores(nn.Conv3d):
    """A 1×1×1 convolution from feature maps to class scores, which are in the precision of the
    weights even where mixed precision has the feature maps in 16 bits: the losses are sums over
    a million voxels.
    """

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__(inputs, classes, 1)

    def forward(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        """Scores of `x`; `scale` (B, C, 1, 1, 1) is what dropout would multiply `x` by."""
        if not _worth_it(x):
            return super().forward(x if scale is None else x * scale).to(self.weight.dtype)
        weight, rows = self.weight.flatten(1), x.movedim(1, -1)
        if scale is None:
            return F.linear(rows, weight, self.bias).movedim(-1, 1)
        samples = [
            F.linear(sample, weight * kept, self.bias)  # a dropped map is a column of zeros
            for sample, kept in zip(rows, scale.flatten(1), strict=True)
        ]
        return torch.stack(samples).movedim(-1, 1)


class _Convolved(torch.autograd.Function):
    """A convolution with oneDNN's gradients, but for the bias.

    oneDNN adds the bias's gradient up in the same go as the weights', and then takes up to three
    times as long for the two as for the weights alone.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: tuple[int, ...],
        padding: tuple[int, ...],
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding = stride, padding
        return torch.mkldnn_convolution(x, weight, bias, padding, stride, _ONES, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        of_x, of_weight, of_bias = ctx.needs_input_grad[:3]
        x, weight = ctx.saved_tensors
        alone = len(x) == 1 and torch.get_num_threads() == 1
        if alone:  # with a second patch whose gradient is 0, PyTorch asks oneDNN again
            x, gradient = torch.cat([x, x]), torch.cat([gradient, torch.zeros_like(gradient)])
        dx, dw, _ = torch.ops.aten.convolution_backward(
            gradient, x, weight, None, ctx.stride, ctx.padding, _ONES, False, (0, 0, 0), 1,
            (of_x, of_weight, False),
        )  # fmt: skip
        db = gradient.sum(dim=(0, 2, 3, 4)) if of_bias else None
        return dx[:1] if alone and of_x else dx, dw, db, None, None


def _worth_it(x: Tensor, *, half: bool = False) -> bool:
    """Whether the ways above pay: on a CPU, channels last, 32 bits, with `half` in 16 bits of mixed
    precision too; not in a graph for export.
    """
    mixed = torch.is_autocast_enabled("cpu")
    return (
        x.device.type == "cpu"
        and torch._C._has_mkldnn
        and (half if mixed else x.dtype == torch.float32)
        and not torch.compiler.is_exporting()
        and x.is_contiguous(memory_format=torch.channels_last_3d)
    )
