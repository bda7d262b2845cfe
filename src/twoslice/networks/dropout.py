"""Dropout of whole feature maps, from the chance of whoever runs the network."""

from __future__ import annotations

from torch import Tensor, nn

from twoslice.abreast import generator


class MapDropout(nn.Module):
    """While training, each feature map is nothing with probability `p`, and the others are scaled
    up to make up for it; as `nn.Dropout3d`.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """`x`, some of its maps dropped."""
        scale = self.scale(x)
        return x if scale is None else x * scale

    def scale(self, x: Tensor) -> Tensor | None:
        """What each feature map (B, C, 1, 1, 1) is multiplied by; None where nothing is dropped."""
        if not self.training or not self.p:
            return None
        kept = x.new_empty(*x.shape[:2], 1, 1, 1).bernoulli_(1.0 - self.p, generator=generator())
        return kept.div_(1.0 - self.p)
