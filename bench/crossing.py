"""How often the crossing-line check finds a moved slice, and how often it blames a sound one.

From every dense label of the real data two slices are taken. Sound ones give the false alarms;
then one of the two is flipped or shifted before both are written into one label map, either
slice last, and the share that is found is printed, over all pairs and over those where the line
runs through the target, since elsewhere there is nothing to see.

    python bench/crossing.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.choice import CHOICES, choose_slices, wishes
from twoslice.annotation.crossing import broken_lines
from twoslice.annotation.reading import annotation_at
from twoslice.annotation.types import AnnotatedSlice, SparseAnnotation
from twoslice.errors import AnnotationError
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


def in_one_file(first: AnnotatedSlice, last: AnnotatedSlice, shape: tuple[int, int, int]) -> bool:
    """Write both into one label map, read them back, and say whether a fault is seen."""
    labels = SparseAnnotation(shape, (first, last)).label_map(elsewhere=255)
    slots = [(first.plane, first.index), (last.plane, last.index)]
    return bool(broken_lines(annotation_at(labels, slots)))


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
    found: dict[str, list[bool]] = {move: [] for move in MOVES}
    visible: dict[str, list[bool]] = {move: [] for move in MOVES}
    for labels, classes in scans(name):
        shape = labels.shape
        for choice, planes in product(CHOICES, PAIRS):
            wanted = wishes("orthogonal", planes)
            try:
                slots = choose_slices(labels, classes=classes, wanted=wanted, choice=choice)
            except AnnotationError:
                continue
            one, other = annotation_at(labels, slots).slices
            sound += 1
            blamed += in_one_file(one, other, shape)
            if choice != "middle" or planes != PAIRS[0]:
                continue
            line_axis = 3 - one.plane.axis - other.plane.axis
            crossed = bool(_line(labels, one, other).any())
            for move, (wrong, right) in product(MOVES, ((one, other), (other, one))):
                bad = moved(wrong, line_axis, move)
                for order in ((bad, right), (right, bad)):
                    seen = in_one_file(*order, shape)
                    found[move].append(seen)
                    if crossed:
                        visible[move].append(seen)
    print(f"{name}: {blamed} false alarms on {sound} sound pairs of slices")
    for move in MOVES:
        print(
            f"  {move:26s} found {np.mean(found[move]):4.0%} of {len(found[move])}, "
            f"{np.mean(visible[move]):4.0%} where the line meets the target"
        )


def _line(
    labels: NDArray[np.uint8], one: AnnotatedSlice, other: AnnotatedSlice
) -> NDArray[np.uint8]:
    """The labels on the line where two slices cross."""
    where: list[int | slice] = [slice(None)] * 3
    where[one.plane.axis], where[other.plane.axis] = one.index, other.index
    return labels[tuple(where)]


if __name__ == "__main__":
    for folder in ("LA_half", "Hippocampus", "BTCV_ct"):
        if (DATA / folder).is_dir():
            measure(folder)
        else:
            print(f"{folder}: not in {DATA}; set TWOSLICE_DATA")
