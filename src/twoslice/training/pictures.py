"""Pictures of what the networks see while they train: one slice of a labelled and one of an
unlabelled scan, a column a network. Cheap, and without any effect on the training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from twoslice.methods.base import Method
from twoslice.objectives.weights import NEVER
from twoslice.planes import Plane
from twoslice.training.patches import LabeledScan, PatchSource

Pixels = NDArray[np.uint8]

COLOURS = ("#f28e2b", "#2fb5e9", "#59c173", "#e15fa6", "#f5d33b", "#9a7fe0", "#ff6b5e", "#3fd6c0")
"""Of the labels 1, 2, …, the same as on the report's page."""
DRAWN = (255, 255, 255)
_SIDE, _MARGIN, _CAPTION = 320, 8, 22
_REACH = 2  # a window is at most this many patches wide: four patches cost less than a step


@dataclass(frozen=True, eq=False)
class Window:
    """A part of a scan around one slice, and the labels drawn on that slice (None if none is)."""

    title: str
    image: NDArray[np.float32]
    plane: Plane
    index: int
    drawn: NDArray[np.int16] | None


class Pictures:
    """Draws the networks' labels on the same two slices each time it is asked."""

    def __init__(self, source: PatchSource) -> None:
        scan = source.labeled[0]
        plane, index = drawn_slice(scan)
        self.voxel = source.voxel
        self.windows = [_labeled(source, scan, plane, index)]
        if source.unlabeled:
            share = index / scan.views.shape[1 + plane.axis]
            self.windows.append(_unlabeled(source, source.unlabeled[0], plane, share))

    @torch.no_grad()
    def draw(self, method: Method) -> Pixels:
        """An RGB picture (H, W, 3): a row a scan, a column a network.

        The networks see the windows in evaluation mode: neither their statistics nor the random
        state move.
        """
        training = method.training
        method.eval()
        device = next(method.parameters()).device
        rows = []
        for window in self.windows:
            image = torch.from_numpy(window.image)[None].to(device)
            members = method.member_probabilities(image).argmax(dim=2)[:, 0]
            rows.append([self._panel(window, labels, n) for n, labels in enumerate(members, 1)])
        method.train(training)
        return _mosaic(rows)

    def _panel(self, window: Window, labels: Tensor, number: int) -> Image.Image:
        predicted = labels.cpu().numpy().astype(np.uint8)
        seen = overlay(
            window.plane.facing(window.image[0], window.index),
            window.plane.facing(predicted, window.index),
            drawn=window.drawn,
            size=_size(window, self.voxel),
        )
        panel = Image.new("RGB", (seen.width, seen.height + _CAPTION), "black")
        panel.paste(seen, (0, _CAPTION))
        text = f"{window.title}, network {number}"
        ImageDraw.Draw(panel).text((2, 3), text, fill="white", font=ImageFont.load_default(14))
        return panel


def overlay(
    grey: NDArray[np.float32],
    labels: NDArray[np.integer],
    *,
    drawn: NDArray[np.integer] | None = None,
    size: tuple[int, int],
) -> Image.Image:
    """A slice with labels tinted and outlined, and what was drawn outlined in white on top."""
    low, high = np.percentile(grey, (0.5, 99.5))
    scaled = np.clip((grey - low) / max(float(high - low), 1e-6), 0, 1) * 255
    base = Image.fromarray(scaled.astype(np.uint8)).resize(size, Image.Resampling.BICUBIC)
    pixels = np.repeat(np.asarray(base, dtype=np.float32)[..., None], 3, axis=2)
    large = _enlarged(labels, size)
    for value in sorted({int(v) for v in np.unique(large)} - {0}):
        colour = np.array(_rgb(COLOURS[(value - 1) % len(COLOURS)]), dtype=np.float32)
        inside = large == value
        pixels[inside] = 0.72 * pixels[inside] + 0.28 * colour
        pixels[outline(inside, 2)] = colour
    if drawn is not None:
        known = _enlarged(drawn, size)
        for value in sorted({int(v) for v in np.unique(known)} - {0}):
            pixels[outline(known == value, 1)] = DRAWN
    return Image.fromarray(pixels.round().astype(np.uint8))


