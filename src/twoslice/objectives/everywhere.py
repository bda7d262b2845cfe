"""Sums over every process of a training, so that several devices learn as one device would."""

from __future__ import annotations

import torch.distributed as processes
from jaxtyping import Float
from torch import Tensor


def sum_everywhere(value: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """The sum of `value` over all processes; on a single process, `value` itself.

    A loss is a ratio of sums over voxels, and the mean of two devices' ratios is not the ratio of
    their sums. So the sums are joined before they are divided. The gradient stays with the
    process that the voxels are on, times the number of processes, because gradients are averaged
    over them afterwards: together that is the gradient of the joint ratio.
    """
    if not (processes.is_available() and processes.is_initialized()):
        return value
    total = value.detach().clone()
    processes.all_reduce(total)
    mine = value * processes.get_world_size()
    return mine + (total - mine).detach()
