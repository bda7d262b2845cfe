"""The modern recipe's U-Net: instance norm, leaky ReLU, strides that follow the voxel spacing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from twoslice.networks.convolutions import Convolution, Scores, StepUp
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
    inputs: int, outputs: int, kernel: Triple, stride: Triple = (1, 1, 1), dropout: float = 0.0
) -> nn.Sequential:
    """Two convolutions, the first of which may step down; then dropout of whole feature maps."""
    first = _convolution(inputs, outputs, kernel, stride)
    second = _convolution(outputs, outputs, kernel, (1, 1, 1))
    return nn.Sequential(*first, *second, *([nn.Dropout3d(dropout)] if dropout else []))


class UNet(nn.Module):
    """Scores (B, classes, I, J, K) for patches (B, channels, I, J, K) of any size.

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
        self.down = nn.ModuleList([_level(channels, widths[0], sizes[0])])
        for level, stride in enumerate(strides, start=1):
            bottom = dropout if level == len(strides) else 0.0
            self.down.append(_level(widths[level - 1], widths[level], sizes[level], stride, bottom))
        self.up, self.merge = nn.ModuleList(), nn.ModuleList()
        for level in reversed(range(len(strides))):
            wide, narrow, stride = widths[level + 1], widths[level], strides[level]
            self.up.append(StepUp(wide, narrow, stride, stride=stride))
            last = dropout if level == 0 else 0.0
            self.merge.append(_level(2 * narrow, narrow, sizes[level], dropout=last))
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
            x = merge(torch.cat([up(x), skips.pop()], dim=1))
        return crop_to(self.out(x), shape)
