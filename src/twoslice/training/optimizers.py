"""Optimizers by name: `sgd` as the paper has it, `adamw`, and `muon`, which moves kernels by
orthogonalised momentum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch import Tensor

Name = Literal["sgd", "adamw", "muon"]
Groups = Iterable[dict[str, Any]]

_STEPS = 5
_A, _B, _C = 3.4445, -4.7750, 2.0315
"""Of the polynomial a·x + b·x³ + c·x⁵ that, five times over, brings singular values from near 0 to
1 to between 0.7 and 1.2 (Jordan et al., Muon, 2024)."""
_LIKE_ADAMW = 0.2
"""The root mean square of AdamW's steps, as a share of its rate: by it one rate suits both (Liu et
al., 2025)."""


class Muon(torch.optim.AdamW):
    """AdamW for all but kernels, whose momentum is made orthogonal before they follow it.

    A gradient of a kernel, seen as a matrix from inputs to outputs, has a few large singular values
    and many small ones; with all of them near 1 every direction is learned at the same pace.
    `torch.optim.Muon` does that to matrices; kernels are not, and it takes five times the products.
    """

    def __init__(
        self, groups: Groups, lr: float, *, weight_decay: float = 1e-2, momentum: float = 0.95
    ) -> None:
        super().__init__(groups, lr=lr, weight_decay=weight_decay)
        self.momentum = momentum

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step of every weight that has a gradient."""
        done: list[tuple[Tensor, Tensor]] = []
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None and is_kernel(weight):
                    self._move(weight, weight.grad, group["lr"], group["weight_decay"])
                    done.append((weight, weight.grad))
                    weight.grad = None  # AdamW passes over what has none
        found = super().step(closure)
        for weight, gradient in done:
            weight.grad = gradient
        return found

    def _move(self, weight: Tensor, gradient: Tensor, rate: float, decay: float) -> None:
        state = self.state[weight]
        if not state:  # named as AdamW's are, which looks them through when it is restored
            state["step"], state["exp_avg"] = torch.zeros(()), torch.zeros_like(weight)
        state["step"] += 1
        mean = state["exp_avg"].lerp_(gradient, 1 - self.momentum)
        ahead = torch.lerp(gradient, mean, self.momentum)  # Nesterov's
        rows = ahead.movedim(1, -1).flatten(1)
        step = orthogonal(rows.float()).view_as(ahead.movedim(1, -1)).movedim(-1, 1)
        size = _LIKE_ADAMW * max(rows.shape) ** 0.5
        weight.mul_(1 - rate * decay).add_(step.to(weight.dtype), alpha=-rate * size)


def is_kernel(weight: Tensor) -> bool:
    """Whether a weight is a convolution's, with more than one voxel and more than one output."""
    return weight.ndim > 2 and len(weight) > 1 and weight.shape[2:].numel() > 1


def orthogonal(matrix: Tensor) -> Tensor:
    """The matrix with all its singular values near 1.

    X ← aX + bXXᵀX + c(XXᵀ)²X, five times, is one matrix of the smaller side times X; it is found
    from XXᵀ alone, so the longer side costs two products in place of ten.
    """
    if matrix.shape[0] > matrix.shape[1]:
        return orthogonal(matrix.mT).mT
    matrix = matrix / matrix.norm().clamp_min(1e-7)
    gram = matrix @ matrix.mT
    one = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    through = one
    for _ in range(_STEPS):
        factor = _A * one + _B * gram + _C * gram @ gram
        through, gram = factor @ through, factor @ gram @ factor
    return through @ matrix


def _sgd(groups: Groups, rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, lr=rate, momentum=0.9, weight_decay=1e-4)


def _adamw(groups: Groups, rate: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, lr=rate, weight_decay=1e-2)


OPTIMIZERS: dict[Name, Callable[[Groups, float], torch.optim.Optimizer]] = {
    "sgd": _sgd,
    "adamw": _adamw,
    "muon": Muon,
}
