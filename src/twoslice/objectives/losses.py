"""The supervised and cross-supervision losses (Eq. 3 to 6), for any number of classes.

Each is averaged over voxel weight and is 0, with a gradient of 0, where no voxel carries weight.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from twoslice.objectives.everywhere import sum_everywhere

EPS = 1e-8


def weighted_cross_entropy(
    logits: Float[Tensor, "B C I J K"],
    label: Int[Tensor, "B I J K"],
    weight: Float[Tensor, "B I J K"],
) -> Float[Tensor, ""]:
    """Eq. 3: cross entropy averaged over voxel weight; 0 where no voxel carries weight."""
    known = _known(label, weight)
    per_voxel = F.cross_entropy(logits, known, reduction="none")
    summed = sum_everywhere((weight * per_voxel).sum())
    return summed / sum_everywhere(weight.sum()).clamp_min(EPS)


def soft_cross_entropy(
    logits: Float[Tensor, "B C I J K"],
    probabilities: Float[Tensor, "B C2 I J K"],
    weight: Float[Tensor, "B I J K"],
) -> Float[Tensor, ""]:
    """Cross entropy to probabilities in the place of labels, averaged over voxel weight."""
    logs = logits[:, : probabilities.shape[1]].log_softmax(dim=1)
    summed = sum_everywhere(-(weight * (probabilities * logs).sum(dim=1)).sum())
    return summed / sum_everywhere(weight.sum()).clamp_min(EPS)


def soft_dice(
    logits: Float[Tensor, "B C I J K"],
    probabilities: Float[Tensor, "B C2 I J K"],
    weight: Float[Tensor, "B I J K"],
) -> Float[Tensor, ""]:
    """1 − 2 Σ w p q / Σ w (p² + q²) to probabilities q, the mean over the foreground classes.

    A class that q calls likely nowhere adds nothing: who has not found it yet must not teach that
    it is not there.
    """
    classes = probabilities.shape[1]
    p = logits[:, :classes].softmax(dim=1)
    losses = []
    for index in range(1, classes):
        said = probabilities[:, index]
        found = sum_everywhere(((said > 0.5) & (weight > 0)).sum().float()) > 0
        loss = _dice_of(p[:, index], said, weight)
        losses.append(torch.where(found, loss, torch.zeros_like(loss)))
    return torch.stack(losses).mean()


def teaching_loss(
    logits: Float[Tensor, "B C I J K"],
    probabilities: Float[Tensor, "B C2 I J K"],
    weight: Float[Tensor, "B I J K"],
    *,
    dice: float = 0.5,
) -> Float[Tensor, ""]:
    """Eq. 5 with probabilities in the place of labels: cross entropy and Dice, `dice` of it Dice.

    Dice pays for foreground that is more often wrong than right, so those who teach each other by
    it grow a little each round; cross entropy alone lets the larger class win instead.
    """
    entropy = soft_cross_entropy(logits, probabilities, weight)
    return (1 - dice) * entropy + dice * soft_dice(logits, probabilities, weight)


def weighted_dice(
    logits: Float[Tensor, "B C I J K"],
    label: Int[Tensor, "B I J K"],
    weight: Float[Tensor, "B I J K"],
) -> Float[Tensor, ""]:
    """Eq. 4: 1 − 2 Σ w p y / Σ w (p² + y²), the mean over the foreground classes.

    A class without a weighted voxel adds a constant and no gradient: the cross entropy is what
    then keeps the network from predicting it.
    """
    known = _known(label, weight)
    p = torch.softmax(logits, dim=1)
    losses = []
    for index in range(1, logits.shape[1]):
        losses.append(_dice_of(p[:, index], (known == index).float(), weight))
    return torch.stack(losses).mean()


def segmentation_loss(
    logits: Float[Tensor, "B C I J K"],
    label: Int[Tensor, "B I J K"],
    weight: Float[Tensor, "B I J K"],
) -> Float[Tensor, ""]:
    """Eq. 5: the mean of weighted cross entropy and weighted Dice."""
    return 0.5 * weighted_cross_entropy(logits, label, weight) + 0.5 * weighted_dice(
        logits, label, weight
    )


def cross_supervision(
    logits: Float[Tensor, "B C I J K"],
    pseudo: Int[Tensor, "B I J K"],
    certain: Bool[Tensor, "B I J K"],
) -> Float[Tensor, ""]:
    """Eq. 6: cross entropy to the peer's hard labels, on the voxels where the peer is certain."""
    return weighted_cross_entropy(logits, pseudo, certain.float())


def _dice_of(p: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """1 − 2 Σ w p y / Σ w (p² + y²) of one class."""
    overlap = sum_everywhere((weight * p * y).sum())
    size = sum_everywhere((weight * (p**2 + y**2)).sum())
    return (size - 2 * overlap) / size.clamp_min(EPS)


def _known(label: Tensor, weight: Tensor) -> Tensor:
    """Labels with 0 wherever the weight is 0: an ignored value must neither count nor crash."""
    return torch.where(weight > 0, label, torch.zeros_like(label))
