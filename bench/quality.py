"""Quality without ground truth, on real scans: one `twoslice run` a data set, then its predicted
Dice against the true one on validation cases that no stage before the report has seen labels of.

    python bench/quality.py --out DIR [--data la_half,hippocampus,btcv] [--set a.b=c]...
    python bench/quality.py --out DIR --table

The protocol is bench/recipes.py's: the first five cases with two drawn slices each, the next ones
without label, the last ones for validation. Validation scans are predicted (`--predict`), never
trained on. Dense labels of theirs score the verdict and nothing else. A stopped run goes on.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
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


def score(name: str, out: Path) -> dict[str, Any]:
    """The verdict on the validation cases against their true Dice."""
    folder = out / name
    verdict = Verdict.read(folder / "out" / "quality.json")
    cases = sorted(path.name.removesuffix(".nii.gz") for path in (folder / "validation").iterdir())
    found = evaluate(folder / "out" / "predictions", folder / "validation", cases=cases)
    true: dict[str, list[float]] = {}
    for row in found.cases:
        true.setdefault(row["case"], []).append(row["dice"])
    said = {row.case: row for row in verdict.scans}
    truth = np.array([np.mean(true[case]) for case in cases])
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
        "held out": verdict.held_out,
        "on drawn": verdict.on_drawn,
        "seconds": {stage: entry["seconds"] for stage, entry in stages.items()},
    }


def table(rows: list[dict[str, Any]]) -> None:
    """The figures as Markdown."""
    heads = (
        "data, validation scans, Spearman, true Dice, expected (interval), inside, mean error, "
        "scans in their interval, held out, on drawn slices, minutes"
    )
    print(f"| {heads.replace(', ', ' | ')} |")
    print("|" + " --- |" * 11)
    for row in rows:
        low, high = row["interval"]
        held = "-" if row["held out"] is None else f"{100 * row['held out']:.1f}"
        print(
            f"| {row['data']} | {row['cases']} | {row['spearman']:.2f} | {100 * row['true']:.1f} | "
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
    arguments = parser.parse_args()
    names = arguments.data.split(",")
    if not arguments.table:
        for name in names:
            run(name, arguments.out, arguments.set)
    table([score(name, arguments.out) for name in names])


if __name__ == "__main__":
    main()
