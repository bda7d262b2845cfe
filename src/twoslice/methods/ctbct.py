"""CTBCT: cross teaching between a CNN and a transformer (Luo et al., MIDL 2022)."""

from __future__ import annotations

from torch import Tensor, nn

from twoslice.methods.cross_taught import CrossTaught
from twoslice.networks.build import NetworkPlan
from twoslice.objectives.losses import weighted_dice


class CrossTeaching(CrossTaught):
    """The recipe's network and a UNETR teach each other on unlabelled patches, by Dice. The
    transformer serves the training alone: the network predicts.
    """

    @classmethod
    def plans(cls, plan: NetworkPlan) -> list[NetworkPlan]:
        """The recipe's network, and a UNETR as wide."""
        return [plan, plan.model_copy(update={"kind": "unetr"})]

    @property
    def predicting(self) -> list[nn.Module]:
        """The first network alone."""
        return list(self.networks)[:1]

    def teach(self, scores: Tensor, pseudo: Tensor, *, unlabeled: int) -> Tensor:
        """Dice on the unlabelled patches."""
        start = len(scores) - unlabeled
        known = scores.new_ones(pseudo[start:].shape)
        return weighted_dice(scores[start:], pseudo[start:], known)
