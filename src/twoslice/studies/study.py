"""`twoslice study`: make what a study file asks for, and go on from what is there.

OUT/study.yaml          the study
OUT/data/NAME/          sparse datasets, each made once
OUT/truth/NAME/         labels of the held-out scans
OUT/runs/NAME/          one folder a run (job.py)
OUT/table.md .csv .tex  the table; runs.csv has a line a run, curves.csv the way there
OUT/*.png               figures
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from twoslice.engines.choose import EngineOptions, open_engine
from twoslice.engines.jobs import Engine, Job, Needs, watch
from twoslice.errors import OutputError, PartialError, SettingsError
from twoslice.io import atomic
from twoslice.progress import Progress, Silent
from twoslice.studies import data as datasets
from twoslice.studies.files import Study, load_study
from twoslice.studies.grid import PlannedData, PlannedRun, plan_runs
from twoslice.studies.job import FAILED, RESULT, Task, execute
from twoslice.studies.locks import locked


@dataclass(frozen=True)
class StudyResult:
    """What a study has so far: finished runs with their figures, and why others failed."""

    study: Study
    out: Path
    finished: tuple[tuple[PlannedRun, dict[str, Any]], ...]
    failed: dict[str, str] = field(default_factory=dict)

    def folder(self, run: PlannedRun) -> Path:
        """Where a run lies."""
        return self.out / "runs" / run.name


def run_study(
    file: Path,
    out: Path,
    *,
    data: Path | None = None,
    assignments: Iterable[str] = (),
    retry: bool = False,
    engine: Engine | EngineOptions | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Make every run that is not there yet, then the tables and figures of all that are.

    Runs that failed before are listed and left alone, unless `retry`; a PartialError at the end
    says so. `data` is where the dense dataset lies; `assignments` (`a.b=c`) win over every setting
    of the file.
    """
    from twoslice.studies.outputs import write_outputs

    study = load_study(file, assignments)
    maker = _Maker(study, out, file, data, progress or Silent())
    with locked(out, wait=False):
        maker.claim()
        maker.sort(retry=retry)
        if maker.todo:
            with _opened(engine, len(maker.todo), out, maker.progress) as opened:
                maker.prepare(opened)
                maker.run(opened)
        result = maker.result()
        write_outputs(result, maker.dense, progress=maker.progress)
    if result.failed:
        first, why = next(iter(result.failed.items()))
        raise PartialError(
            f"{len(result.failed)} of {len(maker.runs)} runs failed, {len(result.finished)} are "
            f"done and kept. The first, {first}: {why} Mend it, then go on with --retry."
        )
    return result


