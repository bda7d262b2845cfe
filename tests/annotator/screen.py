"""A browser on the annotator, and where voxels lie on its screen: computed here, independently of
the page's own arithmetic.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page, expect, sync_playwright

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking "
    "--disable-component-update --disable-sync --no-first-run"
)
ROOM = 46
"""Pixels that the page leaves around a slice, both sides together."""

Labels = NDArray[np.uint8]

expect.set_options(timeout=20_000)  # a busy machine is no fault of the page


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium with an empty profile, or a skip in plain words."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no Chromium: the browser tests are skipped (apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS.split())
        yield browser
        browser.close()


def visit(page: Page, link: str) -> Page:
    """Open the annotator and wait until its slices are shown."""
    page.goto(link)
    page.wait_for_selector("body[data-ready]", timeout=60_000)
    ready(page)
    return page


def ready(page: Page) -> None:
    """Wait until every panel shows its slice."""
    page.wait_for_function(
        "() => { const all = [...document.querySelectorAll('canvas')];"
        " return all.length && all.every(c => c.dataset.shown?.endsWith('ready')); }",
        timeout=60_000,
    )


def saved(page: Page) -> None:
    """Wait until the server has acknowledged every stroke."""
    page.wait_for_function(
        "() => document.getElementById('saving').dataset.kind === 'saved'", timeout=30_000
    )


def label_file(root: Path, case: str) -> Labels:
    """A label file as nibabel sees it, in RAS order."""
    image = nib.as_closest_canonical(nib.load(root / "labelsTr" / f"{case}.nii.gz"))
    return np.asarray(image.dataobj).astype(np.uint8)


@dataclass
class Sheet:
    """One panel: the slice of an axis of a RAS volume that it shows."""

    page: Page
    at: int
    axis: int
    index: int
    shape: tuple[int, ...]
    spacing: tuple[float, ...]

    @classmethod
    def of(cls, page: Page, at: int, image: Any) -> Sheet:
        """Panel number `at`, of a scan as nibabel loaded it."""
        plane, index, _ = page.locator("canvas").nth(at).get_attribute("data-shown").split()
        axis = {"sagittal": 0, "coronal": 1, "axial": 2}[plane]
        canonical = nib.as_closest_canonical(image)
        spacing = tuple(float(side) for side in canonical.header.get_zooms()[:3])
        return cls(page, at, axis, int(index), canonical.shape[:3], spacing)

    @property
    def sides(self) -> tuple[int, int]:
        """The volume's axes across and along the panel."""
        first, second = (axis for axis in range(3) if axis != self.axis)
        return first, second

    def place(self, voxel: tuple[float, float]) -> tuple[float, float]:
        """Where on the page a voxel of the slice lies, by its two RAS indices."""
        box = self.page.locator("canvas").nth(self.at).bounding_box()
        assert box is not None
        across, along = self.sides
        wide = self.shape[across] * self.spacing[across]
        high = self.shape[along] * self.spacing[along]
        zoom = min((box["width"] - ROOM) / wide, (box["height"] - ROOM) / high)
        # Radiological: the first index grows to the left, the second one upwards.
        x = wide / 2 - (voxel[0] + 0.5) * self.spacing[across]
        y = high / 2 - (voxel[1] + 0.5) * self.spacing[along]
        return box["x"] + box["width"] / 2 + x * zoom, box["y"] + box["height"] / 2 + y * zoom

    def drag(self, *voxels: tuple[float, float]) -> None:
        """A stroke from voxel to voxel."""
        mouse = self.page.mouse
        mouse.move(*self.place(voxels[0]))
        mouse.down()
        for voxel in voxels[1:]:
            mouse.move(*self.place(voxel), steps=4)
        mouse.up()

    def click(self, voxel: tuple[float, float], **options: Any) -> None:
        """A click in the middle of a voxel."""
        self.page.mouse.click(*self.place(voxel), **options)

    def of_volume(self, volume: Labels) -> Labels:
        """This panel's slice of a RAS volume (a view)."""
        return np.moveaxis(volume, self.axis, 0)[self.index]

    def millimetres(self) -> NDArray[np.float64]:
        """The centre of every voxel of the slice, in millimetres across and along."""
        across, along = self.sides
        grid = np.indices((self.shape[across], self.shape[along])).astype(float)
        return grid * np.array([self.spacing[across], self.spacing[along]])[:, None, None]


def disc(sheet: Sheet, voxel: tuple[float, float], size: int) -> NDArray[np.bool_]:
    """The voxels that a dab of the brush covers: centres within size/2 of the smaller side."""
    across, along = sheet.sides
    sides = np.array([sheet.spacing[across], sheet.spacing[along]])
    middle = np.array(voxel) * sides
    apart = sheet.millimetres() - middle[:, None, None]
    covered = np.hypot(*apart) <= size / 2 * sides.min() + 1e-6
    covered[round(voxel[0]), round(voxel[1])] = True
    return np.asarray(covered)


def inside(sheet: Sheet, corners: list[tuple[float, float]]) -> NDArray[np.bool_]:
    """The voxels whose centres lie in a polygon, by winding number."""
    across, along = sheet.sides
    i, j = np.indices((sheet.shape[across], sheet.shape[along])).astype(float)
    angle = np.zeros_like(i)
    for (a0, b0), (a1, b1) in zip(corners, [*corners[1:], corners[0]], strict=True):
        first = np.arctan2(b0 - j, a0 - i)
        turn = np.arctan2(b1 - j, a1 - i) - first
        angle += (turn + np.pi) % (2 * np.pi) - np.pi
    return np.asarray(np.abs(angle) > np.pi)


def same(found: Labels, expected: Labels) -> None:
    """Fail with the voxels that differ."""
    assert found.shape == expected.shape
    apart = np.argwhere(found != expected)
    told = [(*map(int, at), int(found[tuple(at)]), int(expected[tuple(at)])) for at in apart[:12]]
    assert len(apart) == 0, f"{len(apart)} voxels differ (i, j, k, found, expected): {told}"
