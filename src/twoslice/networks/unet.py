"""The modern recipe's U-Net: instance norm, leaky ReLU, strides that follow the voxel spacing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from twoslice.networks.convolutions import Convolution, Scores, StepUp
from twoslice.networks.dropout import MapDropout
from twoslice.networks.norms import InstanceNorm
from twoslice.networks.padding import Triple, crop_to, pad_to_multiple


def _convolution(inputs: int, outputs: int, kernel: Triple, stride: Triple) -> list[nn.Module]:
    """One convolution, instance norm and leaky ReLU."""
    i, j, k = kernel
    padding = (i // 2, j // 2, k // 2)
    return [
        Convolution(inputs, outputs, kernel, stride=stride, padding=padding, bias=False),
        InstanceNorm(outputs),
        nn.LeakyReLU(0.01, inplace=True),
    ]


def _level(
    inputs: int,
    outputs: int,
    kernel: Triple,
    stride: Triple = (1, 1, 1),
    *,
    count: int = 2,
    dropout: float = 0.0,
) -> nn.Sequential:
    """`count` convolutions, the first of which may step down; then dropout of whole maps."""
    layers = _convolution(inputs, outputs, kernel, stride)
    for _ in range(count - 1):
        layers += _convolution(outputs, outputs, kernel, (1, 1, 1))
    return nn.Sequential(*layers, *([MapDropout(dropout)] if dropout else []))


class UNet(nn.Module):
    """Scores (B, classes, I, J, K) for patches (B, channels, I, J, K) of any size.

    At full size, where half the work would lie, there is one convolution on the way down and one on
    the way up; below, two and two. Skips are added, not joined, which halves the convolution after
    them. docs/LOG.md has what that costs in Dice (nothing seen) and saves in time (a third).

    Args:
        channels: image channels.
        classes: classes of a voxel, background included.
        filters: feature maps at full size; they double with every step down, up to `widest`.
        strides: one (I, J, K) stride for every step down; (2, 2, 1) leaves a thick axis alone.
        kernels: the convolutions' size at every level, one more than strides; 3×3×3 if not given.
        dropout: share of feature maps dropped at the end of the bottom and the last level.
        widest: the most feature maps of any level.
    """

    def __init__(
        self,
        channels: int = 1,
        classes: int = 2,
        filters: int = 12,
        strides: Sequence[Triple] = ((2, 2, 2),) * 3,
        kernels: Sequence[Triple] | None = None,
        dropout: float = 0.0,
        widest: int = 320,
    ) -> None:
        super().__init__()
        widths = [min(filters * 2**level, widest) for level in range(len(strides) + 1)]
        products = torch.tensor([(1, 1, 1), *strides]).prod(dim=0).tolist()
        self.multiple: Triple = (products[0], products[1], products[2])
        sizes = [(3, 3, 3)] * len(widths) if kernels is None else list(kernels)
        self.down = nn.ModuleList([_level(channels, widths[0], sizes[0], count=1)])
        for level, stride in enumerate(strides, start=1):
            lost = dropout if level == len(strides) else 0.0
            wide = widths[level]
            self.down.append(_level(widths[level - 1], wide, sizes[level], stride, dropout=lost))
        self.up, self.merge = nn.ModuleList(), nn.ModuleList()
        for level in reversed(range(len(strides))):
            wide, narrow, stride = widths[level + 1], widths[level], strides[level]
            self.up.append(StepUp(wide, narrow, stride, stride=stride))
            count, lost = (2, 0.0) if level else (1, dropout)
            merge = _level(narrow, narrow, sizes[level], count=count, dropout=lost)
            self.merge.append(merge)
        self.out = Scores(widths[0], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores, on the voxels of `x`."""
        shape = tuple(x.shape[2:])
        x = pad_to_multiple(x, self.multiple)
        skips = []
        for level in self.down:
            x = level(x)
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(up(x) + skips.pop())
        return crop_to(self.out(x), shape)
