"""Small scans in any number, and slices drawn in them; for scale.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from twoslice.io.dataset import write_description
from twoslice.io.grid import Grid
from twoslice.io.scans import write_image, write_labels

SHAPE = (16, 16, 12)
GRID = Grid(SHAPE, np.diag([1.5, 1.5, 2.0, 1.0]))
LABELS = {"background": 0, "ball": 1}
IGNORE = 2


def scan(seed: int) -> tuple[Any, Any]:
    """A soft ball somewhere near the middle."""
    rng = np.random.default_rng(seed)
    at = np.stack(np.meshgrid(*[np.arange(side) for side in SHAPE], indexing="ij"))
    centre = np.array(SHAPE) / 2 + rng.uniform(-1, 1, 3)
    away = np.sqrt(((at - centre[:, None, None, None]) ** 2).sum(axis=0))
    image = 100 / (1 + np.exp(away - 4)) + 5 * rng.standard_normal(SHAPE)
    return image.astype(np.float32), (away <= 4).astype(np.uint8)


def make_scans(folder: Path, count: int) -> None:
    """Plain files, as they come from a scanner's export."""
    for number in range(count):
        write_image(folder / f"scan{number:05d}.nii.gz", scan(number)[0], GRID)


def draw(dataset: Path, count: int) -> None:
    """Two slices in every scan of an imported dataset."""
    for number in range(count):
        labels = scan(number)[1]
        sparse = np.full(SHAPE, IGNORE, np.uint8)
        sparse[:, :, 6], sparse[:, 8, :] = labels[:, :, 6], labels[:, 8, :]
        write_labels(dataset / "labelsTr" / f"scan{number:05d}.nii.gz", sparse, GRID)
    write_description(dataset, name="balls", channel_names=("MR",), labels=LABELS, ignore=IGNORE)
