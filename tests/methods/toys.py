"""Small plans, batches and methods."""

from __future__ import annotations

import torch

from twoslice.methods.base import Batch, Method, View
from twoslice.methods.registry import METHODS
from twoslice.networks.build import NetworkPlan
from twoslice.settings import Settings, parse_settings

PATCH = (12, 10, 7)


def settings_of(method: str, **sections: object) -> Settings:
    return parse_settings({"method": method, **sections})


def plan(classes: int = 3, kind: str = "unet") -> NetworkPlan:
    return NetworkPlan.model_validate(
        {
            "kind": kind, "channels": 2, "classes": classes, "filters": 2,
            "strides": ((2, 2, 1), (2, 2, 2)), "kernels": ((3, 3, 1), (3, 3, 3), (3, 3, 3)),
            "normalisation": "instance", "dropout": 0.0, "size": PATCH,
        }
    )  # fmt: skip


def batch(classes: int = 3, views: int = 2, unlabeled: int = 1) -> Batch:
    generator = torch.Generator().manual_seed(1)
    labels = [
        View(
            torch.randint(0, classes, (1, *PATCH), generator=generator),
            torch.randint(0, 9, (1, *PATCH), generator=generator),
        )
        for _ in range(views)
    ]
    return Batch(
        torch.randn(1, 2, *PATCH, generator=generator),
        torch.randn(unlabeled, 2, *PATCH, generator=generator),
        tuple(labels),
        ("a", "b"),
    )


def build(method: str, *, classes: int = 3, kind: str = "unet", **sections: object) -> Method:
    torch.manual_seed(0)
    return METHODS[method](plan(classes, kind), settings_of(method, **sections))
