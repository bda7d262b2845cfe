"""A person's work in a real browser: nothing is lost, nobody overwrites, everything by keyboard."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from annotator.made import ANISOTROPIC, Served, served, write_dataset
from annotator.screen import Sheet, chromium, label_file, ready, same, saved, visit
from twoslice.annotation.check import check_dataset
from twoslice.annotator.guard import MOST_BYTES

pytestmark = [pytest.mark.slow, pytest.mark.browser]

CASE = "case_0"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "data")


@pytest.fixture
def server(root: Path) -> Iterator[Served]:
    with served(root) as running:
        yield running


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with browser.new_context(viewport={"width": 1280, "height": 720}, has_touch=True) as opened:
        yield opened


@pytest.fixture
def page(context: BrowserContext, server: Served) -> Page:
    return visit(context.new_page(), server.link)


def sheet(page: Page, at: int, root: Path, case: str = CASE) -> Sheet:
    return Sheet.of(page, at, nib.load(root / "imagesTr" / f"{case}_0000.nii.gz"))


def single(page: Page) -> None:
    """The smallest brush."""
    page.keyboard.press("b")
    for _ in range(6):
        page.keyboard.press("[")


def count(root: Path, value: int, case: str = CASE) -> int:
    return int((label_file(root, case) == value).sum())


def test_a_server_killed_in_mid_stroke_loses_nothing_that_was_acknowledged(
    page: Page, context: BrowserContext, server: Served, root: Path
) -> None:
    axial = sheet(page, 0, root)
    single(page)
    axial.drag((4, 4), (9, 4))
    saved(page)
    before = label_file(root, CASE)
    assert count(root, 1) == 6
    page.mouse.move(*axial.place((4, 8)))
    page.mouse.down()
    page.mouse.move(*axial.place((7, 8)), steps=4)
    server.kill()
    page.mouse.move(*axial.place((9, 8)), steps=4)
    page.mouse.up()
    expect(page.locator("#saving")).to_have_attribute("data-kind", "offline")
    axial.drag((4, 12), (9, 12))  # the person draws on
    same(label_file(root, CASE), before)
    # Started anew on the same port, with a new token: the open page goes on by itself once the
    # new link was opened anywhere in the browser.
    server.options = ("--port", str(server.port))
    server.start()
    expect(page.locator("#saving")).to_have_attribute("data-kind", "token", timeout=20_000)
    other = context.new_page()
    other.goto(server.link)
    expect(page.locator("#saving")).to_have_attribute("data-kind", "saved", timeout=20_000)
    other.close()
    before[4:10, 8, axial.index] = 1
    before[4:10, 12, axial.index] = 1
    same(label_file(root, CASE), before)


def test_strokes_drawn_without_a_connection_survive_a_closed_tab(
    page: Page, context: BrowserContext, server: Served, root: Path
) -> None:
    axial = sheet(page, 0, root)
    single(page)
    axial.click((4, 4))
    saved(page)
    server.kill()
    axial.drag((4, 8), (9, 8))
    expect(page.locator("#saving")).to_have_attribute("data-kind", "offline")
    page.close(run_before_unload=False)
    server.options = ("--port", str(server.port))
    server.start()
    again = visit(context.new_page(), server.link)
    saved(again)
    assert count(root, 1) == 7


def test_what_waits_is_sent_in_portions_that_the_server_takes(page: Page) -> None:
    """Each of these is a tenth of the bound; 200 of them at once would be refused, and lost."""
    share = MOST_BYTES // 10
    counts = page.evaluate(
        """async (numbers) => {
            const { portion } = await import("/page/portion.js");
            const runs = Array(numbers).fill(1e6);
            const edit = { kind: "paint", plane: "axial", index: 1, runs };
            const undo = { kind: "undo" };
            return [portion([]), portion(Array(300).fill(undo)), portion(Array(300).fill(edit)),
                    portion([{ ...edit, runs: Array(20 * numbers).fill(1) }, undo])];
        }""",
        share // 8,
    )
    nothing, small, large, single = counts
    assert (nothing, small, single) == (0, 200, 1)
    assert 1 < large < 10


def test_a_lost_answer_is_not_mistaken_for_a_lost_stroke(
    page: Page, context: BrowserContext, root: Path
) -> None:
    """The edit arrives, its answer does not: the page finds out, and nothing is drawn twice."""
    axial = sheet(page, 0, root)
    single(page)
    lost: list[str] = []

    def swallow(route: Route) -> None:
        if not lost:
            lost.append(route.fetch().text())
            route.abort()
        else:
            route.continue_()

    page.route("**/edits", swallow)
    axial.drag((4, 4), (9, 4))
    saved(page)
    assert len(lost) == 1
    axial.click((4, 8))
    saved(page)
    assert count(root, 1) == 7
    page.locator("#undo").click()
    page.wait_for_function("() => !document.getElementById('redo').disabled")
    page.locator("#undo").click()
    page.wait_for_function(  # while the server is asked, both are disabled
        "() => document.getElementById('undo').disabled"
        " && !document.getElementById('redo').disabled"
    )
    assert not (root / "labelsTr" / f"{CASE}.nii.gz").exists()


def test_a_lost_answer_amid_many_strokes_drops_none_of_them(page: Page, root: Path) -> None:
    """More strokes wait than one request takes, and the answer to the first full one is lost."""
    axial = sheet(page, 0, root)
    single(page)
    voxels = [(i, j) for i in range(4, 30) for j in range(4, 12)]  # 208; a request takes 200
    lost: list[int] = []
    online: list[bool] = []

    def carry(route: Route) -> None:
        edits = len(route.request.post_data_json["edits"])
        if not online:
            route.abort()
        elif edits > 100 and not lost:
            lost.append(edits)
            route.fetch()
            route.abort()
        else:
            route.continue_()

    page.route("**/edits", carry)
    for voxel in voxels:
        axial.click(voxel)
    expect(page.locator("#saving")).to_have_attribute("data-kind", "offline")
    online.append(True)
    saved(page)
    assert lost == [200]
    assert count(root, 1) == len(voxels)


def test_the_second_tab_is_told_and_cannot_overwrite(
    page: Page, context: BrowserContext, server: Served, root: Path
) -> None:
    axial = sheet(page, 0, root)
    single(page)
    axial.click((4, 4))
    saved(page)
    other = context.new_page()
    other.goto(f"{server.base}/")
    other.wait_for_selector("body[data-ready]")
    ready(other)
    expect(other.locator("#banner")).to_contain_text("another tab")
    second = sheet(other, 0, root)
    second.drag((4, 8), (9, 8))
    assert count(root, 1) == 1
    other.get_by_role("button", name="Take the pen").click()
    expect(other.locator("#banner")).to_be_hidden()
    single(other)
    second.click((4, 8))
    saved(other)
    assert count(root, 1) == 2
    # The first tab hears of it, and what it draws before it does is refused.
    page.bring_to_front()
    expect(page.locator("#banner")).to_contain_text("another tab", timeout=15_000)
    axial.drag((4, 12), (9, 12))
    assert count(root, 1) == 2


def test_the_wheel_looks_around_and_choosing_another_slice_asks(page: Page, root: Path) -> None:
    axial = sheet(page, 0, root)
    chosen = axial.index
    single(page)
    axial.drag((4, 4), (9, 4))
    saved(page)
    page.mouse.move(*axial.place((15, 15)))
    page.mouse.wheel(0, -100)
    page.mouse.wheel(0, -100)
    expect(page.locator("canvas").nth(0)).to_have_attribute(
        "data-shown", f"axial {chosen + 2} ready"
    )
    expect(page.locator(".away").nth(0)).to_contain_text(f"drawing on {chosen}")
    axial.click((20, 20))  # drawing stays on the chosen slice
    expect(page.locator("#notice")).to_contain_text("Drawing stays on slice")
    page.get_by_role("button", name=f"Draw on {chosen + 2}").click()
    expect(page.locator("#question")).to_contain_text("has a drawing")
    page.keyboard.press("Escape")
    assert count(root, 1) == 6
    assert (label_file(root, CASE)[:, :, chosen] == 1).sum() == 6
    page.get_by_role("button", name=f"Draw on {chosen + 2}").click()
    page.get_by_role("button", name="Take the drawing along").click()
    expect(page.locator(".away").nth(0)).to_be_hidden()
    expect(page.locator(".panel .number").nth(0)).to_contain_text(f"slice {chosen + 2}")
    page.wait_for_function("() => !document.getElementById('undo').disabled")
    found = label_file(root, CASE)
    assert (found[:, :, chosen + 2] == 1).sum() == 6
    assert (found[:, :, chosen] == 3).all()
    # Discard instead, then copy from what was put away.
    page.keyboard.press("Control+z")
    expect(page.locator(".panel .number").nth(0)).to_contain_text(f"slice {chosen} ")
    page.locator("canvas").nth(0).focus()
    page.keyboard.press("PageUp")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Discard it").click()
    expect(page.locator(".away").nth(0)).to_be_hidden()
    expect(page.locator(".panel .number").nth(0)).to_contain_text(f"slice {chosen + 1}")
    page.locator("canvas").nth(0).focus()
    page.keyboard.press("c")
    expect(page.locator("#notice")).to_contain_text("Copied from axial")
    assert (label_file(root, CASE)[:, :, chosen + 1] == 1).sum() == 6


def test_a_whole_scan_by_keyboard_alone_to_the_preview_and_the_next(page: Page, root: Path) -> None:
    keys = page.keyboard
    for at in (0, 1):
        page.locator("canvas").nth(at).focus()
        keys.press("b")
        for _ in range(30):
            keys.press("]")
        keys.press("Space")
        for _ in range(30):
            keys.press("[")
        keys.press("ArrowLeft")
        keys.down("Space")
        keys.press("ArrowLeft")
        keys.press("Shift+ArrowUp")
        keys.up("Space")
        saved(page)
    assert count(root, 1) > 100
    keys.press("v")
    expect(page.locator("#panels")).to_have_attribute("data-count", "3", timeout=90_000)
    ready(page)
    expect(page.locator("#banner")).to_contain_text("Preview")
    for at in range(3):
        page.locator("canvas").nth(at).focus()
        keys.press("PageUp")
    ready(page)
    keys.press("Escape")
    expect(page.locator("#panels")).to_have_attribute("data-count", "2")
    keys.press("Control+Enter")
    if page.locator("#question").is_visible():
        page.get_by_role("button", name="Finish anyway").click()
    expect(page.locator("[aria-current] .case")).to_have_text("case_1", timeout=15_000)
    expect(page.locator("#counts")).to_contain_text("1 done")
    ready(page)
    keys.press("?")
    expect(page.locator("#help")).to_be_visible()
    keys.press("Escape")
    assert not [
        f for f in check_dataset(root) if "breaks" not in f.message and "shows" not in f.message
    ]


def test_one_finger_draws_two_zoom_and_the_pens_end_erases(
    page: Page, context: BrowserContext, root: Path
) -> None:
    axial = sheet(page, 0, root)
    single(page)
    devtools = context.new_cdp_session(page)

    def touch(kind: str, *places: tuple[float, float]) -> None:
        points = [{"x": x, "y": y, "id": n} for n, (x, y) in enumerate(places)]
        devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", axial.place((4, 4)))
    for i in range(5, 10):
        touch("touchMove", axial.place((i, 4)))
    touch("touchEnd")
    saved(page)
    assert count(root, 1) == 6
    here = axial.place((4, 4))
    touch("touchStart", axial.place((20, 10)), axial.place((22, 12)))
    for step in range(1, 6):
        touch("touchMove", axial.place((20 + step, 10)), axial.place((22 - 2 * step, 12 + step)))
    touch("touchEnd")
    page.wait_for_timeout(200)
    assert count(root, 1) == 6
    page.mouse.click(*here)  # the slice has moved under this place: another voxel is hit
    saved(page)
    assert count(root, 1) <= 7
    page.keyboard.press("r")
    # The pen's other end: button 5, buttons 32.
    page.evaluate(
        """([x, y]) => {
          const canvas = document.querySelector('canvas');
          const say = (type, button, buttons) => canvas.dispatchEvent(new PointerEvent(type, {
            clientX: x, clientY: y, pointerId: 9, pointerType: 'pen', button, buttons,
            bubbles: true, cancelable: true }));
          say('pointerdown', 5, 32); say('pointerup', 5, 0);
        }""",
        list(axial.place((5, 4))),
    )
    saved(page)
    assert label_file(root, CASE)[5, 4, axial.index] == 0


def test_nothing_here_and_clear_and_a_flag(page: Page, root: Path) -> None:
    page.get_by_role("button", name="Nothing here").first.click()
    saved(page)
    assert count(root, 0) == 36 * 30
    expect(page.locator(".badge").first).to_have_text("drawn, empty")
    page.get_by_role("button", name="Clear").first.click()
    expect(page.locator(".badge").first).to_have_text("to draw")
    page.keyboard.press("g")
    page.locator("#question input").fill("motion artefact")
    page.keyboard.press("Enter")
    expect(page.locator("#banner")).to_contain_text("motion artefact")
    expect(page.locator("[aria-current]")).to_have_attribute("data-status", "flagged")


def test_what_is_drawn_shows_on_the_other_panels_line_and_jumps_are_marked(
    page: Page, root: Path
) -> None:
    axial, coronal = sheet(page, 0, root), sheet(page, 1, root)
    page.keyboard.press("l")
    corners = [(10.5, 8.5), (24.5, 8.5), (24.5, 20.5), (10.5, 20.5)]
    axial.drag(*corners, corners[0])
    saved(page)
    assert page.locator("#warning-card").is_hidden()
    shown = label_file(root, CASE)[:, coronal.index, axial.index]
    assert (shown == 1).sum() == 14
    # The coronal drawing contradicts the axial one on the line.
    single(page)
    page.keyboard.press("e")
    coronal.drag((12, axial.index), (20, axial.index))
    saved(page)
    expect(page.locator("#warnings")).to_contain_text("axial")
    expect(page.locator("#warnings")).to_contain_text("jumps at 9 voxels")


def pixels(page: Page, at: int) -> NDArray[np.uint8]:
    """What a panel's canvas shows, as rows of RGB."""
    url = page.locator("canvas").nth(at).evaluate("canvas => canvas.toDataURL('image/png')")
    content = base64.b64decode(url.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def test_a_voxel_has_its_true_shape_and_the_window_its_greys(
    browser: Browser, tmp_path: Path
) -> None:
    root = write_dataset(tmp_path / "data", cases=1, affine=ANISOTROPIC, channel="CT")
    path = root / "imagesTr" / f"{CASE}_0000.nii.gz"
    image = nib.load(path)
    data = np.asarray(image.dataobj).astype(np.int16) - 1000
    nib.save(nib.Nifti1Image(data, image.affine), path)
    with served(root) as server, browser.new_context() as context:
        page = visit(context.new_page(), server.link)
        for what, value in (("#opacity", 100),):
            page.locator(what).evaluate(
                "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", value
            )
        for key in "os":
            page.keyboard.press(key)
        single(page)
        coronal = sheet(page, 1, root)
        coronal.click((20, 15))
        saved(page)
        page.mouse.move(2, 2)
        page.wait_for_timeout(200)
        red = (np.abs(pixels(page, 1).astype(int) - [255, 107, 107]) < 8).all(axis=-1)
        high, wide = red.any(axis=1).sum(), red.any(axis=0).sum()
        assert wide / high == pytest.approx(0.8 / 6.0, rel=0.2)
        page.locator("#preset").select_option("Lung")
        page.wait_for_timeout(200)
        axial = sheet(page, 0, root)
        x, y = axial.place((18, 20))
        box = page.locator("canvas").nth(0).bounding_box()
        assert box is not None
        shown = pixels(page, 0)[int(y - box["y"]), int(x - box["x"])]
        value = float(nib.as_closest_canonical(nib.load(path)).dataobj[18, 20, axial.index])
        assert shown == pytest.approx((value - (-600 - 750)) / 1500 * 255, abs=2)


def test_axe_finds_no_fault_in_any_state_of_the_page(page: Page, root: Path) -> None:
    found: dict[str, list[str]] = {}

    def look(state: str) -> None:
        page.wait_for_timeout(300)
        for fault in Axe().run(page).response["violations"]:
            found.setdefault(f"{state}: {fault['impact']} {fault['id']}", []).extend(
                node["html"][:120] for node in fault["nodes"]
            )

    look("fresh")
    axial = sheet(page, 0, root)
    page.keyboard.press("l")
    axial.drag((10, 8), (24, 8), (24, 20), (10, 20), (10, 8))
    saved(page)
    page.mouse.wheel(0, -100)
    page.keyboard.press("t")
    look("drawn, looking at a neighbour, threshold")
    page.keyboard.press("?")
    look("help")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    look("question")
    page.keyboard.press("Escape")
    page.keyboard.press("v")
    expect(page.locator("#panels")).to_have_attribute("data-count", "3", timeout=90_000)
    look("preview")
    assert not {k: v for k, v in found.items() if "serious" in k or "critical" in k}
    assert not found


@pytest.mark.parametrize("size", [(1280, 720), (2560, 1440)])
def test_everything_fits_the_screen_and_nothing_is_asked_of_another_host(
    browser: Browser, server: Served, size: tuple[int, int]
) -> None:
    with browser.new_context(viewport={"width": size[0], "height": size[1]}) as context:
        page = context.new_page()
        asked: list[str] = []
        complaints: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        visit(page, server.link)
        page.keyboard.press("t")
        page.wait_for_timeout(300)
        outside = page.evaluate(
            """() => [...document.querySelectorAll('button, input, select, canvas, h2, .chip')]
              .filter(e => e.checkVisibility() && !e.closest('.visually-hidden, dialog'))
              .filter(e => { const b = e.getBoundingClientRect();
                return b.right > innerWidth + 1 || b.bottom > innerHeight + 1 || b.left < -1; })
              .map(e => e.id || e.outerHTML.slice(0, 80))"""
        )
        assert outside == []
        canvas = page.locator("canvas").first.bounding_box()
        assert canvas is not None
        assert canvas["width"] > 0.25 * size[0]
        assert canvas["height"] > 0.6 * size[1]
        assert asked
        assert all(url.startswith(server.base) for url in asked)
        assert complaints == []


def test_a_dense_label_can_be_looked_at_and_not_drawn_on(
    browser: Browser, root: Path, tmp_path: Path
) -> None:
    dense = np.zeros((36, 30, 20), np.uint8)
    dense[8:28, 8:22, 5:15] = 1
    affine = nib.load(root / "imagesTr" / f"{CASE}_0000.nii.gz").affine
    (root / "labelsTr").mkdir()
    path = root / "labelsTr" / f"{CASE}.nii.gz"
    nib.save(nib.Nifti1Image(dense, affine), path)
    before = path.read_bytes()
    with served(root) as server, browser.new_context() as context:
        page = visit(context.new_page(), f"{server.link}#{CASE}")
        expect(page.locator("#banner")).to_contain_text("dense")
        expect(page.locator("#panels")).to_have_attribute("data-count", "3")
        sheet(page, 0, root).drag((10, 10), (20, 10))
        page.locator("canvas").nth(1).focus()
        page.keyboard.press("PageUp")
        ready(page)
        expect(page.locator("#finish")).to_be_disabled()
    assert path.read_bytes() == before
