"""Fig. 3: how much do two parallel slices know of each other, and how much two orthogonal ones?

Slices are drawn at random, as in the paper's appendix B: two axial ones, or an axial and a coronal
one. The paper leaves open what the paired samples of HSIC are. Both readings are computed:

rows    of one scan: each position along the axis that the slices share (left to right) is a sample,
        and what a slice shows there is its value; one HSIC a scan and draw
scans   each scan is a sample, and a slice at the same place in every scan its value; one a draw
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

Volume = NDArray[np.float32]
Draw = tuple[float, float, float]
KINDS = ("parallel", "orthogonal")


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
    draws = draw_places(options.draws, seed=options.seed)
    levels: dict[str, list[Volume]] = {"image": [], "feature": []}
    with progress.task("HSIC", len(cases)) as task:
        for case in cases:
            image = reader.image(opened, case)
            levels["image"].append(image)
            levels["feature"].append(reader.features(image))
            task.advance(note=case)
    found = {
        "cases": len(cases),
        "draws": options.draws,
        "rows": {level: compare_rows(scans, draws) for level, scans in levels.items()},
        "scans": {level: compare_scans(scans, draws) for level, scans in levels.items()},
    }
    atomic.write_json(result.out / "hsic.json", found)
    progress.say(in_words(found))
    _draw(found, result.out / "hsic.png")
    return found


def draw_places(count: int, *, seed: int) -> list[Draw]:
    """Pairs of slices as shares of the scan's sides: two axial ones and a coronal one."""
    rng = np.random.default_rng(seed)
    first, second, coronal = rng.random((3, count))
    return list(zip(first.tolist(), second.tolist(), coronal.tolist(), strict=True))


def compare_rows(scans: Sequence[Volume], draws: Sequence[Draw]) -> dict[str, Any]:
    """HSIC with the positions along the shared axis as samples."""
    values = _empty()
    for scan in scans:
        pairs = [pair for draw in draws if (pair := _pairs(scan, draw)) is not None]
        for kind in KINDS:
            for name, measure in (("hsic", hsic), ("alignment", alignment)):
                here = [measure(_by_row(a), _by_row(b)) for a, b in (p[kind] for p in pairs)]
                values[kind][name].append(float(np.mean(here)))
    return _summary(values)


def compare_scans(scans: Sequence[Volume], draws: Sequence[Draw]) -> dict[str, Any]:
    """HSIC with the scans as samples, cut to the middle that all of them have."""
    shape = np.min([scan.shape[1:] for scan in scans], axis=0)
    cut = [scan[:, *_middle(scan.shape[1:], shape)] for scan in scans]
    values = _empty()
    for draw in draws:
        pairs = [_pairs(scan, draw) for scan in cut]
        whole = [pair for pair in pairs if pair is not None]
        if len(whole) < len(cut):
            continue
        for kind in KINDS:
            x, y = (np.stack([pair[kind][side] for pair in whole]) for side in (0, 1))
            values[kind]["hsic"].append(hsic(x, y))
            values[kind]["alignment"].append(alignment(x, y))
    return _summary(values)


def in_words(found: Mapping[str, Any]) -> str:
    """The claim, and whether it holds: parallel slices know more of each other."""
    told = []
    for reading in ("rows", "scans"):
        for level in ("image", "feature"):
            each = found[reading][level]
            more = "more" if each["parallel"]["hsic"] > each["orthogonal"]["hsic"] else "LESS"
            told.append(
                f"{level} level, {reading} as samples: parallel {each['parallel']['hsic']:.4f}, "
                f"orthogonal {each['orthogonal']['hsic']:.4f}: parallel slices know {more} of each "
                f"other ({100 * each['share']:.0f} % of the pairs)"
            )
    return "\n".join(told)


def _pairs(scan: Volume, draw: Draw) -> dict[str, tuple[Volume, Volume]] | None:
    """The slices (C, I, ·) of one draw; None if both axial places are the same slice."""
    first, second = (int(place * scan.shape[3]) for place in draw[:2])
    if first == second:
        return None
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
        told[kind]["std"] = float(np.std(values[kind]["hsic"], ddof=1))
    parallel, orthogonal = (np.array(values[kind]["hsic"]) for kind in KINDS)
    told["share"] = float((parallel > orthogonal).mean())
    return told


def _draw(found: Mapping[str, Any], path: Path) -> None:
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        return
    from twoslice.studies.figures import saved_figure

    with saved_figure(path, 1, 2, size=(3.6, 3.2)) as axes:
        for axis, reading in zip(axes[0], ("rows", "scans"), strict=True):
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
