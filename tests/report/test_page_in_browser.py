"""The page in Chromium, opened from a file: nothing fails, nothing leaves, slices scroll, tables
sort, and axe-core finds nothing serious.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from annotator.screen import chromium
from report import judged
from twoslice.evaluation.verdict import Verdict
from twoslice.report.page import write_report


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Verdict]:
    root = tmp_path_factory.mktemp("judged")
    verdict = judged.make_run(root)
    page = write_report(
        root / "run",
        root / "out" / "report.html",
        predictions=root / "predictions",
        labels=root / "dense" / "labelsTr",
        quality=root / "quality.json",
        aside={"broken_07": "no readable scan"},
    )
    return page, verdict


@pytest.fixture(scope="module")
def page(made: tuple[Path, Verdict]) -> Iterator[Page]:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        faults: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(made[0].as_uri())
        yield page
        assert faults == []
        assert [url for url in asked if not url.startswith("data:")] == [made[0].as_uri()]


def shown(page: Page, panel: int) -> tuple[str, str, str]:
    """What a panel says, where its sheet lies, and its outlines."""
    figure = page.locator("#viewer-planes figure").nth(panel)
    image = figure.locator("image.over-scan")
    place = f"{image.get_attribute('x')} {image.get_attribute('y')}"
    paths = [path.get_attribute("d") for path in figure.locator("path.predicted").all()]
    return figure.locator("label span").inner_text(), place, " ".join(map(str, paths))


def test_slices_scroll_by_wheel_and_by_key_with_their_outlines(page: Page) -> None:
    before = [shown(page, panel) for panel in range(3)]
    svg = page.locator("#viewer-planes svg").first
    svg.scroll_into_view_if_needed()
    svg.hover()
    page.mouse.wheel(0, 120)
    after = shown(page, 0)
    assert after[0] != before[0][0]
    assert after[1] != before[0][1]
    assert after[2] != before[0][2]
    assert [shown(page, panel) for panel in (1, 2)] == before[1:]
    page.locator("#viewer-planes input").first.focus()
    page.keyboard.press("ArrowLeft")
    assert shown(page, 0) == before[0]


def test_the_picture_under_the_outlines_is_there_and_not_black(page: Page) -> None:
    loaded = page.evaluate(
        """async () => {
            const image = new Image();
            image.src = document.querySelector('#viewer-planes image').getAttribute('href');
            await image.decode();
            const canvas = document.createElement('canvas');
            [canvas.width, canvas.height] = [image.width, image.height];
            const context = canvas.getContext('2d');
            context.drawImage(image, 0, 0);
            return Math.max(...context.getImageData(0, 0, image.width, image.height).data
                .filter((_, index) => index % 4 === 0));
        }"""
    )
    assert loaded > 100


def test_a_click_on_a_scan_shows_it_and_layers_can_be_switched(
    page: Page, made: tuple[Path, Verdict]
) -> None:
    last = made[1].scans[-1].case
    page.locator("button.show", has_text=last).click()
    title = page.locator("#viewer-planes svg").first.get_attribute("aria-label")
    assert title is not None
    assert title.startswith(last)
    doubt = page.locator("#viewer-planes image.over-doubt").first
    assert not doubt.is_visible()
    page.locator("input[data-over=doubt]").check()
    assert doubt.is_visible()
    page.locator("input[data-over=outlines]").uncheck()
    assert not page.locator("#viewer-planes path.predicted").first.is_visible()
    page.locator("input[data-over=outlines]").check()


def column(page: Page, number: int) -> list[str]:
    cells = page.locator("#scans tbody tr").all()
    return [row.locator("td").nth(number).inner_text() for row in cells]


def test_the_table_sorts_by_numbers_both_ways_and_by_names(
    page: Page, made: tuple[Path, Verdict]
) -> None:
    by_verdict = [f"{100 * row.dice:.1f}" for row in made[1].scans]
    assert column(page, 1) == by_verdict  # the doubtful ones first, before any click
    head = page.locator("#scans th", has_text="predicted Dice")
    head.locator("button").click()
    assert column(page, 1) == sorted(by_verdict, key=float)
    assert head.get_attribute("aria-sort") == "ascending"
    head.locator("button").click()
    assert column(page, 1) == sorted(by_verdict, key=float, reverse=True)
    page.locator("#scans th button", has_text="scan").first.click()
    assert column(page, 0) == sorted(column(page, 0))


def test_every_link_to_a_file_leads_to_it(page: Page, made: tuple[Path, Verdict]) -> None:
    links = [link.get_attribute("href") for link in page.locator("#scans tbody a").all()]
    assert len(links) == 2 * len(made[1].scans)
    assert all(link and (made[0].parent / link).is_file() for link in links)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    found = Axe().run(page).response["violations"]
    page.emulate_media(color_scheme="light")
    assert [(fault["id"], fault["impact"]) for fault in found] == []


def test_the_printed_page_has_pictures_and_the_table_but_no_controls(page: Page) -> None:
    page.emulate_media(media="print")
    assert page.locator("#scans table").is_visible()
    assert page.locator("#predictions svg.slice").first.is_visible()
    assert not page.locator("#viewer-scan").is_visible()
    assert len(page.pdf()) > 10_000
    page.emulate_media(media="screen")
