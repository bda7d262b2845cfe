"""One plane of a scan as a stack of slices, with what was drawn in it and what crosses it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from twoslice.annotation.types import AnnotatedSlice, SparseAnnotation
from twoslice.errors import AnnotationError
from twoslice.planes import Plane
from twoslice.propagation.carry import Crossing, Walk
from twoslice.propagation.intensity import quantize
from twoslice.propagation.operators import Size, sample
from twoslice.propagation.registrars import Displacements, Registrar


@dataclass(frozen=True, eq=False)
class Stack:
    """The slices (N, C, H, W) of one plane, a view of the scan, and the drawn ones' classes."""

    plane: Plane
    slices: Tensor
    masks: dict[int, Tensor]

    @classmethod
    def of(cls, plane: Plane, image: Tensor, annotation: SparseAnnotation) -> Stack:
        """One plane of a normalized image (C, I, J, K)."""
        drawn = {each.index: torch.from_numpy(each.mask) for each in annotation.in_plane(plane)}
        return cls(plane, image.movedim(1 + plane.axis, 0), drawn)

    @cached_property
    def bins(self) -> Tensor:
        """The slices as histogram bins, as `Appearance` looks them up."""
        return quantize(self.slices)

    @property
    def size(self) -> Size:
        """Rows and columns of a slice."""
        return self.slices.shape[-2], self.slices.shape[-1]

    def pieces(self) -> list[tuple[int, range]]:
        """Each drawn slice with the slices to be reached from it, on either side, in order.

        A way ends before the next drawn slice or at the scan's border.
        """
        drawn = sorted(self.masks)
        bounds = [-1, *drawn, len(self.slices)]
        pieces = []
        for place, source in enumerate(drawn, start=1):
            pieces.append((source, range(source + 1, bounds[place + 1])))
            pieces.append((source, range(source - 1, bounds[place - 1], -1)))
        return [(source, targets) for source, targets in pieces if len(targets)]

    def share(self, source: int, target: int) -> float:
        """How much `source` has to say on `target`: all, or less towards another drawn slice."""
        low, high = min(source, target), max(source, target)
        beyond = [i for i in self.masks if (i > high if target > source else i < low)]
        if not beyond:
            return 1.0
        other = min(beyond, key=lambda index: abs(index - target))
        return 1 - abs(target - source) / abs(other - source)

    def register(self, registrar: Registrar) -> list[Walk]:
        """The ways from every drawn slice, with the displacement of each step."""
        walks = []
        for source, targets in self.pieces():
            fixed, moving = self._pairs(source, targets)
            fields = registrar(fixed=fixed, moving=moving)
            forward = targets.step > 0
            pairs = range(len(targets)) if forward else range(len(targets) - 1, -1, -1)
            walks.append(Walk(source, targets, fields, pairs))
        return walks

    def cycle_error(self, walks: Iterable[Walk], registrar: Registrar) -> Tensor:
        """(N, h, w): pixels between a place and where there and back again leads, on the nodes of
        the fields; 0 on drawn slices. Where two ways meet, the greater.
        """
        found: dict[int, Tensor] = {}
        for walk in walks:
            fixed, moving = self._pairs(walk.source, walk.targets)
            back = registrar(fixed=moving, moving=fixed)
            error = _there_and_back(walk.fields, back)
            for pair, target in zip(walk.pairs, walk.targets, strict=True):
                known = found.get(target)
                found[target] = error[pair] if known is None else known.maximum(error[pair])
        nodes = next(iter(found.values())).shape if found else self.size
        empty = torch.zeros(nodes)
        return torch.stack([found.get(index, empty) for index in range(len(self.slices))])

    def _pairs(self, source: int, targets: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The slices to be reached and those they are reached from, by index (views)."""
        low, high = min(targets), max(targets)
        toward = 1 if targets[0] > source else -1
        return self.slices[low : high + 1], self.slices[low - toward : high + 1 - toward]


def _there_and_back(there: Displacements, back: Displacements) -> Tensor:
    """(N, h, w): the length of d(x) + d'(x + d(x)) in pixels."""
    round_trip = there.field + sample(back.field, there.field)
    height, width = there.size
    unit = torch.tensor([(width - 1) / 2, (height - 1) / 2]).view(1, 2, 1, 1)
    return (round_trip * unit).square().sum(1).sqrt()


def crossings(stack: Stack, annotation: SparseAnnotation) -> tuple[Crossing, ...]:
    """What the slices drawn in other planes show where they cut this plane's slices."""
    return tuple(
        Crossing(axis, drawn.index, torch.from_numpy(classes))
        for drawn in annotation.slices
        if drawn.plane != stack.plane
        for axis, classes in [cut(drawn, stack.plane)]
    )


def cut(drawn: AnnotatedSlice, plane: Plane) -> tuple[int, NDArray[np.uint8]]:
    """How `drawn` cuts the slices of another plane: as a row (0) or column (1), and its classes
    (slices, pixels of the cut).
    """
    others = [axis for axis in range(3) if axis != plane.axis]
    own = [axis for axis in range(3) if axis != drawn.plane.axis]
    classes = np.moveaxis(drawn.mask, own.index(plane.axis), 0)
    return others.index(drawn.plane.axis), np.ascontiguousarray(classes)


def radii(drawn: Iterable[AnnotatedSlice], classes: int) -> tuple[float, ...]:
    """A class's radius in pixels, of a disc as large as its largest drawn area; at least 1."""
    areas = np.array([np.bincount(each.mask.ravel(), minlength=classes) for each in drawn])
    largest = areas[:, 1:].max(axis=0)
    return tuple(max(1.0, math.sqrt(area / math.pi)) for area in largest)


def refuse_unusable(annotation: SparseAnnotation, classes: int) -> None:
    """Say what keeps an annotation from being carried anywhere."""
    if not annotation.slices:
        raise AnnotationError("no slice is drawn. Draw one or more, best in two planes.")
    for drawn in annotation.slices:
        where = f"{drawn.plane} slice {drawn.index}"
        if annotation.shape[drawn.plane.axis] < 2:
            raise AnnotationError(
                f"{where} is the scan's only {drawn.plane} slice: there is no neighbour to carry "
                f"it to. Draw in another plane."
            )
        if not drawn.mask.any():
            raise AnnotationError(
                f"{where} shows no target: there is nothing to carry. Draw a slice on which the "
                f"target shows, or set this one to 'ignore'."
            )
        if int(drawn.mask.max()) >= classes:
            raise AnnotationError(
                f"{where} holds class {int(drawn.mask.max())}, expected 0 to {classes - 1}. "
                f"Repaint it or name the class in dataset.json."
            )
