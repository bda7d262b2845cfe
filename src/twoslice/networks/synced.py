"""Batch norm whose statistics are those of every process's batch together.

PyTorch's own needs CUDA; this one works over any backend, gloo between CPU processes included.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as processes
from torch import Tensor, nn


class _Sum(torch.autograd.Function):
    """The sum over all processes; its gradient is the sum of theirs."""

    @staticmethod
    def forward(context: Any, value: Tensor) -> Tensor:
        total = value.detach().clone()
        processes.all_reduce(total)
        return total

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].detach().clone()
        processes.all_reduce(total)
        return total


class SyncedBatchNorm(nn.BatchNorm3d):
    """A batch norm that sees the patches of all processes while it trains."""

    def forward(self, input: Tensor) -> Tensor:
        """Each channel at mean 0 and variance 1 over all patches, then scaled and shifted."""
        if not self.training or not processes.is_initialized():
            return super().forward(input)
        count = _total(input.new_tensor([input.numel() / input.shape[1]]))
        mean = _total(_by_channel(input)) / count
        centred = input - _spread(mean)
        variance = _total(_by_channel(centred.square())) / count
        self._follow(mean, variance, float(count))
        scale = self.weight * torch.rsqrt(variance + self.eps)
        return centred * _spread(scale) + _spread(self.bias)

    @torch.no_grad()
    def _follow(self, mean: Tensor, variance: Tensor, count: float) -> None:
        """The running statistics, with the unbiased variance, as PyTorch keeps them."""
        if self.running_mean is None or self.running_var is None or self.momentum is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        unbiased = variance * (count / max(count - 1.0, 1.0))
        self.running_mean.lerp_(mean.to(self.running_mean), self.momentum)
        self.running_var.lerp_(unbiased.to(self.running_var), self.momentum)


def synchronise(module: nn.Module) -> None:
    """Turn every batch norm in a module into a synchronised one; weights and names stay."""
    for layer in module.modules():
        if type(layer) is nn.BatchNorm3d:
            layer.__class__ = SyncedBatchNorm


def _total(value: Tensor) -> Tensor:
    total: Tensor = _Sum.apply(value)  # type: ignore[no-untyped-call]
    return total


def _by_channel(x: Tensor) -> Tensor:
    return x.sum(dim=(0, 2, 3, 4))


def _spread(x: Tensor) -> Tensor:
    return x.view(1, -1, 1, 1, 1)
