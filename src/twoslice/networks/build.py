"""Which network, how wide, how deep: a plan that is saved with the run, and the network from it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from twoslice.networks.norms import Normalisation
from twoslice.networks.padding import Triple
from twoslice.networks.unet import UNet
from twoslice.networks.unetr import Unetr
from twoslice.networks.vnet import VNet


class NetworkPlan(BaseModel):
    """All that is needed to build one network again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["vnet", "unet", "unetr"]
    channels: int = Field(ge=1)
    classes: int = Field(ge=2)
    filters: int = Field(ge=1)
    dropout: float = Field(0.0, ge=0.0, lt=1.0)
    normalisation: Normalisation = "instance"
    strides: tuple[Triple, ...] = ((2, 2, 2),) * 3
    kernels: tuple[Triple, ...] = ((3, 3, 3),) * 4
    size: Triple = (96, 96, 96)
    """The patch of the training: the most that a UNETR takes; the others take any."""


def build_network(plan: NetworkPlan) -> nn.Module:
    """The planned network, freshly initialised from PyTorch's random state."""
    if plan.kind == "vnet":
        return VNet(plan.channels, plan.classes, plan.filters, plan.normalisation, plan.dropout)
    if plan.kind == "unetr":
        return Unetr(plan.channels, plan.classes, plan.filters, plan.size)
    return UNet(plan.channels, plan.classes, plan.filters, plan.strides, plan.kernels, plan.dropout)
