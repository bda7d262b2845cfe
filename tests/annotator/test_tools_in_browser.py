"""Every tool in a real browser, on every kind of grid: the file holds what was drawn, voxel by
voxel.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from playwright.sync_api import Browser, Page
from scipy import ndimage

from annotator.made import GRIDS, served, write_dataset
from annotator.screen import Sheet, chromium, disc, inside, label_file, ready, same, saved, visit

pytestmark = [pytest.mark.slow, pytest.mark.browser]

CASE = "case_0"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(params=[*GRIDS, "LA_half", "BTCV_ct"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A made-up scan on each kind of grid, and two real scans where there are any."""
    if request.param in GRIDS:
        return write_dataset(
            tmp_path / "data", cases=1, shape=(44, 40, 36), affine=GRIDS[request.param]
        )
    real = request.getfixturevalue("real_data") / request.param
    data = write_dataset(tmp_path / "data", cases=1)
    scan = sorted((real / "imagesTr").glob("*_0000.nii.gz"))[0]
    shutil.copyfile(scan, data / "imagesTr" / f"{CASE}_0000.nii.gz")
    return data


def key(page: Page, *keys: str) -> None:
    for each in keys:
        page.keyboard.press(each)


def size(page: Page, value: int) -> None:
    page.locator("#size").evaluate(
        "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", value
    )


def octagon(i: int, j: int) -> list[tuple[float, float]]:
    """Corners around a voxel such that no edge runs near any voxel's centre."""
    # Begun such that the last corner is not so near the first that it would close the polygon.
    steps = [(1, 3.5), (-1, 3.5), (-3.5, 1), (-3.5, -1), (-1, -3.5), (1, -3.5), (3.5, -1), (3.5, 1)]
    return [(i + di, j + dj) for di, dj in steps]


def test_every_tool_draws_what_the_file_then_holds(browser: Browser, root: Path) -> None:
    image = nib.load(root / "imagesTr" / f"{CASE}_0000.nii.gz")
    scan = np.asarray(nib.as_closest_canonical(image).dataobj).astype(float)
    with served(root) as server, browser.new_context() as context:
        page = visit(context.new_page(), server.link)
        sheet = Sheet.of(page, 0, image)
        a, b = (sheet.shape[axis] for axis in sheet.sides)
        expected = np.full(scan.shape, 3, np.uint8)
        drawn = sheet.of_volume(expected)
        drawn[:] = 0

        # Brush of one voxel, and of seven along a line of dabs.
        key(page, "b", "1")
        size(page, 1)
        sheet.click((2, 3))
        drawn[2, 3] = 1
        size(page, 7)
        for voxel in ((a // 2, b // 2), (a // 2 + 5, b // 2)):
            sheet.click(voxel)
            drawn[disc(sheet, voxel, 7)] = 1
        # A drag of one voxel paints the row it runs along.
        size(page, 1)
        sheet.drag((4, 5), (9, 5))
        drawn[4:10, 5] = 1
        # Eraser.
        key(page, "e")
        sheet.click((6, 5))
        drawn[6, 5] = 0
        # Polygon with the second label; Enter closes it.
        key(page, "p", "2")
        corners = octagon(a - 8, 6)
        for corner in corners:
            sheet.click(corner)
        key(page, "Enter")
        drawn[inside(sheet, corners)] = 2
        # Lasso.
        key(page, "l", "1")
        corners = octagon(7, b - 7)
        sheet.drag(*corners, corners[0])
        drawn[inside(sheet, corners)] = 1
        # A ring, filled.
        key(page, "b", "2")
        ring = [(a - 12, b - 4), (a - 5, b - 4), (a - 5, b - 9), (a - 12, b - 9), (a - 12, b - 4)]
        sheet.drag(*ring)
        hoop = np.zeros((a, b), bool)
        hoop[a - 12 : a - 4, b - 9 : b - 3] = True
        hoop[a - 11 : a - 5, b - 8 : b - 4] = False
        key(page, "f")
        sheet.click((a - 8, b - 6))
        drawn[ndimage.binary_fill_holes(hoop)] = 2
        # Threshold-limited brush: only intensities of the upper half of what it covers.
        key(page, "t", "1")
        size(page, 9)
        voxel = (a // 3, b // 3)
        covered = disc(sheet, voxel, 9)
        values = np.moveaxis(scan, sheet.axis, 0)[sheet.index]
        low = float(np.floor(np.median(values[covered]))) + 0.5
        page.locator("#low").fill(str(low))
        page.locator("#low").press("Tab")
        page.locator("#high").fill("100000")
        page.locator("#high").press("Tab")
        sheet.click(voxel)
        drawn[covered & (values >= low)] = 1
        saved(page)
        same(label_file(root, CASE), expected)

        # The other plane: its line shows what is drawn already, and shares its voxels.
        other = Sheet.of(page, 1, image)
        line = other.of_volume(expected)
        line[line == 3] = 0
        key(page, "b", "2")
        size(page, 5)
        crossing = (a // 2, sheet.index)
        other.click(crossing)
        line[disc(other, crossing, 5)] = 2
        saved(page)
        same(label_file(root, CASE), expected)
        written = nib.load(root / "labelsTr" / f"{CASE}.nii.gz")
        assert written.shape == image.shape[:3]
        assert np.allclose(written.affine, image.affine)

        # Undo walks back through all of it, redo on again, a reload in between.
        strokes = 0
        while page.locator("#undo").is_enabled():
            page.locator("#undo").click()
            strokes += 1
            page.wait_for_function("() => !document.getElementById('redo').disabled")
            if strokes == 3:
                page.reload()
                page.wait_for_selector("body[data-ready]")
                ready(page)
        assert not (root / "labelsTr" / f"{CASE}.nii.gz").exists()
        assert strokes == 11
        while page.locator("#redo").is_enabled():
            page.locator("#redo").click()
            page.wait_for_function("() => !document.getElementById('undo').disabled")
        saved(page)
        same(label_file(root, CASE), expected)
