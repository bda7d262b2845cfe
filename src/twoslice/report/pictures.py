"""Pictures of a scan for the cards: the fullest slice of each plane, outlines and doubt over it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from twoslice.io.volume import Volume
from twoslice.planes import Plane
from twoslice.report.figures import Mark, Outline, fullest_slice, slice_picture, window
from twoslice.report.parts import Picture

PLANES = (Plane.AXIAL, Plane.CORONAL, Plane.SAGITTAL)


def three_planes(
    volume: Volume,
    outlines: Sequence[Outline],
    labels: NDArray[np.integer],
    marks: Sequence[Mark] = (),
) -> tuple[Picture, ...]:
    """A scan on the slice of each plane that shows the most of `labels`."""
    return tuple(
        slice_of(
            volume,
            plane,
            fullest_slice(labels, plane),
            outlines=outlines,
            marks=[mark for mark in marks if mark.plane != plane],
        )
        for plane in PLANES
    )


def doubt_picture(
    volume: Volume, labels: NDArray[np.integer], doubt: NDArray[np.float32]
) -> Picture:
    """The fullest axial slice once more, with the networks' doubt in place of outlines."""
    index = fullest_slice(labels, Plane.AXIAL)
    shown = slice_of(volume, Plane.AXIAL, index, outlines=(), marks=(), doubt=doubt)
    return Picture(shown.svg, "doubt", shown.width)


def slice_of(
    volume: Volume,
    plane: Plane,
    index: int,
    *,
    outlines: Sequence[Outline],
    marks: Sequence[Mark],
    doubt: NDArray[np.float32] | None = None,
) -> Picture:
    """One slice with what lies over it, and its width against its height."""
    image = volume.data[0]
    caption = f"{plane} {index}"
    svg = slice_picture(
        image,
        plane=plane,
        index=index,
        spacing=volume.spacing,
        grey=window(image),
        outlines=outlines,
        marks=marks,
        doubt=doubt,
        title=caption,
    )
    across, down = (axis for axis in range(3) if axis != plane.axis)
    extent = np.array(volume.shape) * volume.spacing
    return Picture(svg, caption, float(extent[across] / extent[down]))
