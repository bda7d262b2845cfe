"""The moving average of the weights, which predicts better than the last weights alone."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn


class Averaged:
    """A copy of a module that follows it: w ← d·w + (1 − d)·new, d growing to `decay`."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.module = copy.deepcopy(module).requires_grad_(False).eval()
        self.decay = decay

    @torch.no_grad()
    def follow(self, module: nn.Module, step: int) -> None:
        """Take the module's state after `step` steps in; counters are copied as they are."""
        decay = min(self.decay, (1.0 + step) / (10.0 + step))
        mine, new = _floats(self.module), _floats(module)
        torch._foreach_lerp_(mine, new, 1.0 - decay)
        for kept, now in zip(_others(self.module), _others(module), strict=True):
            kept.copy_(now)


def _floats(module: nn.Module) -> list[Tensor]:
    return [value for value in _state(module) if value.is_floating_point()]


def _others(module: nn.Module) -> list[Tensor]:
    return [value for value in _state(module) if not value.is_floating_point()]


def _state(module: nn.Module) -> Iterable[Tensor]:
    return module.state_dict().values()
