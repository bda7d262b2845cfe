"""What the page is made from: a run, its dataset, predictions, and dense labels if given."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoslice.errors import InputError
from twoslice.evaluation.evaluate import Evaluation, evaluate, label_files
from twoslice.evaluation.verdict import Verdict
from twoslice.io.dataset import Dataset
from twoslice.io.find import find_scans
from twoslice.io.scans import read_channels
from twoslice.io.volume import Volume
from twoslice.propagation.views import FOLDER, read_record, record_path
from twoslice.report.curves import columns_of
from twoslice.report.tables import worst_first
from twoslice.training.journal import read_metrics
from twoslice.training.run import Run


@dataclass(frozen=True)
class Sources:
    """Opened once, then read by every section."""

    run: Run
    dataset: Dataset
    columns: dict[str, list[float]]
    predictions: dict[str, Path]
    labels: dict[str, Path]
    scans: dict[str, tuple[Path, ...]]
    evaluation: Evaluation | None
    verdict: Verdict | None = None
    uncertainty: Path | None = None

    @classmethod
    def open(
        cls,
        run: Path,
        *,
        dataset: Path | None = None,
        predictions: Path | None = None,
        labels: Path | None = None,
        scans: Sequence[Path] = (),
        quality: Path | None = None,
        aside: Collection[str] = (),
    ) -> Sources:
        """Find everything, or say what is missing; cases set aside count as not there."""
        opened = Run.open(run)
        root = dataset or Path(opened.data.root)
        data = Dataset.open(root, faults={} if aside else None).without(aside)
        if labels is not None and predictions is None:
            raise InputError(f"{labels}: labels need predictions to score. Add --predictions DIR.")
        return cls(
            run=opened,
            dataset=data,
            columns=columns_of(read_metrics(run)),
            predictions=label_files(predictions) if predictions else {},
            labels=label_files(labels) if labels else {},
            scans=_scan_files(data, scans),
            evaluation=_scores(predictions, labels, data),
            verdict=Verdict.read(quality) if quality else None,
            uncertainty=predictions / "uncertainty" if predictions else None,
        )

    def read_scan(self, case: str) -> Volume | None:
        """The scan of a case, if it lies in the dataset or among the scans that were named."""
        files = self.scans.get(case)
        return read_channels(files) if files else None

    def read_doubt(self, case: str) -> NDArray[np.float32] | None:
        """The entropy of a prediction, 0 to 1, if `predict --uncertainty` wrote it."""
        path = self.uncertainty / f"{case}_entropy.nii.gz" if self.uncertainty else None
        return read_channels([path]).data[0] if path is not None and path.is_file() else None

    @property
    def order(self) -> list[str]:
        """The predicted cases in the order in which to look at them: by the verdict, else by
        measured Dice, the lowest first, else by name.
        """
        first: list[str] = []
        if self.verdict is not None:
            first = [row.case for row in self.verdict.scans if row.case in self.predictions]
        elif self.evaluation is not None:
            first = worst_first(self.evaluation)
        return first + [case for case in self.predictions if case not in set(first)]

    def propagation(self, case: str) -> dict[str, Any]:
        """What propagation wrote down about a case; nothing if it was not propagated."""
        folder = self.dataset.root / FOLDER
        return read_record(folder, case) if record_path(folder, case).is_file() else {}


def _scan_files(dataset: Dataset, more: Sequence[Path]) -> dict[str, tuple[Path, ...]]:
    files = {name: case.images for name, case in dataset.cases.items()}
    files |= {name: case.images for name, case in dataset.test_cases.items()}
    if more:
        files |= {found.case: found.paths for found in find_scans(more)}
    return files


def _scores(predictions: Path | None, labels: Path | None, dataset: Dataset) -> Evaluation | None:
    """Metrics of the predictions that have a dense label; the others are shown without."""
    if predictions is None or labels is None:
        return None
    shared = sorted(set(label_files(predictions)) & set(label_files(labels)))
    if not shared:
        raise InputError(f"{labels}: no label has the name of a prediction in {predictions}.")
    return evaluate(predictions, labels, class_names=dataset.class_names, cases=shared)
