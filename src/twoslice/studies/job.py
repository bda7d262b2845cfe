"""One run of a study, from its dataset to its scores: what an engine carries out.

RUN/plan.json        what it is: settings, data, fold
RUN/run/             the training
RUN/predictions/     the held-out scans
RUN/curve/STEP.json  their scores on the way, if asked
RUN/result.json      their scores at the end; written last: with it there, everything is
RUN/failed.json      why it failed, until it is retried

Called again after any end, it goes on from what is there.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twoslice import __version__
from twoslice.evaluation.evaluate import Evaluation, evaluate
from twoslice.inference.predict import predict
from twoslice.inference.volume import keep_largest
from twoslice.io import atomic
from twoslice.io.dataset import Dataset
from twoslice.io.scans import read_label_map, write_labels
from twoslice.progress import Silent
from twoslice.progress import Task as Shown
from twoslice.settings import parse_settings
from twoslice.studies.data import describe
from twoslice.studies.locks import locked
from twoslice.training.checkpoints import list_checkpoints, predicting_file
from twoslice.training.loop import train
from twoslice.training.run import Run

RESULT = "result.json"
FAILED = "failed.json"
PREDICTIONS = "predictions"
_CURVE = "curve"
_KEPT = "kept"


@dataclass(frozen=True)
class Task:
    """What a run needs to be made anywhere: where it lies, on what it trains, and what it is
    scored with; `curve` says whether the checkpoints on the way are scored as well.
    """

    folder: Path
    dataset: Path
    settings: dict[str, Any]
    images: tuple[Path, ...]
    truth: Path
    curve: bool


def execute(task: Task) -> None:
    """Train, predict the held-out scans, score them; the last checkpoint counts."""
    with locked(task.folder, wait=True):
        if not (task.folder / RESULT).is_file():
            atomic.write_json(task.folder / RESULT, _execute(task))


def _execute(task: Task) -> dict[str, Any]:
    keeper = _Keeper(task.folder) if task.curve else Silent()
    settings, place = parse_settings(task.settings), task.folder / "run"
    run = train(Dataset.open(task.dataset), place, settings, resume=True, progress=keeper)
    if isinstance(keeper, _Keeper):
        keeper.score(task.images, task.truth)
    found = _score(place, task.images, task.truth, task.folder / PREDICTIONS)
    meta = json.loads((run.latest / "meta.json").read_text(encoding="utf-8"))
    shutil.rmtree(task.folder / _KEPT, ignore_errors=True)
    return {
        "version": __version__,
        **describe(task.dataset),
        "iterations": run.step,
        "seconds": meta["seconds"],
        "summary": found.summary,
        "largest_piece": _largest(task.folder / PREDICTIONS, task.truth),
        "cases": list(found.cases),
    }


def read_curve(folder: Path) -> dict[int, dict[str, float]]:
    """Iterations to the mean of each metric on the held-out scans."""
    files = sorted((folder / _CURVE).glob("*.json"), key=lambda path: int(path.stem))
    return {int(path.stem): json.loads(path.read_text(encoding="utf-8")) for path in files}


def _score(run: Path, images: Sequence[Path], truth: Path, out: Path) -> Evaluation:
    predict(run, images, out)
    return evaluate(out, truth, class_names=_names(truth))


def _largest(predictions: Path, truth: Path) -> dict[str, float]:
    """Means where only the largest piece of each label is kept: what a line of post-processing
    gives is not to be taken for what a method has learned.
    """
    names = _names(truth)
    with tempfile.TemporaryDirectory(dir=predictions.parent) as scratch:
        for path in predictions.glob("*.nii.gz"):
            found = read_label_map(path)
            kept = keep_largest(found.data.astype(np.uint8), range(1, len(names)))
            write_labels(Path(scratch) / path.name, kept, found.grid)
        overall = evaluate(Path(scratch), truth, class_names=names).summary["overall"]
    return {metric: group["mean"] for metric, group in overall.items()}


def _names(truth: Path) -> list[str]:
    names: list[str] = json.loads((truth / "labels.json").read_text(encoding="utf-8"))
    return names


@dataclass
class _Keeper(Silent):
    """A silent progress that keeps the weights of every checkpoint for the curve."""

    folder: Path

    @contextmanager
    def task(self, name: str, total: int, done: int = 0) -> Iterator[Shown]:
        """In a training, look for a new checkpoint after each step."""
        keeper = self

        class _Watch:
            def advance(self, steps: int = 1, note: str = "") -> None:
                keeper.keep()

        if name == "training":
            self.keep()  # what a killed training wrote last
        yield _Watch()

    def keep(self) -> None:
        """What predicts, as a small run folder a checkpoint."""
        run = self.folder / "run"
        for checkpoint in list_checkpoints(run / "checkpoints"):
            step = int(checkpoint.name.removeprefix("step-"))
            target = self.folder / _KEPT / str(step)
            if target.is_dir() or self._curve(step).is_file():
                continue
            with atomic.whole_folder(target) as scratch:
                inner = scratch / "checkpoints" / checkpoint.name
                inner.mkdir(parents=True)
                weights = predicting_file(checkpoint)
                shutil.copyfile(weights, inner / weights.name)
                for name in ("settings.yaml", "plan.json", "data.json"):
                    shutil.copyfile(run / name, scratch / name)

    def score(self, images: Sequence[Path], truth: Path) -> None:
        """Score each of them that has no scores yet, and let it go."""
        kept = self.folder / _KEPT
        for run in sorted(kept.iterdir(), key=lambda path: path.name) if kept.is_dir() else ():
            if run.name.isdecimal() and not self._curve(int(run.name)).is_file():
                out = kept / f"predictions-{run.name}"
                overall = _score(run, images, truth, out).summary["overall"]
                means = {metric: group["mean"] for metric, group in overall.items()}
                atomic.write_json(self._curve(Run.open(run).step), means)
                shutil.rmtree(out)
            shutil.rmtree(run, ignore_errors=True)

    def _curve(self, step: int) -> Path:
        return self.folder / _CURVE / f"{step}.json"
