"""Quality without ground truth, on real scans: one `twoslice run` a data set, then its predicted
Dice against the true one on validation cases that no stage before the report has seen labels of.

    python bench/quality.py --out DIR [--data la_half,hippocampus,btcv] [--set a.b=c]...
    python bench/quality.py --out DIR --table [--hidden] [--data hippocampus --rival PREDICTIONS]

The protocol is bench/recipes.py's: the first five cases with two drawn slices each, the next ones
without label, the last ones for validation. Validation scans are predicted (`--predict`), never
trained on. Dense labels of theirs score the verdict and nothing else. A stopped run goes on.
`--hidden` scores the training scans that nobody drew in as well, by the labels that were hidden.
`--rival` is about what any verdict could know: it ranks the scans by the Dice between the run's
label maps and others, such as those of a network that was taught by whole volumes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from real_scans import DATA
from recipes import PROTOCOLS, prepare
from twoslice.evaluation.evaluate import evaluate
from twoslice.evaluation.verdict import Verdict
from twoslice.io.dataset import Dataset


def run(name: str, out: Path, assignments: list[str]) -> None:
    """Make the data, then one command from slices to report."""
    protocol, folder = PROTOCOLS[name], out / name
    dataset = prepare(protocol, folder)
    dense = Dataset.open(DATA / protocol.folder)
    scans = folder / "scans"
    for case in sorted(dense.cases)[-protocol.validation :]:
        for image in dense.case(case).images:
            target = scans / image.name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.is_file():
                shutil.copy(image, target)
    command = [str(Path(sys.executable).with_name("twoslice")), "run", str(dataset.root)]
    command += ["--out", str(folder / "out"), "--predict", str(scans)]
    command += ["--labels", str(folder / "validation")]
    for assignment in assignments:
        command += ["--set", assignment]
    print(" ".join(command), flush=True)
    begun = time.monotonic()
    subprocess.run(command, check=True)
    print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)


def score(name: str, out: Path, *, hidden: bool = False) -> dict[str, Any]:
    """The verdict on the validation cases against their true Dice; with `hidden` on the training
    cases that nobody drew in too.
    """
    folder = out / name
    verdict = Verdict.read(folder / "out" / "quality.json")
    said = {row.case: row for row in verdict.scans}
    true = true_dice(folder, folder / "validation")
    if hidden:
        undrawn = {case for case, row in said.items() if not row.drawn}
        true |= true_dice(folder, folder / "sparse" / "dense", only=undrawn)
    cases, truth = list(true), np.array(list(true.values()))
    expected = np.array([said[case].dice for case in cases])
    inside = [said[c].low <= t <= said[c].high for c, t in zip(cases, truth, strict=True)]
    stages = json.loads((folder / "out" / "run.json").read_text())["stages"]
    return {
        "data": name,
        "cases": len(cases),
        "true": float(truth.mean()),
        "expected": verdict.expected,
        "interval": [verdict.low, verdict.high],
        "on validation": float(expected.mean()),
        "spearman": float(spearmanr(expected, truth)[0]),
        "mean error": float(np.abs(expected - truth).mean()),
        "scans in their interval": float(np.mean(inside)),
        "first and rest": first_and_rest(expected, truth),
        "held out": verdict.held_out,
        "on drawn": verdict.on_drawn,
        "seconds": {stage: entry["seconds"] for stage, entry in stages.items()},
    }


def true_dice(folder: Path, labels: Path, only: set[str] | None = None) -> dict[str, float]:
    """The mean Dice over the labels of each case that dense labels are there of."""
    names = {path.name.removesuffix(".nii.gz") for path in labels.iterdir()}
    cases = sorted(names if only is None else names & only)
    found = evaluate(folder / "out" / "predictions", labels, cases=cases)
    return dict(zip(cases, map(float, _by_case(found.cases, cases)), strict=True))


def first_and_rest(
    expected: NDArray[np.float64], truth: NDArray[np.float64]
) -> tuple[float, float]:
    """The mean true Dice of the quarter of the scans to look at first, and of the others."""
    order = np.argsort(expected, kind="stable")
    first = max(1, round(len(order) / 4))
    return float(truth[order[:first]].mean()), float(truth[order[first:]].mean())


def rank_by_rival(name: str, out: Path, rival: Path) -> None:
    """Print how the Dice with a rival's label maps ranks the scans, and how the rival does."""
    folder = out / name
    ours, truth = folder / "out" / "predictions", folder / "validation"
    cases = sorted(path.name.removesuffix(".nii.gz") for path in truth.iterdir())
    true, agreed, rivals = (
        _by_case(evaluate(one, other, cases=cases).cases, cases)
        for one, other in ((ours, truth), (ours, rival), (rival, truth))
    )
    alike, hard = (spearmanr(each, true)[0] for each in (agreed, rivals))
    print(
        f"{name}: true Dice {100 * true.mean():.1f}, of the rival {100 * rivals.mean():.1f}, "
        f"between the two {100 * agreed.mean():.1f}. Spearman with the true Dice: {alike:.2f} of "
        f"the Dice between the two, {hard:.2f} of the rival's true Dice."
    )


def _by_case(rows: Sequence[dict[str, Any]], cases: Sequence[str]) -> NDArray[np.float64]:
    """The mean Dice of each case over its labels."""
    return np.array([np.mean([row["dice"] for row in rows if row["case"] == c]) for c in cases])


def table(rows: list[dict[str, Any]]) -> None:
    """The figures as Markdown."""
    heads = (
        "data, scans, Spearman, first quarter / rest, true Dice, expected (interval), inside, "
        "mean error, scans in their interval, held out, on drawn slices, minutes"
    )
    print(f"| {heads.replace(', ', ' | ')} |")
    print("|" + " --- |" * 12)
    for row in rows:
        low, high = row["interval"]
        first, rest = row["first and rest"]
        held = "-" if row["held out"] is None else f"{100 * row['held out']:.1f}"
        print(
            f"| {row['data']} | {row['cases']} | {row['spearman']:.2f} | "
            f"{100 * first:.1f} / {100 * rest:.1f} | {100 * row['true']:.1f} | "
            f"{100 * row['expected']:.1f} ({100 * low:.0f} to {100 * high:.0f}) | "
            f"{'yes' if low <= row['true'] <= high else 'no'} | {100 * row['mean error']:.1f} | "
            f"{100 * row['scans in their interval']:.0f} % | {held} | "
            f"{100 * row['on drawn']:.1f} | {sum(row['seconds'].values()) / 60:.0f} |"
        )


def main() -> None:
    """Run what is asked for, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", default=",".join(PROTOCOLS))
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--hidden", action="store_true", help="undrawn training scans count too")
    parser.add_argument("--rival", type=Path)
    arguments = parser.parse_args()
    names = arguments.data.split(",")
    if not arguments.table:
        for name in names:
            run(name, arguments.out, arguments.set)
    table([score(name, arguments.out, hidden=arguments.hidden) for name in names])
    if arguments.rival:
        rank_by_rival(names[0], arguments.out, arguments.rival)


if __name__ == "__main__":
    main()
