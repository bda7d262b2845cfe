"""A dataset of tiny scans, each with two soft balls, drawn on in an axial and a coronal slice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.reading import read_annotation
from twoslice.io.atomic import write_json
from twoslice.io.dataset import Dataset, write_description
from twoslice.io.grid import Grid
from twoslice.io.scans import write_image, write_labels
from twoslice.settings import Settings, parse_settings

SHAPE = (20, 18, 14)
LABELS = {"background": 0, "ball": 1, "pebble": 2}
IGNORE = 3


def scan(seed: int, *, noise: float = 0.1) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """An image and its dense labels: a large ball and a brighter small one, beside each other."""
    rng = np.random.default_rng(seed)
    at = np.stack(np.meshgrid(*[np.arange(side) for side in SHAPE], indexing="ij"))
    shift = rng.integers(-1, 2, 3)
    labels = np.zeros(SHAPE, np.uint8)
    for value, centre, radius in ((1, (7, 9, 7), 4.5), (2, (14, 9, 7), 2.6)):
        offset = at - (np.array(centre) + shift)[:, None, None, None]
        labels[np.sqrt((offset**2).sum(axis=0)) <= radius] = value
    image = 100.0 * labels + 20.0 + 100 * noise * rng.standard_normal(SHAPE)
    return image.astype(np.float32), labels


def make_dataset(root: Path, *, cases: int = 4, labeled: int = 2, views: bool = True) -> Dataset:
    """Write the dataset; the first `labeled` cases have the axial slice 7 and the coronal 9."""
    grid = Grid(SHAPE, np.diag([1.0, 1.0, 1.5, 1.0]))
    for index in range(cases):
        image, labels = scan(index)
        write_image(root / "imagesTr" / f"tiny_{index}_0000.nii.gz", image, grid)
        if index < labeled:
            sparse = np.full(SHAPE, IGNORE, np.uint8)
            sparse[:, :, 7], sparse[:, 9, :] = labels[:, :, 7], labels[:, 9, :]
            write_labels(root / "labelsTr" / f"tiny_{index}.nii.gz", sparse, grid)
    write_description(root, name="tiny", channel_names=("MR",), labels=LABELS, ignore=IGNORE)
    dataset = Dataset.open(root)
    if views:
        write_straight_views(dataset)
    return dataset


def write_straight_views(dataset: Dataset) -> None:
    """Label views without any registration: each drawn slice carried straight through the scan."""
    for case in dataset.labeled:
        annotation = read_annotation(dataset, case)
        drawn, known = annotation.drawn(), annotation.label_map(elsewhere=0)
        for source in annotation.slices:
            axis = source.plane.axis
            label = np.repeat(np.expand_dims(source.mask, axis), SHAPE[axis], axis)
            write_labels(
                dataset.root / "propagated" / f"{case}_{source.plane}.nii.gz",
                np.where(drawn, known, label).astype(np.uint8),
                dataset.read_grid(case),
            )
        record = {
            "slices": [{"plane": str(s.plane), "index": s.index} for s in annotation.slices],
            "views": [str(plane) for plane in annotation.planes],
        }
        write_json(dataset.root / "propagated" / f"{case}.json", record)


def settings(method: str = "desco", **training: Any) -> Settings:
    """Settings of a training that takes a second."""
    small = {"iterations": 4, "patch": (18, 12, 8), "checkpoint_every": 2, "device": "cpu"}
    return parse_settings(
        {"method": method, "network": {"filters": 4}, "training": {**small, **training}}
    )
