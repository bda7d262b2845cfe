"""Pictures of slices: the scan as a small PNG, outlines and lines over it as vectors.

A picture is one inline SVG whose unit is the millimetre, so that voxels of any spacing get their
right shape, outlines stay crisp at any size, and colours follow the page's own style.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from skimage.measure import find_contours

from twoslice.planes import Plane

T = TypeVar("T", bound=np.generic)
Spacing = tuple[float, float, float]

# Which way is which on the picture: left, right, top, bottom (radiological convention).
_SIDES = {
    Plane.AXIAL: ("R", "L", "A", "P"),
    Plane.CORONAL: ("R", "L", "S", "I"),
    Plane.SAGITTAL: ("A", "P", "S", "I"),
}


@dataclass(frozen=True)
class Outline:
    """The outlines of labels (I, J, K) to draw over a scan; `style` names a class of the page."""

    labels: NDArray[np.integer]
    style: str
    filled: bool = False


@dataclass(frozen=True)
class Mark:
    """A slice of another plane, drawn as a line where it crosses the picture."""

    plane: Plane
    index: int


def window(image: NDArray[np.float32]) -> tuple[float, float]:
    """The grey window of a whole scan: all but its darkest and brightest half percent."""
    low, high = np.percentile(image, (0.5, 99.5))
    return float(low), float(high) if high > low else float(low) + 1.0


def facing(plane: Plane, volume: NDArray[T], index: int) -> NDArray[T]:
    """A slice as it is looked at: front or head up, the patient's right on the left."""
    return plane.facing(volume, index)


def fullest_slice(labels: NDArray[np.integer], plane: Plane) -> int:
    """The slice of a plane that shows the most target; the middle one if none does."""
    counts = np.asarray((plane.stack_first(labels) > 0).sum(axis=(1, 2)))
    return int(counts.argmax()) if counts.any() else len(counts) // 2


def slice_picture(
    image: NDArray[np.float32],
    *,
    plane: Plane,
    index: int,
    spacing: Spacing,
    grey: tuple[float, float],
    outlines: Sequence[Outline] = (),
    marks: Sequence[Mark] = (),
    doubt: NDArray[np.float32] | None = None,
    title: str = "",
) -> str:
    """One slice of a scan (I, J, K) as an inline SVG in millimetres; `doubt` lies over it in
    yellow, clear where it is 0.
    """
    pixels = facing(plane, image, index)
    across, down = _steps(plane, spacing)
    width, height = pixels.shape[1] * across, pixels.shape[0] * down
    parts = [
        f'<svg class="slice" viewBox="0 0 {width:.1f} {height:.1f}" role="img" '
        f'aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg">',
        f'<image width="{width:.1f}" height="{height:.1f}" preserveAspectRatio="none" '
        f'href="{_png(pixels, grey)}"/>',
    ]
    if doubt is not None:
        parts.append(
            f'<image width="{width:.1f}" height="{height:.1f}" preserveAspectRatio="none" '
            f'href="{_yellow(facing(plane, doubt, index))}"/>'
        )
    for outline in outlines:
        parts += _paths(facing(plane, outline.labels, index), across, down, outline)
    parts += [_line(mark, plane, image.shape, spacing, width, height) for mark in marks]
    parts += _letters(plane, width, height)
    return "".join(parts) + "</svg>"


def _steps(plane: Plane, spacing: Spacing) -> tuple[float, float]:
    """Millimetres a pixel across and down."""
    first, second = (axis for axis in range(3) if axis != plane.axis)
    return spacing[first], spacing[second]


def _png(pixels: NDArray[np.float32], grey: tuple[float, float]) -> str:
    low, high = grey
    scaled = np.clip((pixels - low) / (high - low), 0, 1) * 255
    stream = io.BytesIO()
    Image.fromarray(scaled.astype(np.uint8)).save(stream, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def _yellow(share: NDArray[np.float32]) -> str:
    """A picture that is yellow where `share` is 1, and clear where it is 0."""
    picture = Image.new("RGBA", (share.shape[1], share.shape[0]), (255, 214, 0, 0))
    picture.putalpha(Image.fromarray((255 * np.clip(share, 0, 1)).astype(np.uint8)))
    stream = io.BytesIO()
    picture.save(stream, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def _paths(labels: NDArray[np.integer], across: float, down: float, outline: Outline) -> list[str]:
    """A path for every label that shows on the slice."""
    paths = []
    for value in sorted({int(value) for value in np.unique(labels)} - {0}):
        # A border of nothing closes the outlines that touch the picture's edge.
        padded = np.pad((labels == value).astype(float), 1)
        rings = [
            "M" + "L".join(f"{(x - 0.5) * across:.1f} {(y - 0.5) * down:.1f}" for y, x in ring)
            for ring in find_contours(padded, 0.5)
        ]
        kind = f"{outline.style} label-{(value - 1) % 8 + 1}" + (" fill" if outline.filled else "")
        paths.append(f'<path class="{kind}" d="{"Z".join(rings)}Z"/>')
    return paths


def _line(
    mark: Mark,
    plane: Plane,
    shape: tuple[int, ...],
    spacing: Spacing,
    width: float,
    height: float,
) -> str:
    """Where another plane's slice crosses; both axes of a picture run backwards."""
    axis = mark.plane.axis
    place = (shape[axis] - mark.index - 0.5) * spacing[axis]
    upright = axis == min(other for other in range(3) if other != plane.axis)
    ends = (place, 0.0, place, height) if upright else (0.0, place, width, place)
    x1, y1, x2, y2 = (f"{value:.1f}" for value in ends)
    return f'<line class="mark" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'


def _letters(plane: Plane, width: float, height: float) -> list[str]:
    left, right, top, bottom = _SIDES[plane]
    size = 0.055 * max(width, height)
    places = (
        (left, size * 0.4, height / 2 + size / 3, "start"),
        (right, width - size * 0.4, height / 2 + size / 3, "end"),
        (top, width / 2, size, "middle"),
        (bottom, width / 2, height - size * 0.4, "middle"),
    )
    return [
        f'<text class="side" x="{x:.1f}" y="{y:.1f}" font-size="{size:.1f}" '
        f'text-anchor="{anchor}">{letter}</text>'
        for letter, x, y, anchor in places
    ]
