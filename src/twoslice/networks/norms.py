"""Normalisation layers by name."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Normalisation = Literal["batch", "instance", "group", "none"]


class InstanceNorm(nn.InstanceNorm3d):
    """Instance norm with a scale and shift, which keeps the channels-last layout.

    A batch norm over each sample alone is the same mathematics. PyTorch's own instance norm goes
    through a contiguous copy, which costs about a fifth of the U-Net's step on a CPU; and for a
    single sample with a channels-last gradient its backward pass is wrong (seen in 2.13).
    """

    def __init__(self, channels: int) -> None:
        super().__init__(channels, affine=True)

    def forward(self, x: Tensor) -> Tensor:
        """Each channel of each sample at mean 0 and variance 1, then scaled and shifted."""
        if x.shape[2:].numel() == 1:  # one voxel has no variance: leave it to the shift alone
            return torch.zeros_like(x) + self.bias.view(1, -1, 1, 1, 1)
        if x.device.type != "cpu":
            return super().forward(x)
        samples = [
            F.batch_norm(sample, None, None, self.weight, self.bias, training=True, eps=self.eps)
            for sample in torch.split(x, 1)
        ]
        return samples[0] if len(samples) == 1 else torch.cat(samples)


def normalise(name: Normalisation, channels: int) -> list[nn.Module]:
    """The layer as a list of one, or an empty list for `none`: names in the state dict shift so."""
    if name == "batch":
        return [nn.BatchNorm3d(channels)]
    if name == "instance":
        return [InstanceNorm(channels)]
    if name == "group":
        return [nn.GroupNorm(min(16, channels), channels)]
    return []
