"""The page: one file, nothing from outside, all of the run in it."""

from __future__ import annotations

import base64
import hashlib
import html
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from twoslice.annotation.simulate import simulate
from twoslice.demo.phantom import write_phantoms
from twoslice.errors import InputError
from twoslice.evaluation.evaluate import evaluate
from twoslice.io import atomic
from twoslice.io.dataset import Dataset
from twoslice.propagation.dataset import propagate_dataset
from twoslice.report.page import write_report
from twoslice.report.tables import Rival
from twoslice.settings import load_settings
from twoslice.training.planner import make_plan
from twoslice.training.run import Run

METRICS = """step,loss,supervised,cross,alpha,trust,learning_rate,seconds
10,1.5,1.0,0.5,0.95,0.01,0.002,3
20,1.1,0.8,0.3,0.5,0.4,0.001,6
30,0.9,0.7,0.2,0.0,0.8,0.0005,9
"""


class Page(HTMLParser):
    """Everything in the page that could reach out, its words, and its headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.reaching: list[str] = []
        self.tags: list[str] = []
        self.words = ""
        self.scripts: list[str] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        kind = dict(attrs).get("type")
        self._inside = tag == "script" and kind is None
        assert kind in (None, "application/json", "button", "checkbox", "range")
        for name, value in attrs:
            if name in ("src", "href", "srcset", "action", "data", "xlink:href", "poster"):
                self.reaching.append(value or "")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts.append(data)
            self._inside = False
        self.words += data


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with everything but weights, and predictions one voxel off."""
    root = tmp_path_factory.mktemp("made")
    dense = write_phantoms(root / "dense <b>&", training=3, test=2, shape=(32, 32, 16))
    data = simulate(dense, root / "data <b>&", labeled=2)
    propagate_dataset(data)
    settings = load_settings(preset="fast")
    Run.create(root / "run", settings, make_plan(data, settings), data).save()
    atomic.write_text(root / "run" / "metrics.csv", METRICS)
    shutil.copytree(dense.root / "labelsTs", root / "predictions")
    return root


def test_the_page_takes_nothing_from_outside_and_escapes_names(made: Path) -> None:
    path = write_report(
        made / "run",
        predictions=made / "predictions",
        labels=made / "dense <b>&" / "labelsTs",
        scans=[made / "dense <b>&" / "imagesTs"],
    )
    assert path == made / "run" / "report.html"
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.reaching
    assert all(value.startswith(("data:image/png;base64,", "#")) for value in page.reaching)
    assert text.replace("http://www.w3.org/2000/svg", "").count("://") == 0
    assert "url(" not in text
    for script in page.scripts:  # no file, and the policy names the only one that may run
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"script-src 'sha256-{digest}'" in html.unescape(text)
    assert len(page.scripts) == 1
    assert "b" not in page.tags[page.tags.index("h1") : page.tags.index("nav")]
    assert "data <b>&" in page.words


def test_every_part_is_there_when_everything_is_given(made: Path) -> None:
    labels = made / "dense <b>&" / "labelsTs"
    scores = evaluate(made / "predictions", labels)
    path = write_report(
        made / "run",
        made / "whole.html",
        predictions=made / "predictions",
        labels=labels,
        scans=[made / "dense <b>&" / "imagesTs"],
        rivals=[Rival("ours", scores, "2 test scans")],
    )
    text = path.read_text(encoding="utf-8")
    for anchor in (
        "look",
        "comparison",
        "scores",
        "predictions",
        "drawn",
        "propagated",
        "training",
    ):
        assert f'<section id="{anchor}">' in text
    # 2 labelled scans with 2 drawn slices and 3 propagated views each, 2 predictions of 3 planes.
    assert text.count('<svg class="slice"') == 2 * 2 + 2 * 3 + 2 * 3
    assert text.count('<svg class="chart"') == 2
    assert "α, slice decay" in text
    assert "100.0 ± 0.0" in text


def test_without_dense_labels_the_page_shows_volumes_and_claims_no_score(made: Path) -> None:
    path = write_report(made / "run", made / "plain.html", predictions=made / "predictions")
    page = Page(path.read_text(encoding="utf-8"))
    assert "Dice organ" not in page.words
    assert "nothing is scored" in page.words
    assert "Scans not found: test_00, test_01" in page.words
    dense = Dataset.open(made / "dense <b>&")
    labels = dense.read_labels("test_00")
    volume = (labels.data == 1).sum() * float(np.prod(labels.grid.spacing)) / 1000
    assert f"{volume:.1f}" in page.words


def test_labels_without_predictions_and_a_folder_that_is_no_run_leave_no_page(
    made: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="Add --predictions"):
        write_report(made / "run", tmp_path / "x.html", labels=made / "predictions")
    with pytest.raises(InputError, match="is not a run folder"):
        write_report(tmp_path, tmp_path / "x.html")
    assert not list(tmp_path.iterdir())
