"""Predict any folder or files of scans: `OUT/CASE.nii.gz`, each on exactly its scan's grid.

OUT/CASE.nii.gz                          the label map, the labels' names in its header
OUT/probabilities/CASE_0001.nii.gz       one file a class, if asked
OUT/uncertainty/CASE_entropy.nii.gz      and CASE_disagreement.nii.gz, if asked
OUT/dataset.json, labels.txt, .ctbl      the labels' names for nnU-Net, ITK-SNAP and 3D Slicer
OUT/predictions.json                     which run made them, how, from what, and what failed

While one scan is predicted, the next is read and the one before is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twoslice.engines.choose import EngineOptions, open_engine
from twoslice.engines.here import Here
from twoslice.engines.jobs import Engine, Job, Needs
from twoslice.engines.local import usable_gpus
from twoslice.errors import InputError, JobError, PartialError
from twoslice.inference.inputs import find_inputs, refuse_useless_series
from twoslice.inference.manifest import Manifest
from twoslice.inference.published import open_model
from twoslice.inference.scan import (
    ReadyScan,
    Wanted,
    is_small,
    is_small_size,
    predict_one,
    predict_scan,
    read_scan,
    write_maps,
)
from twoslice.inference.volume import Predictor, refuse_channels
from twoslice.io.description import write_description
from twoslice.io.find import FoundScan
from twoslice.io.label_table import write_label_files
from twoslice.io.logs import kept_log
from twoslice.memory import bounded
from twoslice.progress import Progress, Silent, Task
from twoslice.settings import InferenceSettings
from twoslice.training.run import Run

Result = tuple[FoundScan, str | None]
"""A scan whose files are written, or with its fault in one line."""


@dataclass(frozen=True)
class PredictionSummary:
    """What was asked: cases predicted now, those that were there already, and those that failed."""

    out: Path
    predicted: tuple[str, ...]
    already: tuple[str, ...]
    failed: dict[str, str]


def predict(
    run: Path,
    inputs: Sequence[Path],
    out: Path,
    *,
    probabilities: bool = False,
    uncertainty: bool = False,
    series: str | None = None,
    options: InferenceSettings | None = None,
    changes: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    engine: EngineOptions | None = None,
) -> PredictionSummary:
    """Predict every scan in `inputs` with a run folder, or with a published V-Net's `.pth` file.

    A scan that cannot be read is named and left out, the rest is done, and a PartialError then
    says how many failed; finished ones are not made again, unless `overwrite` says so. `series`
    names one of several DICOM series in a folder; `options` stand in for the run's own, and
    `changes` change some of them by name. The scans are jobs for `engine`.
    """
    progress = progress or Silent()
    opened = open_model(run)
    scans = find_inputs(inputs, out, progress)
    refuse_useless_series(scans, series)
    _refuse_if_none_fits(opened, scans)
    chosen = (options or opened.settings.inference).model_copy(update=dict(changes or {}))
    predictor = Predictor(opened, options=chosen)  # a fault in it shows before anything is written
    manifest = Manifest.claim(out, opened, chosen, series, overwrite=overwrite)
    wanted = Wanted(out, opened.data.class_names, probabilities, uncertainty, series)
    _describe(opened, wanted)
    todo = [scan for scan in scans if not manifest.finished(scan, wanted.files(scan.case))]
    already = {scan.case for scan in scans} - {scan.case for scan in todo}
    with (
        manifest,
        _open(engine, len(todo), out, progress) as opened_engine,
        progress.task("predicting", len(scans), done=len(already)) as task,
    ):
        if isinstance(opened_engine, Here):
            with bounded(opened_engine.memory):
                results = _predict_all(predictor, todo, wanted)
                _note(results, manifest, wanted, progress, task)
        else:
            del predictor  # each worker has its own
            results = _predict_elsewhere(opened_engine, run, chosen, todo, wanted)
            _note(results, manifest, wanted, progress, task)
    failed = manifest.failed
    if failed:
        raise PartialError(_tell(failed, len(scans), out))
    return PredictionSummary(out, tuple(s.case for s in todo), tuple(sorted(already)), failed)


def _open(engine: EngineOptions | None, jobs: int, out: Path, progress: Progress) -> Engine:
    """A worker a GPU, or this process alone, unless somebody said how many: one prediction uses
    every core already.
    """
    options = engine or EngineOptions()
    if options.workers is None and not options.on_dask:
        options = replace(options, workers=max(1, len(usable_gpus())))
    return open_engine(options, jobs=jobs, shared=out, progress=progress)


def _note(
    results: Iterator[Result], manifest: Manifest, wanted: Wanted, progress: Progress, task: Task
) -> None:
    """Into the manifest with each scan as it ends, and a fault is told at once."""
    for scan, fault in results:
        if fault is None:
            manifest.add(scan, wanted.files(scan.case))
        else:
            manifest.fail(scan.case, fault)
            progress.say(f"left out {scan.case}: {fault}")
        task.advance(note=scan.case)


def _predict_elsewhere(
    engine: Engine,
    run: Path,
    options: InferenceSettings,
    scans: Sequence[FoundScan],
    wanted: Wanted,
) -> Iterator[Result]:
    """As `_predict_all`, each scan a job, by paths that hold on any machine."""
    named = {scan.case: scan for scan in scans}
    anywhere = replace(wanted, out=wanted.out.absolute())
    jobs = [
        Job(
            scan.case,
            predict_scan,
            {
                "run": run.absolute(),
                "options": options,
                "scan": FoundScan(scan.case, tuple(path.absolute() for path in scan.paths)),
                "wanted": anywhere,
            },
            Needs(gpus=None),
        )
        for scan in scans
    ]
    for outcome in engine.run(jobs):
        if isinstance(outcome.error, InputError | JobError):
            yield named[outcome.job.name], f"{outcome.error}{kept_log(wanted.out, outcome)}"
            continue
        outcome.get()
        yield named[outcome.job.name], None


def _tell(failed: dict[str, str], total: int, out: Path) -> str:
    return (
        f"{len(failed)} of {total} scan(s) could not be predicted ({', '.join(sorted(failed))}); "
        f"the other {total - len(failed)} are in {out}. First fault: {next(iter(failed.values()))}"
    )


def _refuse_if_none_fits(run: Run, scans: Sequence[FoundScan]) -> None:
    """If no scan has the run's channels, it is the wrong run or folder: say so, write nothing."""
    if all(len(scan.paths) != len(run.data.channel_names) for scan in scans):
        named = ", ".join(map(str, scans[0].paths))
        refuse_channels(run, len(scans[0].paths), named)


