"""MONAI's UNETR (Hatamizadeh et al., 2022), for patches up to the size it is built for."""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F
from torch import Tensor, nn

from twoslice.networks.norms import InstanceNorm
from twoslice.networks.padding import Triple, crop_to

_TOKEN = 16
_HEADS = 12


class Unetr(nn.Module):
    """Scores (B, classes, I, J, K) for patches (B, channels, I, J, K) of at most `size` voxels.

    Where a token lies is learned for one size, which every patch is padded to.

    Args:
        channels: image channels.
        classes: classes of a voxel, background included.
        filters: feature maps at full size; the transformer is 48 times as wide, so that 16 give
            the published widths (768, and 3072 between).
        size: the patch of the training; rounded up to whole tokens of 16 voxels.
    """

    def __init__(self, channels: int, classes: int, filters: int, size: Triple) -> None:
        super().__init__()
        from monai.networks.nets import UNETR

        i, j, k = (-(-side // _TOKEN) * _TOKEN for side in size)
        self.multiple: Triple = (i, j, k)
        width = 48 * filters
        self.network = UNETR(
            in_channels=channels,
            out_channels=classes,
            img_size=self.multiple,
            feature_size=filters,
            hidden_size=width,
            mlp_dim=4 * width,
            num_heads=_HEADS,
        )
        _mend(self.network)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores, on the voxels of `x`."""
        shape = tuple(x.shape[2:])
        i, j, k = (whole - side for whole, side in zip(self.multiple, shape, strict=True))
        if min(i, j, k) < 0:
            raise ValueError(f"a UNETR for {self.multiple} voxels was given {shape}")
        x = F.pad(x, (0, k, 0, j, 0, i), mode="replicate") if max(i, j, k) else x
        return crop_to(self.network(x), shape)


def _mend(network: nn.Module) -> None:
    """Our instance norm in place of PyTorch's, whose gradient is wrong for channels-last patches;
    and no weights that nothing uses, which several devices would wait for.
    """
    for parent, name, child in list(_children(network)):
        if isinstance(child, nn.InstanceNorm3d):
            setattr(parent, name, InstanceNorm(child.num_features))
        elif name == "norm_cross_attn":
            setattr(parent, name, nn.Identity())


def _children(network: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Module]]:
    for parent in network.modules():
        for name, child in parent.named_children():
            yield parent, name, child
