"""One case of the stage: from its files to its views, whole or not at all. A job for any engine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.reading import read_annotation
from twoslice.annotation.types import SparseAnnotation
from twoslice.errors import DatasetError, InputError
from twoslice.io import atomic
from twoslice.io.dataset import Dataset
from twoslice.io.grid import Grid
from twoslice.io.scans import write_labels
from twoslice.memory import PROGRAM_BYTES, refuse_beyond_bound
from twoslice.propagation.quality import POOR
from twoslice.propagation.views import read_record, record_path, view_path
from twoslice.settings import PropagationSettings

VERSION = 3
"""Raised when the views of the same input change, so that old ones are made anew."""

_CHANNEL_BYTES, _CLASS_BYTES, _VOXEL_BYTES = 8, 6, 20
"""A voxel's share of the peak: of each channel, of each class but the background, and of the rest.
With one channel and two classes that is 34 bytes; 512×512×300 took 31 (docs/results.md)."""


@dataclass(frozen=True)
class CaseSummary:
    """One propagated case: `expected` Dice and each plane's self-check and decay."""

    case: str
    record: dict[str, Any]
    kept: bool

    @property
    def expected(self) -> float | None:
        """The Dice that the self-check expects; None with a single plane."""
        value = self.record["quality"]["expected_dice"]
        return None if value is None else float(value)

    @property
    def poor(self) -> bool:
        """True if the case is worth a look."""
        return self.expected is not None and self.expected < POOR


def propagate_case(
    dataset: Dataset, case: str, folder: Path, settings: PropagationSettings
) -> CaseSummary:
    """The views of one case into `folder`; what is there and still holds is kept."""
    made_from = _made_from(dataset, case, settings)
    try:
        record = read_record(folder, case)
        there = all(view_path(folder, case, name).is_file() for name in record["views"])
        if there and record.get("made_from") == made_from:
            return CaseSummary(case, record, kept=True)
    except DatasetError:
        pass
    # torch is imported here, so that a stage with nothing left to do is over at once.
    from twoslice.propagation.propagate import propagate_scan

    refuse_beyond_bound(needed_bytes(dataset, case), f"case {case}: to propagate it")
    annotation = read_annotation(dataset, case)
    volume = dataset.read_image(case)
    result = propagate_scan(
        volume.data,
        annotation,
        classes=dataset.classes,
        spacing=volume.spacing,
        settings=settings,
    )
    maps: dict[str, NDArray[np.uint8]] = {n: view.label for n, view in result.views.items()}
    maps |= {f"{name}_cycle": error for name, error in result.cycle.items()}
    if result.disagreement is not None:
        maps["disagreement"] = result.disagreement
    record = {
        "case": case,
        "slices": [{"plane": d.plane.value, "index": d.index} for d in annotation.slices],
        "views": _view_trees(annotation, list(result.views)),
        "quality": result.quality.to_tree(dataset.class_names),
        "made_from": made_from,
    }
    _write(folder, case, maps, record, volume.grid)
    return CaseSummary(case, record, kept=False)


def needed_bytes(dataset: Dataset, case: str) -> int:
    """About what the propagation of a case takes at its peak; its image's header says."""
    voxels = int(np.prod(dataset.read_grid(case).shape))
    channels, classes = len(dataset.channel_names), dataset.classes - 1
    each = _VOXEL_BYTES + _CHANNEL_BYTES * channels + _CLASS_BYTES * classes
    return PROGRAM_BYTES + each * voxels


def _view_trees(annotation: SparseAnnotation, names: Sequence[str]) -> dict[str, Any]:
    """For each view its source slices: the distance map is the way to the nearest of them."""
    trees = {}
    for name in names:
        sources = [d for d in annotation.slices if name in (d.plane.value, "fused")]
        trees[name] = {"sources": [f"{d.plane.value} {d.index}" for d in sources]}
    return trees


def _write(
    folder: Path,
    case: str,
    maps: dict[str, NDArray[np.uint8]],
    record: dict[str, Any],
    grid: Grid,
) -> None:
    """The record goes last: with it there, everything is."""
    record_path(folder, case).unlink(missing_ok=True)
    for name, values in maps.items():
        write_labels(view_path(folder, case, name), values, grid)
    atomic.write_json(record_path(folder, case), record)


def _made_from(dataset: Dataset, case: str, settings: PropagationSettings) -> dict[str, Any]:
    """What the views depend on: another drawing, scan, setting or version makes them anew."""
    files = dataset.case(case)
    return {
        "version": VERSION,
        "settings": settings.model_dump(mode="json"),
        "labels": dataset.classes,
        "ignore": dataset.ignore,
        "label": _digest(files.label) if files.label else None,
        "parts": {plane.value: _digest(path) for plane, path in files.parts.items()},
        "image": [_digest(path) for path in files.images],
    }


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "blake2b").hexdigest()[:32]
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}. Make it readable.") from None
