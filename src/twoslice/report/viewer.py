"""Slices to scroll through, small enough that a hundred scans fit into one page.

Of each scan and plane, some slices lie side by side in one compressed picture; the outlines over
them are vectors in half pixels of it, and the networks' doubt is a coarser picture on top. The page
shows one slice at a time. Sizes fall in steps until all scans fit into the page's budget.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from skimage.measure import approximate_polygon, find_contours

from twoslice.planes import Plane
from twoslice.report.figures import facing, window

PLANES = (Plane.AXIAL, Plane.CORONAL, Plane.SAGITTAL)
BUDGET = 11_500_000
"""Bytes of a page for slices to scroll through: the rest of it stays under 15 MB with them."""
_TRIED = 3
Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Detail:
    """How much is kept: pixels of a slice's longer side, slices a plane, quality of the picture."""

    side: int
    slices: int
    quality: int


DETAILS = (
    Detail(160, 40, 55),
    Detail(128, 32, 50),
    Detail(96, 24, 45),
    Detail(80, 16, 40),
    Detail(64, 12, 30),
)


@dataclass(frozen=True, eq=False)
class Shown:
    """One scan with what lies over it, all (I, J, K) in RAS."""

    case: str
    image: NDArray[np.float32]
    spacing: tuple[float, float, float]
    labels: NDArray[np.integer]
    reference: NDArray[np.integer] | None = None
    doubt: NDArray[np.float32] | None = None
    marks: tuple[tuple[Plane, int], ...] = ()


def pack(
    cases: Sequence[str], read: Callable[[str], Shown | None], *, budget: int = BUDGET
) -> Iterator[tuple[str, str]]:
    """Case and JSON of each scan, in the finest detail at which about all of them fit; once the
    budget is used up, the rest is left out.
    """
    share = budget / max(len(cases), 1)
    detail, left = DETAILS[0], budget
    for detail in DETAILS:
        sizes = [
            len(pack_scan(shown, detail))
            for shown in (read(case) for case in cases[:_TRIED])
            if shown is not None
        ]
        if not sizes or np.mean(sizes) <= share:
            break
    for case in cases:
        shown = read(case)
        if shown is None:
            continue
        text = pack_scan(shown, detail)
        left -= len(text)
        if left < 0:
            return
        yield case, text


def pack_scan(shown: Shown, detail: Detail) -> str:
    """One scan as JSON that the page's script reads."""
    grey = window(shown.image)
    planes = [_pack_plane(shown, plane, grey, detail) for plane in PLANES]
    tree = {"case": shown.case, "planes": planes}
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=True).replace("</", "<\\/")


def _pack_plane(
    shown: Shown, plane: Plane, grey: tuple[float, float], detail: Detail
) -> dict[str, Any]:
    across, down = (axis for axis in range(3) if axis != plane.axis)
    mm = [shown.image.shape[axis] * shown.spacing[axis] for axis in (across, down)]
    scale = min(detail.side / max(mm), max(1 / shown.spacing[across], 1 / shown.spacing[down]))
    size = (max(1, round(mm[0] * scale)), max(1, round(mm[1] * scale)))
    indices = _choose(shown, plane, detail.slices)
    low, high = grey
    tiles = []
    for index in indices:
        pixels = np.clip((facing(plane, shown.image, index) - low) / (high - low), 0, 1) * 255
        tiles.append(Image.fromarray(pixels.astype(np.uint8)).resize(size, Image.Resampling.BOX))
    columns = int(np.ceil(np.sqrt(len(indices))))
    packed: dict[str, Any] = {
        "name": plane.value,
        "mm": [round(side, 1) for side in mm],
        "size": size,
        "columns": columns,
        "rows": -(-len(indices) // columns),
        "slices": indices,
        "of": shown.image.shape[plane.axis],
        "sheet": _sheet(tiles, columns, detail.quality),
        "start": _fullest(shown.labels, plane, indices),
        "outlines": [_outlines(facing(plane, shown.labels, i), size) for i in indices],
        "drawn": [i for p, i in shown.marks if p == plane],
    }
    if shown.reference is not None:
        packed["reference"] = [_outlines(facing(plane, shown.reference, i), size) for i in indices]
    if shown.doubt is not None:
        packed["doubt"] = _doubt_sheet(shown.doubt, plane, indices, size, columns)
    return packed


def _choose(shown: Shown, plane: Plane, most: int) -> list[int]:
    """Slices spread over the labels' extent and a little beyond, the drawn ones among them."""
    side = shown.labels.shape[plane.axis]
    shows = np.flatnonzero((plane.stack_first(shown.labels) > 0).any(axis=(1, 2)))
    first, last = (int(shows[0]), int(shows[-1])) if shows.size else (0, side - 1)
    room = max(2, (last - first) // 5)
    first, last = max(0, first - room), min(side - 1, last + room)
    even = np.unique(np.linspace(first, last, min(most, last - first + 1)).round().astype(int))
    drawn = {index for p, index in shown.marks if p == plane}
    return sorted({int(index) for index in even} | drawn)


def _fullest(labels: NDArray[np.integer], plane: Plane, indices: Sequence[int]) -> int:
    counts = [int((plane.take(labels, index) > 0).sum()) for index in indices]
    return int(np.argmax(counts)) if any(counts) else len(indices) // 2


def _sheet(tiles: Sequence[Image.Image], columns: int, quality: int) -> str:
    width, height = tiles[0].size
    rows = -(-len(tiles) // columns)
    sheet = Image.new(tiles[0].mode, (width * columns, height * rows))
    for number, tile in enumerate(tiles):
        sheet.paste(tile, (number % columns * width, number // columns * height))
    stream = io.BytesIO()
    sheet.save(stream, format="WEBP", quality=quality, alpha_quality=quality, method=4)
    return "data:image/webp;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def _doubt_sheet(
    doubt: NDArray[np.float32],
    plane: Plane,
    indices: Sequence[int],
    size: tuple[int, int],
    columns: int,
) -> str:
    """Yellow where the networks doubt, clear where they do not; half as fine as the scan."""
    half = (max(1, size[0] // 2), max(1, size[1] // 2))
    tiles = []
    for index in indices:
        share = np.clip(facing(plane, doubt, index), 0, 1)
        alpha = Image.fromarray((255 * share).astype(np.uint8)).resize(half, Image.Resampling.BOX)
        tile = Image.new("RGBA", half, (255, 214, 0, 0))
        tile.putalpha(alpha)
        tiles.append(tile)
    return _sheet(tiles, columns, 20)


def _outlines(labels: NDArray[np.integer], size: tuple[int, int]) -> list[list[Any]]:
    """Of every label on a slice its value and its outline, in half pixels of the sheet."""
    steps = np.array([2 * size[1] / labels.shape[0], 2 * size[0] / labels.shape[1]])
    found: list[list[Any]] = []
    for value in sorted({int(value) for value in np.unique(labels)} - {0}):
        rings = []
        for ring in find_contours(np.pad((labels == value).astype(float), 1), 0.5):
            points = approximate_polygon((ring - 0.5) * steps, 0.6).round().astype(int)
            moves = np.diff(points, axis=0)[:-1]
            y, x = points[0]
            rings.append(f"M{x} {y}" + "".join(f"l{b} {a}" for a, b in moves.tolist()) + "z")
        found.append([value, "".join(rings)])
    return found
