"""Small made-up scans whose true label is known: textured slices that move with the object."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from twoslice.annotation.reading import annotation_at
from twoslice.annotation.types import SparseAnnotation
from twoslice.planes import Plane

Image = NDArray[np.float32]
Label = NDArray[np.uint8]


def texture(shape: tuple[int, ...], *, sigma: float = 2.0, seed: int = 0) -> Image:
    """Smooth noise of standard deviation 1."""
    noise = np.random.default_rng(seed).normal(size=shape)
    smooth = ndimage.gaussian_filter(noise, sigma, mode="reflect")
    return (smooth / smooth.std()).astype(np.float32)


def moving_disc(
    *,
    slices: int = 21,
    side: int = 64,
    shift: tuple[float, float] = (0.0, 0.0),
    scale: float = 1.0,
    turn: float = 0.0,
    seed: int = 0,
) -> tuple[Image, Label]:
    """A scan (side, side, slices) with an ellipse in its axial slices that moves by `shift`
    pixels, grows by `scale` and turns by `turn` degrees from each slice to the next.
    """
    rows, columns = np.mgrid[:side, :side] - (side - 1) / 2
    ellipse = (rows / 15) ** 2 + (columns / 10) ** 2 < 1
    base = ellipse * 2.0 + 0.35 * texture((side, side), seed=seed)
    image = np.empty((side, side, slices), np.float32)
    label = np.empty((side, side, slices), np.uint8)
    for k in range(slices):
        step = k - slices // 2
        angle, size = math.radians(turn * step), scale**step
        matrix = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        matrix = matrix / size
        centre = np.full(2, (side - 1) / 2)
        offset = centre - matrix @ (centre + np.array(shift) * step)
        image[..., k] = ndimage.affine_transform(base, matrix, offset, order=1, mode="nearest")
        moved = ndimage.affine_transform(ellipse.astype(float), matrix, offset, order=1)
        label[..., k] = moved > 0.5
    noise = np.random.default_rng(seed + 1).normal(0, 0.03, image.shape)
    return (image + noise).astype(np.float32), label


def two_blobs(
    shape: tuple[int, int, int] = (40, 36, 32), *, seed: int = 0, channels: int = 1
) -> tuple[Image, Label]:
    """A scan (C, I, J, K) of two ellipsoids that touch, of different intensity, in texture."""
    i, j, k = np.mgrid[: shape[0], : shape[1], : shape[2]]
    a = ((i - 15) / 9) ** 2 + ((j - 17) / 8) ** 2 + ((k - 15) / 9) ** 2 < 1
    b = ((i - 26) / 6) ** 2 + ((j - 18) / 7) ** 2 + ((k - 16) / 8) ** 2 < 1
    label = np.where(a, 1, np.where(b, 2, 0)).astype(np.uint8)
    image = np.stack(
        [
            np.array([0.0, 2.0, 3.2])[label] * (1 - 0.3 * n) + 0.4 * texture(shape, seed=seed + n)
            for n in range(channels)
        ]
    )
    return image.astype(np.float32), label


def drawn(label: Label, **slots: int | tuple[int, ...]) -> SparseAnnotation:
    """The annotation that shows the slices named, such as `axial=15` or `coronal=(10, 20)`."""
    chosen = []
    for plane, indices in slots.items():
        for index in indices if isinstance(indices, tuple) else (indices,):
            chosen.append((Plane(plane), index))
    return annotation_at(label, chosen)


def dice(one: Label, other: Label, value: int = 1) -> float:
    """The Dice coefficient of one class, in percent of 1."""
    mine, theirs = one == value, other == value
    return 2 * float((mine & theirs).sum()) / float(mine.sum() + theirs.sum())
