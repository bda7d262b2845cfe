"""How often the crossing-line check finds a moved slice, and how often it blames a sound one.

From every dense label of the real data two slices are taken. Sound ones give the false alarms;
then one of the two is flipped or shifted before both are written into one label map, either slice
last. Printed are the share that is found, and of those the share whose cause is named rightly (a
shift to within a voxel).

    python bench/crossing.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.choice import CHOICES, choose_slices, wishes
from twoslice.annotation.crossing import broken_lines
from twoslice.annotation.moves import DIRECTIONS
from twoslice.annotation.reading import annotation_at
from twoslice.annotation.types import AnnotatedSlice, SparseAnnotation
from twoslice.io.dataset import Dataset
from twoslice.planes import Plane

DATA = Path(os.environ.get("TWOSLICE_DATA", Path(__file__).parents[2] / "shared" / "data"))
PAIRS = (
    (Plane.AXIAL, Plane.CORONAL),
    (Plane.AXIAL, Plane.SAGITTAL),
    (Plane.CORONAL, Plane.SAGITTAL),
)
SHIFTS = product(("along", "across"), (1, 2, 3, 5))
MOVES = (
    "flipped along the line",
    "flipped across it",
    "turned by half a turn",
    *(f"shifted by {size} {way}" for way, size in SHIFTS),
)


def moved(drawn: AnnotatedSlice, line_axis: int, move: str) -> AnnotatedSlice:
    """The slice after a move that is worded relative to the crossing line."""
    axes = [axis for axis in range(3) if axis != drawn.plane.axis]
    along = axes.index(line_axis)
    words = move.split()
    if words[0] == "turned":
        mask = drawn.mask[::-1, ::-1]
    elif words[0] == "flipped":
        mask = np.flip(drawn.mask, along if words[1] == "along" else 1 - along)
    else:
        axis = along if words[3] == "along" else 1 - along
        mask = np.roll(drawn.mask, int(words[2]), axis)
        np.moveaxis(mask, axis, 0)[: int(words[2])] = 0
    return AnnotatedSlice(drawn.plane, drawn.index, mask)


def expected(wrong: AnnotatedSlice, line_axis: int, move: str) -> re.Pattern[str]:
    """What a message about this move should say."""
    words = move.split()
    across = 3 - wrong.plane.axis - line_axis
    direction = DIRECTIONS[line_axis if "along" in words else across]
    if words[0] == "shifted":
        size = int(words[2])
        return re.compile(f"off by [{max(size - 1, 1)}-{size + 1}] voxels? {direction}")
    return re.compile("half a turn" if words[0] == "turned" else f"flipped {direction}")


def in_one_file(
    first: AnnotatedSlice, last: AnnotatedSlice, shape: tuple[int, int, int]
) -> list[str]:
    """Write both into one label map, read them back, and give the faults that are seen."""
    labels = SparseAnnotation(shape, (first, last)).label_map(elsewhere=255)
    slots = [(first.plane, first.index), (last.plane, last.index)]
    return broken_lines(annotation_at(labels, slots))


def scans(name: str) -> Iterator[tuple[NDArray[np.uint8], int]]:
    """Dense labels and their number of classes; BTCV also as single organs."""
    dataset = Dataset.open(DATA / name)
    for case in dataset.cases:
        labels = dataset.read_labels(case).data.astype(np.uint8)
        yield labels, dataset.classes
        for organ in ("spleen", "left kidney", "liver") if name == "BTCV_ct" else ():
            alone = (labels == dataset.labels[organ]).astype(np.uint8)
            if alone.any():
                yield alone, 2


def measure(name: str) -> None:
    """Print the rates of one dataset."""
    sound = blamed = 0
    seen: dict[str, list[list[str]]] = {move: [] for move in MOVES}
    named: dict[str, list[bool]] = {move: [] for move in MOVES}
    for labels, classes in scans(name):
        for choice, planes in product(CHOICES, PAIRS):
            wanted = wishes("orthogonal", planes)
            slots = choose_slices(labels, classes=classes, wanted=wanted, choice=choice)
            one, other = annotation_at(labels, slots).slices
            sound += 1
            blamed += bool(in_one_file(one, other, labels.shape))
            if choice != "middle" or planes != PAIRS[0]:
                continue
            line_axis = 3 - one.plane.axis - other.plane.axis
            for move, (wrong, right) in product(MOVES, ((one, other), (other, one))):
                bad = moved(wrong, line_axis, move)
                for order in ((bad, right), (right, bad)):
                    faults = in_one_file(*order, labels.shape)
                    seen[move].append(faults)
                    cause = expected(wrong, line_axis, move)
                    named[move] += [bool(cause.search(fault)) for fault in faults]
    print(f"{name}: {blamed} false alarms on {sound} sound pairs of slices")
    for move in MOVES:
        found = np.mean([bool(faults) for faults in seen[move]])
        print(
            f"  {move:22s} found {found:4.0%} of {len(seen[move])}, "
            f"called so {np.mean(named[move]):4.0%} of those"
        )


if __name__ == "__main__":
    for folder in ("LA_half", "Hippocampus", "BTCV_ct"):
        if (DATA / folder).is_dir():
            measure(folder)
        else:
            print(f"{folder}: not in {DATA}; set TWOSLICE_DATA")