def _describe(run: Run, wanted: Wanted) -> None:
    """The labels' names beside the maps, for the programs that read them from a file."""
    write_description(
        wanted.out,
        name=run.data.name,
        channel_names=run.data.channel_names,
        labels=run.data.labels,
        ignore=None,
    )
    write_label_files(wanted.out, wanted.class_names)


def _predict_all(
    predictor: Predictor, scans: Sequence[FoundScan], wanted: Wanted
) -> Iterator[Result]:
    """Each scan when its files are written, or with its fault in one line."""
    pending: tuple[FoundScan, Future[None]] | None = None
    with ThreadPoolExecutor(1, "writer") as writer:
        for scan, ready in _read_ahead(predictor, scans, wanted.series):
            fault = str(ready) if isinstance(ready, InputError) else None
            if isinstance(ready, ReadyScan):
                try:
                    labels, maps = predict_one(predictor, ready, scan, wanted)
                except InputError as error:
                    fault = str(error)
                grid = ready.grid
            if pending is not None:  # at most one result waits for the disk
                pending[1].result()
                yield pending[0], None
                pending = None
            if fault is not None:
                yield scan, fault
                continue
            pending = scan, writer.submit(write_maps, labels, maps, grid, scan.case, wanted)
            if not is_small_size(labels.size):
                pending[1].result()
        if pending is not None:
            pending[1].result()
            yield pending[0], None


def _read_ahead(
    predictor: Predictor, scans: Sequence[FoundScan], series: str | None
) -> Iterator[tuple[FoundScan, ReadyScan | InputError]]:
    """The scans in order, the next one read while the caller works, unless it is very large."""
    with ThreadPoolExecutor(1, "reader") as reader:
        ahead: Future[ReadyScan | InputError] | None = None
        for index, scan in enumerate(scans):
            ready = ahead.result() if ahead is not None else read_scan(predictor, scan, series)
            ahead = None
            if index + 1 < len(scans) and is_small(scan) and is_small(scans[index + 1]):
                ahead = reader.submit(read_scan, predictor, scans[index + 1], series)
            yield scan, ready
            del ready
