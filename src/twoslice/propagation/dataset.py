"""The stage over a dataset: every labelled case to views, whole or not at all, resumable."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.reading import read_annotation
from twoslice.annotation.types import SparseAnnotation
from twoslice.errors import DatasetError, InputError, PartialError
from twoslice.io import atomic
from twoslice.io.dataset import Dataset
from twoslice.io.grid import Grid
from twoslice.io.scans import write_labels
from twoslice.progress import Progress, Silent
from twoslice.propagation.quality import POOR
from twoslice.propagation.views import FOLDER, read_record, record_path, view_path
from twoslice.settings import PropagationSettings

VERSION = 2
"""Raised when the views of the same input change, so that old ones are made anew."""


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


@dataclass(frozen=True)
class PropagationSummary:
    """What the stage made, and the line that tells why, for each case that failed."""

    folder: Path
    cases: tuple[CaseSummary, ...]
    failures: dict[str, str] = field(default_factory=dict)


class PropagationPartialError(PartialError):
    """Some cases failed; `summary` has the others, which are done and kept."""

    def __init__(self, message: str, summary: PropagationSummary) -> None:
        super().__init__(message)
        self.summary = summary


def propagate_dataset(
    dataset: Dataset,
    *,
    settings: PropagationSettings | None = None,
    progress: Progress | None = None,
    out: Path | None = None,
) -> PropagationSummary:
    """Propagate every labelled case into `out` (the dataset's `propagated` folder).

    A case that is there, made from the same drawn slices with the same settings, is kept. A case
    that fails is told at once and does not stop the others; at the end PropagationPartialError says
    how many failed.
    """
    settings, progress = settings or PropagationSettings(), progress or Silent()
    if not dataset.labeled:
        raise DatasetError(
            f"{dataset.root}: no case has drawn slices in labelsTr. Draw two slices in a few scans "
            f"first: twoslice annotate {dataset.root}"
        )
    folder = out or dataset.root / FOLDER
    done: list[CaseSummary] = []
    failures: dict[str, str] = {}
    with progress.task("propagate", len(dataset.labeled)) as task:
        for case in dataset.labeled:
            try:
                done.append(_propagate_case(dataset, case, folder, settings))
            except InputError as error:
                failures[case] = _named(case, error)
                progress.say(f"error: {failures[case]}")
            task.advance(note=case)
    for summary in done:
        if summary.poor:
            progress.say(_warning(summary))
    whole = PropagationSummary(folder, tuple(done), failures)
    if failures:
        first = next(iter(failures.values()))
        raise PropagationPartialError(
            f"{len(failures)} of {len(dataset.labeled)} case(s) failed, {len(done)} done and kept. "
            f"The first: {first}",
            whole,
        )
    return whole


def summary_table(summary: PropagationSummary) -> list[dict[str, Any]]:
    """A row a case for the table at the end, with plain values."""
    rows = []
    for each in summary.cases:
        row: dict[str, Any] = {"case": each.case}
        row["slices"] = ", ".join(
            f"{drawn['plane']} {drawn['index']}" for drawn in each.record["slices"]
        )
        for name, view in each.record["quality"]["views"].items():
            row[f"{name} self-check"] = view["dice"]
            row[f"{name} decay"] = view["decay"]
        row["expected Dice"] = each.expected
        row["note"] = "look at it" if each.poor else "kept" if each.kept else ""
        rows.append(row)
    rows += [{"case": case, "note": "failed"} for case in summary.failures]
    return rows


def _propagate_case(
    dataset: Dataset, case: str, folder: Path, settings: PropagationSettings
) -> CaseSummary:
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


def _named(case: str, error: InputError) -> str:
    text = str(error)
    return text if text.startswith(f"case {case}:") else f"case {case}: {text}"


def _warning(summary: CaseSummary) -> str:
    return (
        f"warning: case {summary.case}: the planes contradict each other (expected Dice "
        f"{summary.expected:.2f}). Look at its views, and draw another slice if they are wrong."
    )