class _Maker:
    """A study under way."""

    def __init__(
        self, study: Study, out: Path, file: Path, data: Path | None, progress: Progress
    ) -> None:
        self.study, self.out, self.progress = study, out, progress
        self.runs = plan_runs(study)
        names = {run.data.data.dense for run in self.runs}
        self.dense = {name: datasets.find_dense(name, data=data, file=file) for name in names}
        self.todo: list[PlannedRun] = []

    def claim(self) -> None:
        """Refuse a folder that holds something else, or runs of the same name made otherwise."""
        record = self.out / "study.yaml"
        others = [p for p in self.out.iterdir() if not p.name.startswith(".")]
        if others and not record.is_file():
            raise OutputError(f"{self.out}: already there and not a study. Name another --out.")
        for run in self.runs:
            _refuse_other_plan(self.out / "runs" / run.name, run)
        told = self.study.model_dump(mode="json", exclude_defaults=True)
        atomic.write_text(record, yaml.safe_dump(told, sort_keys=False, allow_unicode=True))

    def sort(self, *, retry: bool) -> None:
        """Which runs are still to be made."""
        for run in self.runs:
            folder = self.out / "runs" / run.name
            if (folder / RESULT).is_file():
                continue
            if (folder / FAILED).is_file():
                if not retry:
                    continue
                (folder / FAILED).unlink()
            atomic.write_json(folder / "plan.json", run.plan)
            self.todo.append(run)

    def prepare(self, engine: Engine) -> None:
        """The datasets of the runs, and the labels to score them with."""
        jobs: dict[str, Job[None]] = {}
        for data in {run.data.name: run.data for run in self.todo}.values():
            plain, dense = data.data.model_dump(mode="json"), self.dense[data.data.dense]
            truth = {"dense": dense, "out": self._truth(data), "data": plain}
            jobs[f"labels of {data.truth}"] = Job(data.truth, datasets.write_truth, truth)
            made = {"dense": dense, "out": self._dataset(data), **data.plan}
            jobs[data.name] = Job(data.name, datasets.prepare, made)
        for outcome in watch(engine, list(jobs.values()), name="data", progress=self.progress):
            if outcome.error is not None:
                broken = [r for r in self.todo if outcome.job.name in (r.data.name, r.data.truth)]
                for run in broken:
                    self._fail(run, str(outcome.error), outcome.log)
                self.todo = [run for run in self.todo if run not in broken]

    def run(self, engine: Engine) -> None:
        """The runs themselves."""
        by_name = {run.name: run for run in self.todo}
        done = len(self.runs) - len(self.todo)
        jobs = [self._job(run) for run in self.todo]
        for outcome in watch(engine, jobs, name="runs", progress=self.progress, done=done):
            if outcome.error is not None:
                self._fail(by_name[outcome.job.name], str(outcome.error), outcome.log)

    def result(self) -> StudyResult:
        """All that is there now."""
        finished, failed = [], {}
        for run in self.runs:
            folder = self.out / "runs" / run.name
            if (folder / RESULT).is_file():
                finished.append((run, json.loads((folder / RESULT).read_text(encoding="utf-8"))))
            elif (folder / FAILED).is_file():
                told = json.loads((folder / FAILED).read_text(encoding="utf-8"))
                failed[run.name] = str(told["error"])
        return StudyResult(self.study, self.out, tuple(finished), failed)

    def _job(self, run: PlannedRun) -> Job[None]:
        spec = run.data.data
        task = Task(
            folder=self.out.resolve() / "runs" / run.name,
            dataset=self._dataset(run.data),
            settings=run.settings.model_dump(mode="json"),
            images=tuple(datasets.held_out_images(self.dense[spec.dense], spec)),
            truth=self._truth(run.data),
            curve=self.study.curve is not None,
        )
        training = run.settings.training
        alone = training.devices == 1 and training.device == "auto"
        gpus = training.devices if training.device == "cuda" else None if alone else 0
        cores = training.devices if training.devices > 1 else None
        return Job(run.name, execute, {"task": task}, Needs(cores=cores, gpus=gpus))

    def _dataset(self, data: PlannedData) -> Path:
        return self.out.resolve() / "data" / data.name

    def _truth(self, data: PlannedData) -> Path:
        return self.out.resolve() / "truth" / data.truth

    def _fail(self, run: PlannedRun, error: str, log: str) -> None:
        folder, error = self.out / "runs" / run.name, error.removeprefix(f"{run.name}: ")
        atomic.write_json(folder / FAILED, {"error": error, "log": log.splitlines()})
        self.progress.say(f"failed: {run.name}: {error}")


def _refuse_other_plan(folder: Path, run: PlannedRun) -> None:
    path = folder / "plan.json"
    if not path.is_file():
        return
    saved, asked = json.loads(path.read_text(encoding="utf-8")), json.loads(json.dumps(run.plan))
    for name, value in _differences(saved, asked):
        raise SettingsError(
            f"{folder}: was begun with another {name} than the study file has now ({value}). Name "
            f"another --out, or remove that run's folder."
        )


def _differences(saved: Any, asked: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(saved, dict) and isinstance(asked, dict):
        for key in saved.keys() & asked.keys():  # a setting that a version brings is at its default
            yield from _differences(saved[key], asked[key], f"{name}.{key}".lstrip("."))
    elif saved != asked:
        yield name, f"{saved!r}, now {asked!r}"


@contextmanager
def _opened(
    engine: Engine | EngineOptions | None, jobs: int, out: Path, progress: Progress
) -> Iterator[Engine]:
    """The engine that was given, left open for its owner, or one of our own."""
    if engine is not None and not isinstance(engine, EngineOptions):
        yield engine
        return
    # A training that breaks its process must not break the study.
    with open_engine(engine, jobs=jobs, isolated=True, shared=out, progress=progress) as opened:
        yield opened
