"""The real scans that benchmarks share, found through TWOSLICE_DATA; nothing to run by itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.choice import choose_slices, wishes
from twoslice.annotation.reading import annotation_at
from twoslice.annotation.relabeling import Relabeling
from twoslice.annotation.types import SparseAnnotation
from twoslice.io.dataset import Dataset
from twoslice.io.scans import read_label_map, read_scan
from twoslice.planes import Plane

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("TWOSLICE_DATA", ROOT.parent / "shared" / "data"))
PLANES = (Plane.AXIAL, Plane.CORONAL)


@dataclass(frozen=True, eq=False)
class Scan:
    """One case with its dense label, which is only looked at to score."""

    name: str
    image: NDArray[np.float32]
    truth: NDArray[np.uint8]
    spacing: tuple[float, float, float]
    classes: int

    @property
    def annotation(self) -> SparseAnnotation:
        """The slices that `simulate` would keep."""
        wanted = wishes("orthogonal", PLANES)
        return annotation_at(
            self.truth, choose_slices(self.truth, classes=self.classes, wanted=wanted)
        )

    def dice(self, label: NDArray[np.uint8]) -> float:
        """The mean over the classes that the truth shows."""
        shown = [value for value in range(1, self.classes) if (self.truth == value).any()]
        both = [((label == v) & (self.truth == v)).sum() for v in shown]
        size = [(label == v).sum() + (self.truth == v).sum() for v in shown]
        return float(np.mean([2 * b / s for b, s in zip(both, size, strict=True)]))


def scans(name: str, count: int) -> Iterator[Scan]:
    """The first `count` cases of a set."""
    if name == "LA":
        for case in (DATA / "LA_h5" / "train.list").read_text().split()[:count]:
            path = DATA / "LA_h5" / case / "mri_norm2.h5"
            volume, label = read_scan(path), read_label_map(path)
            yield Scan(case, volume.data, label.data.astype(np.uint8), volume.spacing, 2)
        return
    dataset = Dataset.open(DATA / {"HIP": "Hippocampus", "BTCV": "BTCV_ct"}[name])
    labels = ["liver", "spleen", "left kidney"] if name == "BTCV" else None
    relabel = Relabeling.keeping(dataset, labels)
    for case in list(dataset.cases)[:count]:
        volume = dataset.read_image(case)
        truth = relabel.read(dataset, case)[0].astype(np.uint8)
        yield Scan(case, volume.data, truth, volume.spacing, relabel.ignore)
