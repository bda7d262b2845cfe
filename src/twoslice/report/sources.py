"""What the page is made from: a run, its dataset, predictions, and dense labels if given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twoslice.errors import InputError
from twoslice.evaluation.evaluate import Evaluation, evaluate, label_files
from twoslice.io.dataset import Dataset
from twoslice.io.find import find_scans
from twoslice.io.scans import read_channels
from twoslice.io.volume import Volume
from twoslice.propagation.views import FOLDER, read_record, record_path
from twoslice.report.curves import columns_of
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

    @classmethod
    def open(
        cls,
        run: Path,
        *,
        dataset: Path | None = None,
        predictions: Path | None = None,
        labels: Path | None = None,
        scans: Sequence[Path] = (),
    ) -> Sources:
        """Find everything, or say what is missing."""
        opened = Run.open(run)
        data = Dataset.open(dataset or Path(opened.data.root))
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
        )

    def read_scan(self, case: str) -> Volume | None:
        """The scan of a case, if it lies in the dataset or among the scans that were named."""
        files = self.scans.get(case)
        return read_channels(files) if files else None

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
