"""The teacher of Mean Teacher: an exponential mean of the student, never trained itself."""

from __future__ import annotations

import copy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from twoslice.objectives.uncertainty import add_noise


class Teacher(nn.Module):
    """A network whose weights are the exponential mean of a student's (Tarvainen & Valpola, 2017).

    The rate starts as the plain mean over the steps so far, 1 − 1 / (step + 1), and stays at
    `decay` once it is there. The teacher is in training mode as the student is: dropout is its
    perturbation, and batch norm keeps statistics of its own. All of it is in the state dict.
    """

    updates: Tensor

    def __init__(self, student: nn.Module, decay: float) -> None:
        super().__init__()
        self.network = copy.deepcopy(student).requires_grad_(False)
        self.decay = decay
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def follow(self, student: nn.Module) -> None:
        """Take the student's weights in, after a step of the optimizer."""
        step = int(self.updates)
        rate = min(1.0 - 1.0 / (step + 1), self.decay)
        for mine, new in zip(self.network.parameters(), student.parameters(), strict=True):
            mine.lerp_(new, 1.0 - rate)
        self.updates += 1

    @torch.no_grad()
    def scores(self, image: Float[Tensor, "B C I J K"]) -> Float[Tensor, "B C2 I J K"]:
        """What the teacher says of the image under noise; without a gradient."""
        out: Tensor = self.network(add_noise(image))
        return out
