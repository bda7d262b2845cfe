"""Consistency: a student's softmax close to its teacher's, where the teacher is to be heard."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from twoslice.objectives.everywhere import sum_everywhere
from twoslice.objectives.losses import EPS


def softmax_distance(
    logits: Float[Tensor, "B C I J K"],
    target: Float[Tensor, "B C I J K"],
    where: Bool[Tensor, "B I J K"] | None = None,
) -> Float[Tensor, ""]:
    """The squared difference between the logits' softmax and `target`, mean over the classes and
    over the voxels of `where` (all, if it is not given); 0 where there is none.
    """
    apart = (logits.softmax(dim=1) - target).square().mean(dim=1)
    weight = apart.new_ones(apart.shape) if where is None else where.to(apart.dtype)
    return sum_everywhere((weight * apart).sum()) / sum_everywhere(weight.sum()).clamp_min(EPS)
