"""What predicts in a run, as one module: the mean of its networks' softmax.

This file goes into every bundle as it is, with the files that it imports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from twoslice.networks.build import NetworkPlan, build_network


class Ensemble(nn.Module):
    """Probabilities (B, classes, I, J, K) for images (B, C, I, J, K) of any size.

    Args:
        plans: one for each network, as `plan.json` of a run has them.
        classes: how many of a network's outputs are classes; outputs beyond are for training only.
    """

    def __init__(self, plans: Sequence[NetworkPlan | Mapping[str, Any]], classes: int) -> None:
        super().__init__()
        checked = [NetworkPlan.model_validate(plan) for plan in plans]
        self.networks = nn.ModuleList(build_network(plan) for plan in checked)
        self.classes, self.plans = classes, checked

    def forward(self, image: Tensor) -> Tensor:
        """The mean of the networks' softmax."""
        members = [network(image)[:, : self.classes].softmax(dim=1) for network in self.networks]
        return torch.stack(members).mean(dim=0)
