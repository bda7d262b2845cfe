"""Where a network is certain: entropy of its softmax, from one pass or from many noisy ones."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from twoslice.abreast import generator

NOISE = 0.1
NOISE_LIMIT = 0.2


def entropy(probabilities: Float[Tensor, "B C I J K"]) -> Float[Tensor, "B I J K"]:
    """−Σ p ln p in nats: 0 where one class has it all, ln C where all are alike."""
    summands: Tensor = torch.special.entr(probabilities)
    return summands.sum(dim=1)


def softmax_entropy(logits: Float[Tensor, "B C I J K"]) -> Float[Tensor, "B I J K"]:
    """The entropy of one pass: what the modern recipe takes, at no further pass."""
    return entropy(torch.softmax(logits, dim=1))


def add_noise(image: Float[Tensor, "B C I J K"]) -> Float[Tensor, "B C I J K"]:
    """The image with noise N(0, 0.1²) clipped to ±0.2."""
    noise = torch.empty_like(image).normal_(0.0, NOISE, generator=generator())
    return image + noise.clamp_(-NOISE_LIMIT, NOISE_LIMIT)


def monte_carlo_probabilities(
    network: Callable[[Tensor], Tensor],
    image: Float[Tensor, "B C I J K"],
    *,
    passes: int = 8,
    at_once: int = 2,
) -> Float[Tensor, "B C I J K"]:
    """The mean softmax of `passes` stochastic passes: dropout as the network has it on, and input
    noise N(0, 0.1²) clipped to ±0.2, `at_once` passes in one batch.
    """
    total: Tensor | None = None
    with torch.no_grad():
        for start in range(0, passes, at_once):
            copies = min(at_once, passes - start)
            repeated = image.repeat(copies, 1, 1, 1, 1)
            p = F.softmax(network(add_noise(repeated)), dim=1)
            summed = p.view(copies, *image.shape[:1], *p.shape[1:]).sum(dim=0)
            total = summed if total is None else total + summed
    assert total is not None
    return total / passes
