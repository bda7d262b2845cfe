"""Write the page: sources in, sections built, one file out."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from twoslice import __version__
from twoslice.annotation.types import SparseAnnotation
from twoslice.errors import SettingsError
from twoslice.io import atomic
from twoslice.progress import Progress, Silent
from twoslice.report import sections, trust
from twoslice.report.parts import Section
from twoslice.report.sources import Sources
from twoslice.report.tables import Rival

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Tile:
    """One figure with what it counts."""

    value: str
    caption: str


@dataclass(frozen=True)
class Page:
    """Everything that the template shows."""

    title: str
    subtitle: str
    tiles: tuple[Tile, ...]
    words: tuple[str, ...]
    labels: tuple[str, ...]
    has_reference: bool
    sections: tuple[Section, ...]
    footer: str


def write_report(
    run: Path,
    out: Path | None = None,
    *,
    dataset: Path | None = None,
    predictions: Path | None = None,
    labels: Path | None = None,
    scans: Sequence[Path] = (),
    rivals: Sequence[Rival] = (),
    quality: Path | None = None,
    aside: Mapping[str, str] | None = None,
    title: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write one self-contained HTML page about a run; return where it lies.

    `predictions` are label maps to show, `labels` dense ones to score them with. `scans` says
    where predicted scans lie that are not in the dataset. `rivals` are other ways to get labels,
    shown beside this run's scores. `quality` is the verdict that `twoslice run` reached, `aside`
    the scans that it could not use, with the reason. `title` stands for the dataset's name.
    """
    target = out or run / "report.html"
    if target.suffix.lower() not in (".html", ".htm"):  # a user's own file must not be replaced
        raise SettingsError(f"--out {target}: expected a name that ends in .html.")
    sources = Sources.open(
        run,
        dataset=dataset,
        predictions=predictions,
        labels=labels,
        scans=scans,
        quality=quality,
        aside=(aside or {}).keys(),
    )
    drawn = sections.annotations_of(sources)
    built = _build(sources, drawn, rivals, target, aside or {}, progress or Silent())
    atomic.write_text(target, render(_page(title or sources.dataset.name, sources, drawn, built)))
    return target


def _build(
    sources: Sources,
    drawn: dict[str, SparseAnnotation],
    rivals: Sequence[Rival],
    target: Path,
    aside: Mapping[str, str],
    progress: Progress,
) -> tuple[Section, ...]:
    """Every section that has something to say."""
    look = sections.scroll(sources, drawn) if sources.predictions else None
    builders: tuple[Callable[[], Section | None], ...] = (
        *_trusting(sources, look, target, aside),
        lambda: sections.comparison(rivals),
        lambda: sections.scans_table(sources),
        lambda: sections.predicted_labels(sources),
        lambda: sections.drawn_slices(sources, drawn),
        lambda: sections.propagated_views(sources, drawn),
        lambda: sections.training_curves(sources),
        lambda: sections.settings_block(sources),
    )
    built: list[Section] = []
    with progress.task("report", len(builders)) as task:
        for build in builders:
            section = build()
            built += [section] if section is not None else []
            task.advance()
    return tuple(built)


def _trusting(
    sources: Sources, look: Section | None, target: Path, aside: Mapping[str, str]
) -> tuple[Callable[[], Section | None], ...]:
    """The sections about the verdict, where there is one, and about what was set aside."""
    verdict = sources.verdict
    if verdict is None:
        return lambda: look, lambda: trust.left_aside(aside)
    packed = look.viewer.scans if look is not None and look.viewer is not None else ()
    numbers = {case: number for number, (case, _) in enumerate(packed)}
    return (
        lambda: trust.trust(verdict, sources),
        lambda: trust.to_look_at(verdict, sources, target, numbers),
        lambda: look,
        lambda: trust.how_it_held(verdict, sources),
        lambda: trust.draw_next(verdict),
        lambda: trust.left_aside(aside),
    )


def render(page: Page) -> str:
    """The page as HTML; all text is escaped, and an unknown name in the template is an error."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((HERE / "page.html").read_text(encoding="utf-8"))
    script = (HERE / "page.js").read_text(encoding="utf-8")
    digest = hashlib.sha256(script.encode()).digest()
    return template.render(
        page=page,
        style=(HERE / "page.css").read_text(encoding="utf-8"),
        script=script,
        script_hash="sha256-" + base64.b64encode(digest).decode("ascii"),
    )


def _page(
    title: str,
    sources: Sources,
    drawn: dict[str, SparseAnnotation],
    built: tuple[Section, ...],
) -> Page:
    data, method = sources.dataset, sources.run.settings.method
    slices = sum(len(annotation.slices) for annotation in drawn.values())
    tiles = [
        Tile(str(len(data.cases)), "scans in the dataset"),
        Tile(str(slices), f"drawn slices in {len(drawn)} of them"),
    ]
    if sources.predictions:
        tiles.append(Tile(str(len(sources.predictions)), "scans predicted"))
    if sources.verdict is not None:
        found = sources.verdict
        interval = f"{100 * found.low:.0f} to {100 * found.high:.0f}"
        tiles.append(Tile(f"{100 * found.expected:.0f}", f"expected Dice, 95 %: {interval}"))
    if sources.evaluation is not None:
        dice = sources.evaluation.summary["overall"]["dice"]
        tiles.append(Tile(f"{100 * dice['mean']:.1f}", "mean Dice on scans with dense labels"))
    return Page(
        title=title,
        subtitle=f"Method {method}, run folder {sources.run.folder.name}, "
        f"{datetime.now().astimezone():%d %B %Y, %H:%M}",
        tiles=tuple(tiles),
        words=_in_words(sources, drawn, slices),
        labels=data.class_names[1:],
        has_reference=bool(sources.labels),
        sections=built,
        footer=f"Made by twoslice {__version__}. Pictures are in radiological convention: the "
        f"patient's right (R) is on the left. Not for clinical use.",
    )


def _in_words(sources: Sources, drawn: dict[str, SparseAnnotation], slices: int) -> tuple[str, ...]:
    """What was done and what came of it, in a few sentences."""
    data = sources.dataset
    voxels = sum(int(annotation.drawn().sum()) for annotation in drawn.values())
    whole = sum(annotation.drawn().size for annotation in drawn.values())
    targets = " and ".join(data.class_names[1:])
    words = [
        f"{targets.capitalize()}: {slices} slices were drawn in {len(drawn)} of {len(data.cases)} "
        f"scans. That is {100 * voxels / max(whole, 1):.1f} % of the voxels of those scans; "
        f"the other {len(data.unlabeled)} scans have no label."
    ]
    if sources.evaluation is not None:
        overall = sources.evaluation.summary["overall"]
        flagged = len(sources.evaluation.summary["flagged"])
        words.append(
            f"Against dense labels of {sources.evaluation.summary['cases']} scans the predictions "
            f"reach a Dice of {100 * overall['dice']['mean']:.1f} ± "
            f"{100 * overall['dice']['std']:.1f} and a 95 % Hausdorff distance of "
            f"{overall['hd95_mm']['mean']:.1f} ± {overall['hd95_mm']['std']:.1f} mm."
            + (f" {flagged} mask(s) were empty; the table says which." if flagged else "")
        )
    elif sources.verdict is not None:
        words.append(sources.verdict.in_words())
    elif sources.predictions:
        words.append(
            "No dense labels were given: look at the pictures before you trust a label map."
        )
    return tuple(words)