def outline(inside: NDArray[np.bool_], width: int) -> NDArray[np.bool_]:
    """The pixels of a region that are within `width` of its border."""
    core = inside
    for _ in range(width):
        padded = np.pad(core, 1)
        core = core & padded[2:, 1:-1] & padded[:-2, 1:-1] & padded[1:-1, 2:] & padded[1:-1, :-2]
    return inside & ~core


def drawn_slice(scan: LabeledScan) -> tuple[Plane, int]:
    """The annotated slice of a scan that shows, axial ones first; the middle one of several."""
    drawn = np.asarray(scan.views[1]) == 0
    for plane in (Plane.AXIAL, Plane.CORONAL, Plane.SAGITTAL):
        whole = np.flatnonzero(plane.stack_first(drawn).all(axis=(1, 2)))
        if whole.size:
            return plane, int(whole[len(whole) // 2])
    # Drawn in part only: the axial slice with the most of it.
    return Plane.AXIAL, int(drawn.sum(axis=(0, 1)).argmax())


def _labeled(source: PatchSource, scan: LabeledScan, plane: Plane, index: int) -> Window:
    targets = np.concatenate([*scan.targets]) if scan.targets else None
    image = source.open_image(scan.name)
    middle = np.array(image.shape[1:]) // 2 if targets is None else targets.mean(axis=0).round()
    middle[plane.axis] = index
    where = _around(middle, image.shape[1:], source.patch, plane)
    label, distance = (np.asarray(part[where]) for part in scan.views[:2])
    label = np.where((distance == 0) & (label != NEVER), label, 0)
    within = index - int(where[plane.axis].start)
    return Window(
        f"{scan.name}, {plane} {index}",
        np.array(image[(slice(None), *where)]),  # a copy: the map may be let go
        plane,
        within,
        plane.facing(label, within),
    )


def _unlabeled(source: PatchSource, name: str, plane: Plane, share: float) -> Window:
    image = source.open_image(name)
    middle = np.array(image.shape[1:]) // 2
    middle[plane.axis] = index = int(share * image.shape[1 + plane.axis])
    where = _around(middle, image.shape[1:], source.patch, plane)
    part = np.array(image[(slice(None), *where)])
    return Window(f"{name}, {plane} {index}", part, plane, index - where[plane.axis].start, None)


def _around(
    middle: NDArray[np.generic], shape: Sequence[int], patch: Sequence[int], plane: Plane
) -> tuple[slice, slice, slice]:
    """A patch deep and at most `_REACH` patches wide, about `middle`, inside the scan."""
    cuts = []
    for axis, (side, extent) in enumerate(zip(shape, patch, strict=True)):
        length = min(side, extent if axis == plane.axis else _REACH * extent)
        start = int(np.clip(int(middle[axis]) - length // 2, 0, side - length))
        cuts.append(slice(start, start + length))
    return cuts[0], cuts[1], cuts[2]


def _size(window: Window, voxel: Sequence[float]) -> tuple[int, int]:
    """Pixels across and down that give voxels their shape."""
    across, down = (
        window.image.shape[1 + axis] * voxel[axis] for axis in range(3) if axis != window.plane.axis
    )
    scale = _SIDE / max(across, down)
    return max(1, round(across * scale)), max(1, round(down * scale))


def _enlarged(labels: NDArray[np.integer], size: tuple[int, int]) -> Pixels:
    picture = Image.fromarray(np.ascontiguousarray(labels).astype(np.uint8))
    return np.asarray(picture.resize(size, Image.Resampling.NEAREST))


def _mosaic(rows: Sequence[Sequence[Image.Image]]) -> Pixels:
    """Panels side by side and below one another, on black."""
    width = max(sum(panel.width + _MARGIN for panel in row) for row in rows) + _MARGIN
    height = sum(max(panel.height for panel in row) + _MARGIN for row in rows) + _MARGIN
    sheet = Image.new("RGB", (width, height), "black")
    y = _MARGIN
    for row in rows:
        x = _MARGIN
        for panel in row:
            sheet.paste(panel, (x, y))
            x += panel.width + _MARGIN
        y += max(panel.height for panel in row) + _MARGIN
    return np.asarray(sheet)


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))
