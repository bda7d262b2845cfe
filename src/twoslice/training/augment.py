"""Augmentation: how a patch may be turned and how its intensities may vary, from a random source
that the caller seeds. Cheap on a CPU: turning, scaling and mirroring are one look-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from twoslice.io.grid import Shape
from twoslice.training.poses import Matrix

_LATTICE = 5
_THICK = 2.5  # beyond this ratio of spacings, turning out of the fine plane only blurs


@dataclass(frozen=True)
class Augmentation:
    """How far patches may be varied; everything at its default leaves them as they are."""

    quarter_turns: bool = False
    """Turn in the axial plane by multiples of 90°."""
    flips: tuple[bool, bool, bool] = (False, False, False)
    """Mirror along I, J, K, each with probability one half."""
    angle: float = 0.0
    """Largest turn about each axis, in degrees."""
    scale: float = 0.0
    """Largest growth or shrinkage, as a share, of each axis by itself."""
    bend: float = 0.0
    """Deviation of a smooth random deformation, as a share of its lattice's spacing."""
    overhang: float = 0.0
    """How much of a patch's side may lie outside the scan: a patch as large as the scan would
    else show the drawn slices in the same place each time, and only that place is learned."""
    turned_share: float = 0.0
    """How many of the patches are turned, scaled and bent."""
    brightness: float = 0.0
    contrast: float = 0.0
    gamma: float = 0.0
    noise: float = 0.0
    bias: float = 0.0
    """Amplitude of a smooth multiplicative field, such as a coil's."""

    def matrix(self, rng: np.random.Generator, voxel: Sequence[float]) -> Matrix:
        """A random way to lay the patch into the scan (see `Pose`); `voxel` is its spacing."""
        matrix = np.eye(3)
        if self.turned_share and rng.random() < self.turned_share:
            matrix = self._turn(rng, np.array(voxel))
        if self.quarter_turns:
            quarters = int(rng.integers(4))
            matrix = matrix @ np.linalg.matrix_power(_QUARTER, quarters)
        signs = [-1.0 if flip and rng.random() < 0.5 else 1.0 for flip in self.flips]
        laid: Matrix = matrix * np.array(signs)[None, :]
        return laid

    def lattice(self, rng: np.random.Generator, patch: Shape) -> NDArray[np.float64] | None:
        """Offsets that bend a patch smoothly (see `Pose`), or None for one that stays straight."""
        if not self.bend or rng.random() >= self.turned_share:
            return None
        spacing = np.array(patch) / (_LATTICE - 1)
        drawn = rng.standard_normal((3, _LATTICE, _LATTICE, _LATTICE)).clip(-2, 2)
        offsets: NDArray[np.float64] = drawn * (self.bend * spacing)[:, None, None, None]
        return offsets

    def _turn(self, rng: np.random.Generator, voxel: np.ndarray) -> Matrix:
        angles = np.deg2rad(rng.uniform(-self.angle, self.angle, 3))
        for axis in range(3):
            plane = np.delete(voxel, axis)
            if plane.max() / plane.min() > _THICK:
                angles[axis] = 0.0
        matrix = np.eye(3)
        for axis, angle in enumerate(angles):
            matrix = matrix @ _rotation(axis, float(angle))
        grown = matrix * (1.0 + rng.uniform(-self.scale, self.scale, 3))[None, :]
        turned: Matrix = grown * voxel[None, :] / voxel[:, None]  # a turn in mm, told in voxels
        return turned

    def intensity(self, rng: np.random.Generator, image: Tensor) -> Tensor:
        """The z-scored patch (C, I, J, K) with its intensities varied, each channel by itself."""
        return torch.stack([self._vary(rng, channel) for channel in image])

    def _vary(self, rng: np.random.Generator, channel: Tensor) -> Tensor:
        if self.bias:
            channel = channel * _smooth_field(rng, self.bias, channel)
        if self.gamma and rng.random() < 0.3:
            low, high = channel.min(), channel.max()
            power = float(np.exp(rng.uniform(-self.gamma, self.gamma)))
            span = (high - low).clamp_min(1e-6)
            channel = ((channel - low) / span).pow(power) * span + low
        if self.contrast:
            channel = channel * (1.0 + rng.uniform(-self.contrast, self.contrast))
        if self.brightness:
            channel = channel + rng.uniform(-self.brightness, self.brightness)
        if self.noise and rng.random() < 0.5:
            deviation = rng.uniform(0.0, self.noise)
            grain = rng.standard_normal(tuple(channel.shape), dtype=np.float32)
            channel = channel + torch.from_numpy(grain) * deviation
        return channel


_QUARTER = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


def _rotation(axis: int, angle: float) -> Matrix:
    """A turn about one axis."""
    first, second = [other for other in range(3) if other != axis]
    matrix = np.eye(3)
    matrix[first, first] = matrix[second, second] = np.cos(angle)
    matrix[first, second], matrix[second, first] = -np.sin(angle), np.sin(angle)
    return matrix


def _smooth_field(rng: np.random.Generator, amplitude: float, like: Tensor) -> Tensor:
    """Random corners of a 3×3×3 lattice around 1, linear between them, over the patch."""
    corners = rng.uniform(1.0 - amplitude, 1.0 + amplitude, (1, 1, 3, 3, 3)).astype(np.float32)
    field = F.interpolate(
        torch.from_numpy(corners), size=tuple(like.shape), mode="trilinear", align_corners=True
    )
    return field[0, 0]


def quarter_turns() -> Augmentation:
    """The paper's: a turn by a multiple of 90° in the axial plane and a flip in it."""
    return Augmentation(quarter_turns=True, flips=(True, True, False))


def rich(*, flips: bool) -> Augmentation:
    """The modern recipe's: turns, scale, brightness, contrast, gamma, noise, a smooth field."""
    return Augmentation(
        flips=(flips, flips, flips),
        angle=15.0,
        scale=0.2,
        overhang=0.25,
        bend=0.1,
        turned_share=0.7,
        brightness=0.3,
        contrast=0.25,
        gamma=0.3,
        noise=0.15,
        bias=0.2,
    )
