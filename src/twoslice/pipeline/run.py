"""One unattended run: check, propagate, train, predict every scan, judge, report.

OUT/run.json           what it was made from and with, times, hashes, what was set aside
OUT/run/               the training; OUT/folds/ the held-out ones that judge it
OUT/predictions/       a label map for every scan, its uncertainty beside it
OUT/quality.json       expected Dice, a row a scan, what to draw next
OUT/report.html        the page

Stopped or killed at any moment and started again, it goes on from what is there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from twoslice.annotation.check import check_dataset
from twoslice.errors import DatasetError, InputError, PartialError
from twoslice.evaluation.verdict import Verdict
from twoslice.inference.inputs import read_manifest
from twoslice.inference.predict import predict
from twoslice.io.dataset import Dataset
from twoslice.io.find import find_scans
from twoslice.methods.registry import find_method
from twoslice.pipeline.folds import Fold, fold_share, make_folds
from twoslice.pipeline.forecast import Pace, measure_pace
from twoslice.pipeline.judge import judge
from twoslice.pipeline.record import Record
from twoslice.pipeline.words import ending, opening
from twoslice.progress import Progress, Silent
from twoslice.propagation.dataset import PropagationPartialError, propagate_dataset
from twoslice.report.page import write_report
from twoslice.settings import Settings, load_settings
from twoslice.training.checkpoints import clear_leftovers
from twoslice.training.devices import available_device
from twoslice.training.loop import train
from twoslice.training.planner import Plan, make_plan
from twoslice.training.run import Run

PRESET = "plus"
"""What a run trains with unless it is told otherwise."""


@dataclass(frozen=True)
class RunResult:
    """What a run made."""

    out: Path
    page: Path
    verdict: Verdict
    record: Record
    predicted: tuple[str, ...]

    def in_words(self) -> str:
        """What was made, how good it probably is, and what to look at first."""
        return ending(self.out, self.page, self.verdict, self.record.aside, len(self.predicted))


def run_pipeline(
    dataset: Path,
    out: Path,
    settings: Settings | None = None,
    *,
    more: Sequence[Path] = (),
    labels: Path | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Do everything that is not done yet. `more` are further scans to predict, never to train on
    (those in imagesTs are too); `labels` are dense ones that the page scores predictions with.
    """
    pipeline = _Pipeline(dataset, out, settings or load_settings(preset=PRESET), progress)
    data = pipeline.check()
    scans = pipeline.find(data, more)
    data = pipeline.propagate(data)
    data, plan = pipeline.plan(data, len(scans))
    pipeline.train(data)
    folds = pipeline.hold_out(data, plan)
    predicted = pipeline.predict(scans)
    verdict = pipeline.judge(data, folds, predicted, scans)
    page = pipeline.report(more, labels)
    return RunResult(out, page, verdict, pipeline.record, predicted)


