"""What a registrar is, and the registrars there are.

The displacement between two neighbouring slices does not depend on the label, so a registrar gets
all pairs at once and the label is carried through afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from twoslice.propagation.operators import Size, pixel, resize

Slices = Tensor
"""(N, C, H, W): N slices of C channels; for a registrar, intensities of about 0 to 1."""


@dataclass(frozen=True, eq=False)
class Displacements:
    """For N pairs: where each pixel of the fixed slice finds its content in the moving one.

    `field` is (N, 2, h, w), along columns then rows, in halves of the slice's side (the units of
    `grid_sample`). Its h × w nodes reach from corner to corner and may be fewer than the pixels:
    a smooth field at half resolution takes a quarter of the memory.
    """

    field: Tensor
    size: Size

    def __len__(self) -> int:
        return len(self.field)

    def at(self, pair: int) -> Tensor:
        """(1, 2, H, W): one pair's field on every pixel, in the units of `operators.sample`."""
        return resize(self.field[pair : pair + 1].float(), self.size)

    def pixels(self) -> Tensor:
        """(N, 2, H, W): rows then columns, in pixels."""
        full = resize(self.field.float(), self.size)
        return (full / pixel(self.size, full.device)).flip(1)

    @classmethod
    def from_pixels(cls, pixels: Tensor) -> Displacements:
        """The inverse of `pixels`."""
        height, width = pixels.shape[-2:]
        return cls(pixels.flip(1) * pixel((height, width), pixels.device), (height, width))

    @classmethod
    def join(cls, parts: list[Displacements], size: Size) -> Displacements:
        """The pairs of several calls in a row."""
        return cls(torch.cat([part.field for part in parts]), size)


class Registrar(Protocol):
    """Find, for each pair, the displacement that brings `moving` onto `fixed`."""

    def __call__(self, *, fixed: Slices, moving: Slices) -> Displacements:
        """Register pair n = (fixed[n], moving[n]), for every n."""
        ...


def _batched() -> Registrar:
    from twoslice.propagation.batched import BatchedRegistrar

    return BatchedRegistrar()


def _ants() -> Registrar:
    from twoslice.propagation.ants import AntsRegistrar

    return AntsRegistrar()


REGISTRARS: dict[str, Callable[[], Registrar]] = {"batched": _batched, "ants": _ants}
