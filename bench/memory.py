"""Memory: one very long scan through prepare, propagate and predict, each within its bound.

    python bench/memory.py --work DIR [--shape 512,512,1000] [--only train,predict,propagate]
        [--filters 4]

A scan of smooth noise with a ball in it and two drawn slices; each command in a process of its own
with `--memory` as in BOUNDS. Prints CPU seconds, the peak of the process's memory and the bound,
and fails if a peak is over it. About twenty minutes on one core for 512×512×1000.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import numpy as np

from inference import fresh
from scale import PROGRAM, measure
from twoslice.io.dataset import write_description
from twoslice.io.grid import Grid
from twoslice.io.scans import write_image, write_labels

BOUNDS = {"train": 4, "predict": 4, "propagate": 10}
"""Gigabytes that each command is given."""


def make_dataset(folder: Path, shape: tuple[int, int, int]) -> None:
    """One scan and its two drawn slices, unless they are there."""
    if (folder / "dataset.json").is_file():
        return
    rng = np.random.default_rng(0)
    grid = Grid(shape, np.diag([-0.7, -0.7, 1.0, 1.0]))
    centre, radius = np.array(shape) / 2, min(shape) / 5
    i, j = (np.arange(shape[axis], dtype=np.float32) - centre[axis] for axis in (0, 1))
    plane = (i[:, None] ** 2 + j[None] ** 2).astype(np.float32)
    noise = rng.normal(0, 8, shape[:2]).astype(np.float32)
    image = np.empty(shape, np.int16)
    sparse = np.full(shape, 2, np.uint8)
    for k in range(shape[2]):
        ball = plane + (k - centre[2]) ** 2 <= radius**2
        image[..., k] = 100 * ball + np.roll(noise, k % 7, axis=0) + 20 * np.sin(k / 40)
        sparse[:, shape[1] // 2, k] = ball[:, shape[1] // 2]
        if k == shape[2] // 2:
            sparse[..., k] = ball
    write_image(folder / "imagesTr" / "long_0000.nii.gz", image, grid)
    write_labels(folder / "labelsTr" / "long.nii.gz", sparse, grid)
    labels = {"background": 0, "ball": 1}
    write_description(folder, name="long", channel_names=("CT",), labels=labels, ignore=2)


def commands(work: Path, filters: int) -> dict[str, list[str]]:
    """What is measured; training for one step is preparing the scan, and little else."""
    data, model = str(work / "data"), str(fresh(work, filters))
    few = [f"training.{each}" for each in ("iterations=1", "setting=sparse", "pictures=false")]
    sets = [part for each in few for part in ("--set", each)]
    return {
        "train": ["train", data, "--out", str(work / "run"), "--method", "supervised", *sets],
        "predict": ["predict", model, data, "--out", str(work / "predicted"), "--overwrite"],
        "propagate": ["propagate", data, "--workers", "1"],
    }


def main() -> None:
    """Measure each command; exit 1 if one passes its bound."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument(
        "--shape", type=lambda text: tuple(map(int, text.split(","))), default=(512, 512, 1000)
    )
    parser.add_argument("--only", default=",".join(BOUNDS))
    parser.add_argument("--filters", type=int, default=4)
    asked = parser.parse_args()
    make_dataset(asked.work / "data", asked.shape)
    for made in ("run", "data/preprocessed", "data/propagated"):
        shutil.rmtree(asked.work / made, ignore_errors=True)
    over = False
    print("| command | CPU s | peak GB | --memory |\n| --- | --- | --- | --- |", flush=True)
    for name, command in commands(asked.work, asked.filters).items():
        if name in asked.only.split(","):
            took = measure(PROGRAM, *command, "--memory", f"{BOUNDS[name]}GB")
            gigabytes = took.megabytes * 2**20 / 1e9
            over |= gigabytes > BOUNDS[name]
            print(
                f"| {name} | {took.seconds:.0f} | {gigabytes:.2f} | {BOUNDS[name]} GB |", flush=True
            )
    if over:
        sys.exit("a command held more than its bound")


if __name__ == "__main__":
    main()
