"""The sections that say how far to trust the label maps: the verdict in words, the scans in the
order in which to look at them, how the verdict held where dense labels were given, what to draw.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import numpy as np
from scipy.stats import spearmanr

from twoslice.evaluation.verdict import ScanVerdict, Verdict
from twoslice.report.curves import scatter
from twoslice.report.parts import Block, Diagram, Section
from twoslice.report.sources import Sources
from twoslice.report.tables import Cell, Table


def trust(verdict: Verdict, sources: Sources) -> Section:
    """What to expect of the set, and on what that rests."""
    expected = (
        f"Over all {len(verdict.scans)} predicted scans a mean Dice of "
        f"{100 * verdict.expected:.0f} is expected, with a 95 % interval from "
        f"{100 * verdict.low:.0f} to {100 * verdict.high:.0f}. Nobody drew these scans: this is an "
        f"estimate, not a measurement."
    )
    words = [expected]
    if verdict.held_out is not None:
        words.append(
            f"It rests on shorter trainings that left some of the drawn scans out: on the slices "
            f"drawn in those, which they had not been taught with, they reach a Dice of "
            f"{100 * verdict.held_out:.0f}. From there, firmness of the answers leads to all other "
            f"scans: how sure the networks are, how well the two agree, and whether they say the "
            f"same of the scan moved or mirrored."
        )
    else:
        words.append(
            "No training was held out (quality.folds), so it rests on the networks' own confidence "
            "and on what that was worth elsewhere. Take it as a rough guess."
        )
    words.append(
        "The order of the scans also counts whether a label map comes out the same in another way: "
        + (
            "by those shorter trainings, if they find most labels, and "
            if verdict.held_out is not None
            else ""
        )
        + "by carrying two of its slices through the scan as drawn ones are."
    )
    if verdict.on_drawn is not None:
        words.append(
            f"On the drawn slices themselves the final networks reach "
            f"{100 * verdict.on_drawn:.0f}. They were taught with these, so that figure says "
            f"nothing about other scans."
        )
    words += _propagation_check(sources)
    lines = [
        f"{point.case}, {point.slice}, {point.label}: Dice {100 * point.dice:.0f}"
        for point in verdict.points
    ]
    block = Block("Held-out trainings, slice by slice", "\n".join(lines))
    return Section("trust", "How far to trust it", tuple(words), blocks=(block,) if lines else ())


def _propagation_check(sources: Sources) -> list[str]:
    """What propagation expects of itself, leaving one plane out at a time."""
    checks = [sources.propagation(case) for case in sources.dataset.labeled]
    planes = [c["quality"]["expected_dice"] for c in checks if "quality" in c]
    known = [value for value in planes if value is not None]
    if not known:
        return []
    return [
        f"Propagation, checked plane against plane, expects a Dice of "
        f"{100 * float(np.mean(known)):.0f} of its own labels in the drawn scans."
    ]


def to_look_at(
    verdict: Verdict, sources: Sources, target: Path, numbers: Mapping[str, int]
) -> Section:
    """Every scan, the doubtful ones first; with dense labels the measured Dice beside."""
    true = true_dice(sources)
    names = list(verdict.scans[0].labels) if verdict.scans else []
    several = len(names) > 1
    headings = ["scan", "predicted Dice", "from", "to"]
    headings += [f"predicted {name}" for name in names] if several else []
    headings += ["measured Dice", "off by"] if true else []
    headings += ["why", "files"]
    rows = []
    for row in verdict.scans:
        cells = [
            Cell(row.case + (" (drawn in)" if row.drawn else ""), show=numbers.get(row.case)),
            _share(row.dice, strong=True),
            _share(row.low, bar=False),
            _share(row.high, bar=False),
        ]
        cells += [_share(row.labels[name], bar=False) for name in names] if several else []
        cells += _measured(row, true)
        cells += [
            Cell(row.why, words=True),
            Cell("", links=_links(row, sources, target), words=True),
        ]
        rows.append(tuple(cells))
    words = (
        "The scans that are probably worst come first. A click on a scan shows its slices, a click "
        "on a heading sorts. The interval of a single scan is wide: take the order as advice on "
        "where to look, not as a score.",
    )
    table = Table(tuple(headings), tuple(rows), sortable=True, caption="scans by predicted Dice")
    return Section("scans", "Look at these first", words, table)


def how_it_held(verdict: Verdict, sources: Sources) -> Section | None:
    """Predicted against measured Dice, where dense labels were given."""
    true = true_dice(sources)
    pairs = [(row, true[row.case]) for row in verdict.scans if row.case in true]
    if len(pairs) < 2:
        return None
    said = np.array([row.dice for row, _ in pairs])
    measured = np.array([dice for _, dice in pairs])
    inside = verdict.low <= measured.mean() <= verdict.high
    held = np.mean([row.low <= dice <= row.high for row, dice in pairs])
    words = [
        f"Dense labels of {len(pairs)} scans were given, and only this section and the measured "
        f"columns used them. Their mean Dice is {100 * measured.mean():.1f}: "
        f"{'inside' if inside else 'outside'} the interval above. Predictions of single scans are "
        f"off by {100 * np.abs(said - measured).mean():.1f} on average, and "
        f"{100 * held:.0f} % of the scans lie inside their own interval.",
    ]
    if len(pairs) >= 4 and said.std() > 0 and measured.std() > 0:
        ranks = spearmanr(said, measured).statistic
        words.append(f"The two orders of scans agree with a rank correlation of {ranks:.2f}.")
    chart = scatter(
        list(zip(said.tolist(), measured.tolist(), strict=True)),
        title="predicted against measured Dice",
    )
    note = "Each dot is a scan: predicted Dice to the right, measured upwards, both in percent."
    diagram = Diagram("Predicted against measured", chart, note)
    return Section("held", "How well that held", tuple(words), curves=(diagram,))


def draw_next(verdict: Verdict) -> Section | None:
    """Where one more slice or scan would help most."""
    advice = verdict.draw
    if advice is None:
        return None
    items = []
    if advice.scan:
        items.append(
            f"One more scan: {' and '.join(advice.slices)} of {advice.scan} ({advice.scan_why})."
        )
    if advice.slice_in:
        items.append(f"One more slice: {advice.slice} of {advice.slice_in} ({advice.slice_why}).")
    words = (
        "Judged like this: a scan is worth drawing in if it is expected to be poor and if many "
        "other poor scans are like it in firmness and volume; of its slices, those on which the "
        "networks doubt most. Draw, then run again with another --out.",
    )
    return Section("next", "What to draw next", words, items=tuple(items))


def left_aside(aside: Mapping[str, str]) -> Section | None:
    """Scans that could not be used, with the reason of each."""
    if not aside:
        return None
    words = ("These scans could not be used and have no label map. The reason says what to mend.",)
    items = tuple(f"{case}: {reason}" for case, reason in sorted(aside.items()))
    return Section("aside", "Set aside", words, items=items)


def true_dice(sources: Sources) -> dict[str, float]:
    """The measured Dice of each scan with a dense label: the mean over its labels."""
    found: dict[str, list[float]] = {}
    for row in sources.evaluation.cases if sources.evaluation else ():
        found.setdefault(row["case"], []).append(row["dice"])
    return {case: float(np.mean(values)) for case, values in found.items()}


def _measured(row: ScanVerdict, true: Mapping[str, float]) -> list[Cell]:
    if not true:
        return []
    if row.case not in true:
        return [Cell("", sort=-1.0), Cell("", sort=-1.0)]
    off = row.dice - true[row.case]
    return [_share(true[row.case], strong=True), Cell(f"{100 * off:+.1f}", sort=abs(off))]


def _links(row: ScanVerdict, sources: Sources, target: Path) -> tuple[tuple[str, str], ...]:
    """Files of a scan by name, relative to the page, so that a folder can be moved as a whole."""
    files = []
    if row.case in sources.predictions:
        files.append(("label map", sources.predictions[row.case]))
    if row.case in sources.scans:
        files.append(("scan", sources.scans[row.case][0]))
    return tuple(
        (name, quote(os.path.relpath(path, target.parent).replace(os.sep, "/")))
        for name, path in files
    )


def _share(value: float, *, bar: bool = True, strong: bool = False) -> Cell:
    return Cell(f"{100 * value:.1f}", bar=value if bar else None, strong=strong, sort=value)
