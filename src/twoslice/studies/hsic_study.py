"""Fig. 3: how much do two parallel slices know of each other, and how much two orthogonal ones?

Slices are drawn at random, as in the paper's appendix B: two axial ones, or an axial and a coronal
one. The paper leaves open what the paired samples of HSIC are. Both readings are computed:

rows    of one scan: each position along the axis that the slices share (left to right) is a sample,
        and what a slice shows there is its value; one HSIC a scan and draw
scans   each scan is a sample, and a slice at the same place in every scan its value; one a draw

How alike two parallel slices are depends on how far apart they lie, which the paper does not say:
the first reading is told by that distance too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoslice.io import atomic
from twoslice.io.dataset import Dataset
from twoslice.progress import Progress
from twoslice.studies.hsic import alignment, hsic

if TYPE_CHECKING:
    from twoslice.studies.study import StudyResult

Volume = NDArray[np.floating]
Pairs = dict[str, tuple[Volume, Volume]]
Draw = tuple[float, float, float]
KINDS = ("parallel", "orthogonal")
BINS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
"""Distances of two axial slices, as shares of the scan's height."""


def analyse_slices(
    result: StudyResult, dense: Mapping[str, Path], *, progress: Progress
) -> dict[str, Any]:
    """Write `hsic.json` and, with matplotlib, `hsic.png`; give back what the former holds."""
    from twoslice.studies.features import FeatureReader

    run, _ = result.finished[0]
    options = result.study.analysis
    reader = FeatureReader(result.folder(run) / "run")
    opened = Dataset.open(dense[run.data.data.dense])
    cases = sorted({*opened.cases, *opened.test_cases})[: options.scans]
    draws = draw_places(options.draws, seed=(options.seed,))
    common = np.min([reader.shape(opened, case) for case in cases], axis=0)
    levels = {level: Comparison(draws, common) for level in ("image", "feature")}
    with progress.task("HSIC", len(cases)) as task:
        for index, case in enumerate(cases):
            image = reader.image(opened, case)
            own = draw_places(options.draws, seed=(options.seed, index))
            levels["image"].add(image, own)
            levels["feature"].add(reader.features(image), own)
            task.advance(note=case)
    found = {
        "cases": len(cases),
        "draws": options.draws,
        "rows": {level: each.by_rows() for level, each in levels.items()},
        "scans": {level: each.by_scans() for level, each in levels.items()},
        "distance": {level: each.by_distance() for level, each in levels.items()},
    }
    atomic.write_json(result.out / "hsic.json", found)
    progress.say(in_words(found))
    _draw(found, result.out / "hsic.png")
    return found


def draw_places(count: int, *, seed: Sequence[int]) -> list[Draw]:
    """Pairs of slices as shares of the scan's sides: two axial ones and a coronal one."""
    rng = np.random.default_rng(seed)
    first, second, coronal = rng.random((3, count))
    return list(zip(first.tolist(), second.tolist(), coronal.tolist(), strict=True))


class Comparison:
    """Both readings over scans (C, I, J, K) that are added one by one. `draws` are the places that
    scans are compared with each other at: of each scan only these slices are kept, cut to the
    middle that all scans have (`common`), in half precision.
    """

    def __init__(self, draws: Sequence[Draw], common: NDArray[np.integer]) -> None:
        self.draws, self.common = draws, common
        self.rows = _empty()
        self.apart: list[tuple[float, float]] = []
        self.slices: list[list[Pairs]] = [[] for _ in draws]

    def add(self, scan: Volume, own: Sequence[Draw]) -> None:
        """Take a scan in; `own` are the places that its rows are compared at."""
        whole = [_pairs(scan, draw) for draw in own]
        for kind in KINDS:
            for name, measure in (("hsic", hsic), ("alignment", alignment)):
                here = [measure(_by_row(a), _by_row(b)) for a, b in (p[kind] for p in whole)]
                self.rows[kind][name].append(float(np.mean(here)))
                if (kind, name) == ("parallel", "alignment"):
                    far = [abs(first - second) for first, second, _ in own]
                    self.apart += zip(far, here, strict=True)
        cut = scan[:, *_middle(scan.shape[1:], self.common)].astype(np.float16)
        for kept, draw in zip(self.slices, self.draws, strict=True):
            kept.append({k: (a.copy(), b.copy()) for k, (a, b) in _pairs(cut, draw).items()})

    def by_rows(self) -> dict[str, Any]:
        """HSIC with the positions along the shared axis as samples."""
        return _summary(self.rows)

    def by_distance(self) -> list[dict[str, float]]:
        """The first reading, unbiased and scaled, of parallel slices by how far apart they lie."""
        told = []
        for low, high in pairwise(BINS):
            here = [value for far, value in self.apart if low <= far < high]
            if here:
                mean = float(np.mean(here))
                told.append({"from": low, "to": high, "alignment": mean, "pairs": len(here)})
        return told

    def by_scans(self) -> dict[str, Any]:
        """HSIC with the scans as samples."""
        values = _empty()
        for kept in self.slices:
            for kind in KINDS:
                x, y = (np.stack([pairs[kind][side] for pairs in kept]) for side in (0, 1))
                values[kind]["hsic"].append(hsic(x, y))
                values[kind]["alignment"].append(alignment(x, y))
        return _summary(values)


