"""Dice, Jaccard, HD95 and ASD of full-size left atria against MedPy, in one run.

python bench/metrics.py [--scans 10] [--repeats 3]

A pair is a scan's dense label and what a network might have made of it: the same label bent by a
smooth random displacement of a few voxels, with a speck elsewhere; and, harder, the next scan's
label. Both sides are timed on the same masks, one after the other; the values must agree to 1e-6.
Needs the scans of LA_h5 (TWOSLICE_DATA).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from medpy.metric import binary as medpy
from numpy.typing import NDArray
from scipy import ndimage

from twoslice.evaluation.metrics import compare

Mask = NDArray[np.bool_]
SPACING = (0.625, 0.625, 0.625)
RATIO, TOLERANCE = 8.0, 1e-6


def ours(prediction: Mask, label: Mask) -> tuple[float, ...]:
    """All metrics at once; the four of the paper are handed on, in voxels as it has them."""
    found = compare(prediction, label, spacing=SPACING)
    return found.dice, found.jaccard, found.hd95_voxel, found.asd_voxel


def theirs(prediction: Mask, label: Mask) -> tuple[float, ...]:
    """The four calls of the paper's own test script."""
    calls = (medpy.dc, medpy.jc, medpy.hd95, medpy.asd)
    return tuple(float(call(prediction, label)) for call in calls)


def bent(label: Mask, seed: int) -> Mask:
    """The label under a smooth displacement of about three voxels, and a speck of five."""
    rng = np.random.default_rng(seed)
    coarse = rng.normal(0, 3, (3, *(max(2, side // 16) for side in label.shape)))
    field = [ndimage.zoom(part, np.array(label.shape) / part.shape, order=1) for part in coarse]
    where = np.indices(label.shape, dtype=np.float32) + np.array(field)
    moved = ndimage.map_coordinates(label.astype(np.float32), where, order=1) > 0.5
    moved[2:7, 2:7, 2:7] = True
    return np.asarray(moved)


def pairs(folder: Path, count: int) -> Iterator[tuple[str, Mask, Mask]]:
    """Label and prediction of every scan, two ways."""
    labels = []
    for path in sorted(folder.glob("*/mri_norm2.h5"))[: count + 1]:
        with h5py.File(path) as file:
            labels.append(np.asarray(file["label"]) > 0)
    for index, (label, other) in enumerate(pairwise(labels)):
        yield "bent", bent(label, index), label
        box = tuple(slice(0, min(sides)) for sides in zip(label.shape, other.shape, strict=True))
        yield "next", other[box], label[box]


def timed(call: Callable[[Mask, Mask], Any], masks: tuple[Mask, Mask], repeats: int) -> Any:
    """The result and the fastest of some repeats, in seconds."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        result = call(*masks)
        best = min(best, time.perf_counter() - start)
    return result, best


def main() -> None:
    """Time both, compare the values, and fail if either promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scans", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    here = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("TWOSLICE_DATA", here)) / "LA_h5"
    if not folder.is_dir():
        sys.exit(f"no scans in {folder}: set TWOSLICE_DATA")
    seconds: dict[str, list[tuple[float, float]]] = {}
    worst, dice = 0.0, []
    for kind, prediction, label in pairs(folder, options.scans):
        mine, fast = timed(ours, (prediction, label), options.repeats)
        other, slow = timed(theirs, (prediction, label), 1)
        worst = max(worst, *(abs(a - b) for a, b in zip(mine, other, strict=True)))
        seconds.setdefault(kind, []).append((fast, slow))
        dice.append(mine[0])
    print(f"| pairs | Dice | MedPy, s | twoslice, s | ratio |\n|{' --- |' * 5}")
    ratios = []
    for row, (kind, times) in enumerate(seconds.items()):
        fast, slow = np.array(times).mean(axis=0)
        ratios.append(slow / fast)
        mean = 100 * np.mean(dice[row :: len(seconds)])
        print(f"| {len(times)} {kind} | {mean:.1f} | {slow:.3f} | {fast:.3f} | {slow / fast:.1f} |")
    print(f"largest difference of any metric: {worst:.1e}")
    if worst > TOLERANCE or min(ratios) < RATIO:
        sys.exit(f"wanted a ratio of {RATIO:g} or more and differences within {TOLERANCE:g}")


if __name__ == "__main__":
    main()
