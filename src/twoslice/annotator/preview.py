"""The moment in which two slices become a volume: propagation of what is drawn, at once.

The preview is a look, not a file: `twoslice propagate` makes the views that training reads, at
full size. Here a large scan is first averaged down until a few seconds are enough.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.types import AnnotatedSlice, SparseAnnotation
from twoslice.annotator.pictures import Picture
from twoslice.annotator.runs import Mask
from twoslice.io.grid import Shape
from twoslice.planes import Plane
from twoslice.settings import PropagationSettings

if TYPE_CHECKING:
    from twoslice.propagation.propagate import Propagated

MOST_VOXELS = 2_500_000
"""190 × 142 × 88, a full left-atrium scan, takes about two seconds on two cores."""

Steps = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Preview:
    """The fused label view of one drawing, on a grid coarser by `steps`."""

    version: str
    label: NDArray[np.uint8]
    steps: Steps
    shape: Shape
    seconds: float
    expected: float | None

    def slice_mask(self, plane: Plane, index: int) -> Mask:
        """One slice on the scan's own grid."""
        coarse = min(index // self.steps[plane.axis], self.label.shape[plane.axis] - 1)
        mask = plane.take(self.label, coarse)
        axes = [axis for axis in range(3) if axis != plane.axis]
        for place, axis in enumerate(axes):
            where = np.arange(self.shape[axis]) // self.steps[axis]
            mask = mask.take(np.minimum(where, mask.shape[place] - 1), axis=place)
        return np.ascontiguousarray(mask)


def make_preview(
    picture: Picture, annotation: SparseAnnotation, *, classes: int, version: str
) -> Preview:
    """Propagate the drawn slices of one scan."""
    start = time.monotonic()
    steps = _steps(picture.shape)
    image = np.stack([_reduced(channel.codes, steps) for channel in picture.channels])
    coarse = _coarse(annotation, steps, (image.shape[1], image.shape[2], image.shape[3]))
    result = _propagate(image, coarse, classes, picture, steps)
    return Preview(
        version=version,
        label=result.views["fused"].label,
        steps=steps,
        shape=picture.shape,
        seconds=time.monotonic() - start,
        expected=result.quality.expected,
    )


def import_registrar() -> None:
    """Import what propagation needs, ahead of the first preview."""
    import twoslice.propagation.propagate  # noqa: F401


def _propagate(
    image: NDArray[np.float32],
    annotation: SparseAnnotation,
    classes: int,
    picture: Picture,
    steps: Steps,
) -> Propagated:
    # torch is imported here, so that the page is there at once.
    from twoslice.propagation.propagate import propagate_scan

    sides = [side * step for side, step in zip(picture.grid.ras.spacing, steps, strict=True)]
    return propagate_scan(
        image,
        annotation,
        classes=classes,
        spacing=(sides[0], sides[1], sides[2]),
        settings=PropagationSettings(cycle=False),
    )


def _steps(shape: Shape) -> Steps:
    """How many voxels become one along each axis: the longest sides are halved first."""
    steps = [1, 1, 1]
    while np.prod([side // step for side, step in zip(shape, steps, strict=True)]) > MOST_VOXELS:
        sides = [side / step for side, step in zip(shape, steps, strict=True)]
        steps[int(np.argmax(sides))] += 1
    return steps[0], steps[1], steps[2]


def _reduced(codes: NDArray[np.uint8] | NDArray[np.uint16], steps: Steps) -> NDArray[np.float32]:
    """Blocks averaged; what is over at the far ends is left out."""
    i, j, k = (side // step for side, step in zip(codes.shape, steps, strict=True))
    whole = codes[: i * steps[0], : j * steps[1], : k * steps[2]]
    blocks = whole.reshape(i, steps[0], j, steps[1], k, steps[2])
    return np.asarray(blocks.mean(axis=(1, 3, 5), dtype=np.float32))


def _coarse(annotation: SparseAnnotation, steps: Steps, shape: Shape) -> SparseAnnotation:
    """The drawn slices on the coarse grid: the middle voxel of a block speaks for it."""
    slices: dict[tuple[Plane, int], AnnotatedSlice] = {}
    for drawn in annotation.slices:
        axes = [axis for axis in range(3) if axis != drawn.plane.axis]
        first, second = (np.arange(shape[a]) * steps[a] + steps[a] // 2 for a in axes)
        index = min(drawn.index // steps[drawn.plane.axis], shape[drawn.plane.axis] - 1)
        mask = np.ascontiguousarray(drawn.mask[np.ix_(first, second)])
        slices.setdefault((drawn.plane, index), AnnotatedSlice(drawn.plane, index, mask))
    return SparseAnnotation(shape, tuple(slices.values()))
