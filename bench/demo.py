"""The demo on three seeds: DeSCO beside the drawn slices alone and propagation alone.

python bench/demo.py [--seeds 0,1,2] [--out FOLDER]

Prints a table: mean Dice ± standard deviation over scans, and the time of the whole demo. Finished
demos in FOLDER are kept, so that a stopped benchmark goes on; the times are those of this run.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from twoslice.demo.pipeline import run_demo
from twoslice.progress import Lines


def main() -> None:
    """Run the seeds one after another and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.out or Path(scratch)
        lines = []
        for seed in map(int, arguments.seeds.split(",")):
            result = run_demo(folder / f"seed-{seed}", seed=seed, progress=Lines(every=30))
            dices = [each.summary["overall"]["dice"] for each in result.scores.values()]
            shown = " | ".join(f"{100 * d['mean']:.1f} ± {100 * d['std']:.1f}" for d in dices)
            lines.append(f"| {seed} | {shown} | {result.seconds:.0f} |")
    names = " | ".join(result.scores)
    print(f"| seed | {names} | seconds |\n|{' --- |' * (len(result.scores) + 2)}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
