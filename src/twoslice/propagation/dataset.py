"""The stage over a dataset: every labelled case to views, whole or not at all, resumable."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from twoslice.engines.choose import EngineOptions, open_engine
from twoslice.engines.here import Here
from twoslice.engines.jobs import Engine, Job, Needs, watch
from twoslice.errors import DatasetError, InputError, JobError, PartialError, TwosliceError
from twoslice.io.dataset import Dataset
from twoslice.io.logs import kept_log
from twoslice.progress import Progress, Silent
from twoslice.propagation.cases import CaseSummary, needed_bytes, propagate_case
from twoslice.propagation.views import FOLDER, record_path
from twoslice.settings import PropagationSettings

WORTH_WORKERS = 8
"""Cases from which on workers are started unasked: before, their own start takes longer."""


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
    engine: EngineOptions | None = None,
) -> PropagationSummary:
    """Propagate every labelled case into `out` (the dataset's `propagated` folder), on `engine`.

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
    there = {case for case in dataset.labeled if record_path(folder, case).is_file()}
    done: dict[str, CaseSummary] = {}
    failures: dict[str, str] = {}
    with _open(dataset, engine, folder, progress) as opened:
        jobs = [_job(dataset, case, folder, settings, opened) for case in dataset.labeled]
        for outcome in watch(opened, jobs, name="propagate", progress=progress):
            case = outcome.job.name
            if isinstance(outcome.error, InputError | JobError):
                failures[case] = _named(case, outcome.error) + kept_log(folder, outcome)
                progress.say(f"error: {failures[case]}")
            else:
                done[case] = _of_this_stage(outcome.get(), there)
    cases = tuple(done[case] for case in dataset.labeled if case in done)
    for summary in cases:
        if summary.poor:
            progress.say(_warning(summary))
    failures = {case: failures[case] for case in dataset.labeled if case in failures}
    whole = PropagationSummary(folder, cases, failures)
    if failures:
        first = next(iter(failures.values()))
        raise PropagationPartialError(
            f"{len(failures)} of {len(dataset.labeled)} case(s) failed, {len(done)} done and kept. "
            f"The first: {first}",
            whole,
        )
    return whole


def _open(
    dataset: Dataset, options: EngineOptions | None, folder: Path, progress: Progress
) -> Engine:
    """As many workers as are worth their start, unless somebody said how many."""
    options = options or EngineOptions()
    jobs = len(dataset.labeled)
    if options.workers is None and not options.on_dask and jobs < WORTH_WORKERS:
        options = replace(options, workers=1)
    return open_engine(options, jobs=jobs, shared=folder, progress=progress)


def _job(
    dataset: Dataset, case: str, folder: Path, settings: PropagationSettings, engine: Engine
) -> Job[CaseSummary]:
    """One case; for another process with its own files alone, by paths that hold anywhere."""
    needs = Needs()
    if not isinstance(engine, Here):
        dataset, folder = dataset.only(case), folder.absolute()
        with contextlib.suppress(InputError):  # the job will say what is wrong with the scan
            needs = Needs(memory=needed_bytes(dataset, case))
    arguments = {"dataset": dataset, "case": case, "folder": folder, "settings": settings}
    return Job(case, propagate_case, arguments, needs)


def _of_this_stage(summary: CaseSummary, there: set[str]) -> CaseSummary:
    """A job done twice, since its worker died before it could answer, finds its own files: they
    are this stage's, not kept from before.
    """
    return replace(summary, kept=summary.kept and summary.case in there)


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


def _named(case: str, error: TwosliceError) -> str:
    text = str(error)
    return text if text.startswith((f"case {case}:", f"{case}:")) else f"case {case}: {text}"


def _warning(summary: CaseSummary) -> str:
    return (
        f"warning: case {summary.case}: the planes contradict each other (expected Dice "
        f"{summary.expected:.2f}). Look at its views, and draw another slice if they are wrong."
    )
