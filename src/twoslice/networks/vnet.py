"""The V-Net of the paper, with the layer names of the published checkpoints.

Nine blocks: four down, one at the bottom, four up; the skips are added, not concatenated.
"""

from __future__ import annotations

from torch import Tensor, nn

from twoslice.networks.convolutions import Convolution, Scores, StepUp
from twoslice.networks.dropout import MapDropout
from twoslice.networks.norms import Normalisation, normalise
from twoslice.networks.padding import Triple, crop_to, pad_to_multiple

_STRIDE: Triple = (16, 16, 16)


class _Block(nn.Module):
    """`depth` times convolution, norm, ReLU; the parts are numbered in one list, `conv`."""

    def __init__(self, depth: int, inputs: int, outputs: int, norm: Normalisation) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for index in range(depth):
            convolution = Convolution(inputs if index == 0 else outputs, outputs, 3, padding=1)
            layers += [convolution, *normalise(norm, outputs), nn.ReLU(inplace=True)]
        self.conv = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return out


class _Step(nn.Module):
    """A 2×2×2 step with stride 2, down or up, then norm and ReLU."""

    def __init__(self, inputs: int, outputs: int, norm: Normalisation, *, up: bool) -> None:
        super().__init__()
        kind = StepUp if up else Convolution
        step = kind(inputs, outputs, 2, stride=2)
        self.conv = nn.Sequential(step, *normalise(norm, outputs), nn.ReLU(inplace=True))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return out


class VNet(nn.Module):
    """Scores (B, classes, I, J, K) for patches (B, channels, I, J, K) of any size.

    Args:
        channels: image channels.
        classes: classes of a voxel, background included.
        filters: feature maps of the first block; they double with every step down.
        normalisation: `batch` as published, or `instance`, `group`, `none`.
        dropout: share of feature maps dropped after the bottom block and before the last
            convolution; active while the module is in training mode.
    """

    def __init__(
        self,
        channels: int = 1,
        classes: int = 2,
        filters: int = 16,
        normalisation: Normalisation = "batch",
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        f, norm = filters, normalisation
        self.multiple = _STRIDE
        self.block_one = _Block(1, channels, f, norm)
        self.block_one_dw = _Step(f, 2 * f, norm, up=False)
        self.block_two = _Block(2, 2 * f, 2 * f, norm)
        self.block_two_dw = _Step(2 * f, 4 * f, norm, up=False)
        self.block_three = _Block(3, 4 * f, 4 * f, norm)
        self.block_three_dw = _Step(4 * f, 8 * f, norm, up=False)
        self.block_four = _Block(3, 8 * f, 8 * f, norm)
        self.block_four_dw = _Step(8 * f, 16 * f, norm, up=False)
        self.block_five = _Block(3, 16 * f, 16 * f, norm)
        self.block_five_up = _Step(16 * f, 8 * f, norm, up=True)
        self.block_six = _Block(3, 8 * f, 8 * f, norm)
        self.block_six_up = _Step(8 * f, 4 * f, norm, up=True)
        self.block_seven = _Block(3, 4 * f, 4 * f, norm)
        self.block_seven_up = _Step(4 * f, 2 * f, norm, up=True)
        self.block_eight = _Block(2, 2 * f, 2 * f, norm)
        self.block_eight_up = _Step(2 * f, f, norm, up=True)
        self.block_nine = _Block(1, f, f, norm)
        self.out_conv = Scores(f, classes)
        self.dropout = MapDropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores, on the voxels of `x`."""
        shape = tuple(x.shape[2:])
        one = self.block_one(pad_to_multiple(x, self.multiple))
        two = self.block_two(self.block_one_dw(one))
        three = self.block_three(self.block_two_dw(two))
        four = self.block_four(self.block_three_dw(three))
        five = self.dropout(self.block_five(self.block_four_dw(four)))
        six = self.block_six(self.block_five_up(five) + four)
        seven = self.block_seven(self.block_six_up(six) + three)
        eight = self.block_eight(self.block_seven_up(seven) + two)
        nine = self.block_nine(self.block_eight_up(eight) + one)
        return crop_to(self.out_conv(nine, self.dropout.scale(nine)), shape)