def in_words(found: Mapping[str, Any]) -> str:
    """The claim, and whether it holds: parallel slices know more of each other."""
    told = []
    for reading in ("rows", "scans"):
        for level in ("image", "feature"):
            each = found[reading][level]
            parts = []
            for name, word in (("hsic", "HSIC"), ("alignment", "unbiased and scaled")):
                parallel, orthogonal = (each[kind][name] for kind in KINDS)
                more = "more" if parallel > orthogonal else "LESS"
                parts.append(f"{word} {parallel:.4f} and {orthogonal:.4f}, {more}")
            told.append(
                f"{level} level, {reading} as samples, parallel and orthogonal: "
                f"{'; '.join(parts)}; HSIC is more in {100 * each['share']:.0f} % of the pairs"
            )
    for level, bins in found["distance"].items():
        level_with = found["rows"][level]["orthogonal"]["alignment"]
        shown = ", ".join(f"{each['alignment']:.2f} below {each['to']:g}" for each in bins)
        told.append(
            f"{level} level, rows as samples, parallel slices by their distance as a share of the "
            f"scan: {shown}; orthogonal ones have {level_with:.2f}"
        )
    return "\n".join(told)


def _pairs(scan: Volume, draw: Draw) -> Pairs:
    """The slices (C, I, ·) of one draw; two axial places in one slice are it and its neighbour."""
    first, second = (int(place * scan.shape[3]) for place in draw[:2])
    if first == second:
        second += 1 if second + 1 < scan.shape[3] else -1
    axial = scan[..., first]
    return {
        "parallel": (axial, scan[..., second]),
        "orthogonal": (axial, scan[:, :, int(draw[2] * scan.shape[2])]),
    }


def _by_row(slices: Volume) -> Volume:
    """(C, I, ·) as one sample a position along I."""
    return slices.swapaxes(0, 1).reshape(slices.shape[1], -1)


def _middle(shape: Sequence[int], wanted: NDArray[np.integer]) -> Iterator[slice]:
    for side, short in zip(shape, wanted.tolist(), strict=True):
        start = (side - short) // 2
        yield slice(start, start + short)


def _empty() -> dict[str, dict[str, list[float]]]:
    return {kind: {"hsic": [], "alignment": []} for kind in KINDS}


def _summary(values: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    """Means, deviations, and in what share of the pairs the parallel slices come first."""
    told: dict[str, Any] = {}
    for kind in KINDS:
        told[kind] = {name: float(np.mean(found)) for name, found in values[kind].items()}
        several = len(values[kind]["hsic"]) > 1
        told[kind]["std"] = float(np.std(values[kind]["hsic"], ddof=1)) if several else 0.0
    parallel, orthogonal = (np.array(values[kind]["hsic"]) for kind in KINDS)
    told["share"] = float((parallel > orthogonal).mean())
    return told


def _draw(found: Mapping[str, Any], path: Path) -> None:
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        return
    from twoslice.studies.figures import saved_figure

    with saved_figure(path, 1, 3, size=(3.4, 3.0)) as axes:
        _distance_panel(axes[0][2], found)
        for axis, reading in zip(axes[0], ("rows", "scans"), strict=False):
            for offset, kind, colour in ((-0.2, "parallel", "C0"), (0.2, "orthogonal", "C1")):
                levels = [found[reading][level][kind] for level in ("image", "feature")]
                axis.bar(
                    [place + offset for place in (0, 1)],
                    [each["hsic"] for each in levels],
                    width=0.38,
                    color=colour,
                    yerr=[each["std"] for each in levels],
                    capsize=3,
                    label=kind,
                )
            axis.set(xticks=[0, 1], xticklabels=["image", "feature"], ylabel="HSIC")
            axis.set_title(f"{reading} as samples", fontsize="medium")
        axes[0][0].legend(fontsize="small")


def _distance_panel(axis: Any, found: Mapping[str, Any]) -> None:
    for level, style in (("image", "-"), ("feature", "--")):
        bins = found["distance"][level]
        middle = [(each["from"] + each["to"]) / 2 for each in bins]
        values = [each["alignment"] for each in bins]
        axis.plot(middle, values, f"o{style}", color="C0", label=f"parallel, {level}")
        across = found["rows"][level]["orthogonal"]["alignment"]
        axis.axhline(across, linestyle=style, color="C1", label=f"orthogonal, {level}")
    axis.set(xlabel="distance / scan", ylabel="unbiased and scaled")
    axis.set_title("by distance, rows as samples", fontsize="medium")
    axis.legend(fontsize="x-small")