class _Pipeline:
    """The stages, each noted in the record."""

    def __init__(
        self, root: Path, out: Path, settings: Settings, progress: Progress | None
    ) -> None:
        find_method(settings.method)  # a name that nobody knows is told before any work
        Dataset.open(root, faults={})
        self.root, self.out, self.settings = root, out, settings
        self.progress = progress or Silent()
        self.record = Record.claim(out, root, settings)
        self.run, self.predictions = out / "run", out / "predictions"
        # What a killed life left half written; a training clears its own folder.
        for folder in (out, self.predictions, self.predictions / "uncertainty", out / "quality"):
            clear_leftovers(folder)

    def check(self) -> Dataset:
        """The dataset without the scans that cannot be used."""
        with self.record.stage("check"):
            self.record.aside.clear()  # what was mended meanwhile takes part
            wanted = self.settings.annotation
            scheme = wanted.scheme if "scheme" in wanted.model_fields_set else None
            for fault in check_dataset(self.root, scheme=scheme, progress=self.progress):
                if not fault.case:
                    raise DatasetError(fault.message)
                self._set_aside(fault.case, "check", fault.message)
        data = Dataset.open(self.root, faults={}).without(self.record.aside)
        if not data.labeled:
            raise DatasetError(
                f"{self.root}: no sound scan has drawn slices in labelsTr. Draw two slices in a "
                f"few scans first: twoslice annotate {self.root}"
            )
        return data

    def find(self, data: Dataset, more: Sequence[Path]) -> dict[str, tuple[Path, ...]]:
        """Every scan to predict, by case: the dataset's, its test scans, and those named."""
        scans = {name: case.images for name, case in {**data.cases, **data.test_cases}.items()}
        for found in find_scans(more) if more else ():
            if found.case in scans and scans[found.case] != found.paths:
                raise InputError(
                    f"{found.paths[0]}: case {found.case} is the name of a scan in {self.root} "
                    f"too. Rename one of them."
                )
            scans[found.case] = found.paths
        return scans

    def propagate(self, data: Dataset) -> Dataset:
        """Label views, where the method learns from them."""
        source = find_method(self.settings.method).label_source(self.settings)
        if source not in ("planes", "fused"):
            return data
        with self.record.stage("propagate"):
            try:
                propagate_dataset(data, settings=self.settings.propagation, progress=self.progress)
            except PropagationPartialError as error:
                if not error.summary.cases:
                    raise
                for case, reason in error.summary.failures.items():
                    self._set_aside(case, "propagate", reason)
        return data.without(self.record.aside)

    def plan(self, data: Dataset, scans: int) -> tuple[Dataset, Plan]:
        """What is ahead, said before it begins: what will be done, and about how long it takes."""
        chosen = self.record.train_on(data)
        data = data.without(data.cases.keys() - set(chosen))
        gpu = available_device().type != "cpu"
        plan = make_plan(data, self.settings, gpu=gpu)
        folds = self._folds(data, plan)
        pace = None if self._trained(folds) else self._pace(data, plan)
        for line in opening(self.out, data, scans, self.settings, plan, folds, pace, self.record):
            self.progress.say(line)
        return data, plan

    def train(self, data: Dataset) -> None:
        """The training itself, from its last checkpoint."""
        if not is_trained(self.run):
            with self.record.stage("train"):
                muted = _Muted(self.progress)
                train(data, self.run, self.settings, resume=True, progress=muted)

    def hold_out(self, data: Dataset, plan: Plan) -> list[Fold]:
        """The held-out trainings, as long as the training itself says they must be."""
        folds, muted = self._folds(data, plan), _Muted(self.progress)
        todo = [fold for fold in folds if not is_trained(fold.folder)]
        if todo:
            with self.record.stage("folds"):
                for fold in todo:
                    held = ", ".join(fold.held)
                    self.progress.say(
                        f"a shorter training without {held}, to be asked about what is drawn there"
                    )
                    train(fold.dataset, fold.folder, fold.settings, resume=True, progress=muted)
        return folds

    def predict(self, scans: dict[str, tuple[Path, ...]]) -> tuple[str, ...]:
        """A label map for every scan that can be predicted."""
        files = [path for paths in scans.values() for path in paths]
        with self.record.stage("predict"):
            try:
                predict(self.run, files, self.predictions, uncertainty=True, progress=self.progress)
            except PartialError:
                for case, reason in read_manifest(self.predictions)["failed"].items():
                    self._set_aside(case, "predict", reason)
            done = sorted(read_manifest(self.predictions)["cases"])
            if not done:
                raise DatasetError(f"{self.root}: no scan could be predicted. See {self.out}.")
            self.record.made(*(self.predictions / f"{case}.nii.gz" for case in done))
        return tuple(done)

    def judge(
        self,
        data: Dataset,
        folds: Sequence[Fold],
        predicted: Sequence[str],
        scans: dict[str, tuple[Path, ...]],
    ) -> Verdict:
        """How good the label maps probably are."""
        with self.record.stage("judge"):
            verdict = judge(
                Run.open(self.run),
                data,
                folds,
                {case: scans[case] for case in predicted},
                self.out,
                progress=self.progress,
            )
            self.record.made(self.out / "quality.json")
        return verdict

    def report(self, more: Sequence[Path], labels: Path | None) -> Path:
        """The page."""
        with self.record.stage("report"):
            page = write_page(self.record, more=more, labels=labels, progress=self.progress)
            self.record.show(more, labels)
            self.record.made(page)
        return page

    def _folds(self, data: Dataset, plan: Plan) -> list[Fold]:
        share = fold_share(self.settings, self.run if is_trained(self.run) else None)
        return make_folds(data, self.settings, plan, self.out / "folds", share)

    def _pace(self, data: Dataset, plan: Plan) -> Pace:
        return measure_pace(data, self.settings, plan, self.progress)

    def _trained(self, folds: Sequence[Fold]) -> bool:
        return all(is_trained(path) for path in [self.run, *(fold.folder for fold in folds)])

    def _set_aside(self, case: str, stage: str, reason: str) -> None:
        if case not in self.record.aside:
            self.progress.say(f"set aside {case}: {reason}")
        self.record.set_aside(case, stage, reason)


def write_page(
    record: Record,
    *,
    more: Sequence[Path] = (),
    labels: Path | None = None,
    page: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """The page of a run that has reached its verdict, from what lies in its folder; further scans
    and dense labels are those that the run was given, unless others are.
    """
    scans, truth = record.shown
    return write_report(
        record.out / "run",
        page or record.out / "report.html",
        dataset=Path(record.tree["dataset"]),
        predictions=record.out / "predictions",
        labels=labels or truth,
        scans=more or scans,
        quality=record.out / "quality.json",
        aside={case: entry["reason"] for case, entry in record.aside.items()},
        progress=progress,
    )


class _Muted:
    """Progress whose lines about plans and resuming are left out: the run says its own."""

    def __init__(self, inner: Progress) -> None:
        self.task = inner.task

    def say(self, line: str) -> None:
        """Say nothing."""


def is_trained(folder: Path) -> bool:
    """Whether a run folder holds a finished training."""
    if not (folder / "settings.yaml").is_file():
        return False
    run = Run.open(folder)
    if not run.has_checkpoint:
        return False
    if run.settings.training.minutes is not None:
        meta = json.loads((run.latest / "meta.json").read_text(encoding="utf-8"))
        return bool(meta["progress"] >= 1.0)
    return run.step >= run.plan.iterations
