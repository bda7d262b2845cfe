"""The whole way: the truth of a few scans drawn stroke by stroke in a browser, propagated, learned.

The dense labels serve to know what to draw, as a person would know it; no stage after that has
them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from annotator.made import served
from annotator.screen import Labels, Sheet, chromium, label_file, ready, same, saved, visit
from twoslice.annotation.choice import choose_slices, wishes
from twoslice.annotation.cover import Slot
from twoslice.annotation.reading import annotation_at
from twoslice.cli import main
from twoslice.demo.phantom import write_phantoms
from twoslice.io.dataset import Dataset, refresh_description
from twoslice.planes import Plane

pytestmark = [pytest.mark.slow, pytest.mark.browser]

PLANES = (Plane.AXIAL, Plane.CORONAL)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def hidden(source: Path, root: Path, cases: list[str], *, labels: dict[str, int]) -> Path:
    """The scans of a dense dataset without their labels."""
    (root / "imagesTr").mkdir(parents=True)
    for case in cases:
        shutil.copy(source / "imagesTr" / f"{case}_0000.nii.gz", root / "imagesTr")
    content = json.loads((source / "dataset.json").read_text())
    content["labels"] = labels | {"ignore": len(labels)}
    content.pop("dataset", None)
    (root / "dataset.json").write_text(json.dumps(content))
    refresh_description(root)
    return root


def truth_of(source: Path, case: str) -> Labels:
    image = nib.as_closest_canonical(nib.load(source / "labelsTr" / f"{case}.nii.gz"))
    return np.asarray(image.dataobj).astype(np.uint8)


def show(page: Page, at: int, index: int) -> None:
    """Go to a slice with the slider and choose it."""
    slider = page.locator(".panel > input").nth(at)
    slider.evaluate("(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", index)
    choose = page.locator(".panel").nth(at).get_by_role("button", name="Draw on")
    if choose.is_visible():
        choose.click()
        expect(choose).to_be_hidden()
    ready(page)


def draw(page: Page, sheet: Sheet, mask: Labels) -> None:
    """Draw a mask row by row, a stroke for each run of a label, with the smallest brush."""
    for value in range(1, int(mask.max(initial=0)) + 1):
        page.keyboard.press(str(value))
        for j in range(mask.shape[1]):
            marks = np.flatnonzero(mask[:, j] == value)
            for run in np.split(marks, np.flatnonzero(np.diff(marks) > 1) + 1):
                if run.size:
                    sheet.drag((int(run[0]), j), (int(run[-1]), j))


def drawn_in_browser(
    browser: Browser, root: Path, source: Path, cases: list[str], classes: int
) -> dict[str, tuple[Slot, ...]]:
    chosen: dict[str, tuple[Slot, ...]] = {}
    with served(root) as server, browser.new_context() as context:
        page = visit(context.new_page(), server.link)
        for _ in range(6):
            page.keyboard.press("[")
        for case in cases:
            truth = truth_of(source, case)
            wanted = wishes("orthogonal", PLANES)
            chosen[case] = choose_slices(truth, classes=classes, wanted=wanted)
            page.locator("#scans button", has_text=case).click()
            expect(page.locator("[aria-current] .case")).to_have_text(case, timeout=30_000)
            ready(page)
            image = nib.load(root / "imagesTr" / f"{case}_0000.nii.gz")
            for at, (plane, index) in enumerate(chosen[case]):
                show(page, at, index)
                draw(page, Sheet.of(page, at, image), plane.take(truth, index))
            saved(page)
            page.locator("#finish").click()
            page.wait_for_timeout(100)
            if page.locator("#question").is_visible():
                page.get_by_role("button", name="Finish anyway").click()
            done = page.locator(f'#scans button:has-text("{case}")')
            expect(done).to_have_attribute("data-status", "done", timeout=15_000)
    return chosen


def learn(root: Path, out: Path) -> None:
    """Check, propagate, a few steps of training, and one prediction, by the commands."""
    tiny = ["training.iterations=3", "network.filters=2", "training.patch=[16,16,16]"]
    settings = [word for each in tiny for word in ("--set", each)]
    case = next(iter(Dataset.open(root).cases))
    scan = root / "imagesTr" / f"{case}_0000.nii.gz"
    for command in (
        ["propagate", str(root)],
        ["train", str(root), "--out", str(out / "run"), *settings],
        ["predict", str(out / "run"), str(scan), "--out", str(out / "predictions")],
    ):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 0, command
    assert nib.load(out / "predictions" / f"{case}.nii.gz").shape == nib.load(scan).shape


def whole_way(browser: Browser, source: Path, tmp_path: Path, cases: list[str], more: str) -> None:
    labels = Dataset.open(source).labels
    root = hidden(source, tmp_path / "drawn", [*cases, more], labels=dict(labels))
    chosen = drawn_in_browser(browser, root, source, cases, len(labels))
    for case, slots in chosen.items():
        expected = annotation_at(truth_of(source, case), slots).label_map(elsewhere=len(labels))
        same(label_file(root, case), expected)
    assert set(Dataset.open(root).labeled) == set(cases)
    learn(root, tmp_path)
    for case in cases:
        fused = nib.as_closest_canonical(nib.load(root / "propagated" / f"{case}_fused.nii.gz"))
        truth = truth_of(source, case) > 0
        found = np.asarray(fused.dataobj) > 0
        assert 2 * (truth & found).sum() / (truth.sum() + found.sum()) > 0.6


def test_phantoms_drawn_in_the_browser_are_propagated_and_learned(
    browser: Browser, tmp_path: Path
) -> None:
    write_phantoms(tmp_path / "dense", training=3, test=0, shape=(32, 32, 16))
    whole_way(browser, tmp_path / "dense", tmp_path, ["scan_00", "scan_01"], "scan_02")


@pytest.mark.data
def test_three_left_atria_drawn_in_the_browser_are_propagated_and_learned(
    browser: Browser, real_data: Path, tmp_path: Path
) -> None:
    source = real_data / "LA_half"
    names = sorted(path.name.removesuffix("_0000.nii.gz") for path in source.glob("imagesTr/*"))
    whole_way(browser, source, tmp_path, names[:3], names[3])
