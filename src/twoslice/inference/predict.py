"""Predict any folder or files of scans: `OUT/CASE.nii.gz`, each on exactly its scan's grid.

OUT/CASE.nii.gz                          the label map
OUT/probabilities/CASE_0001.nii.gz       one file a class, if asked
OUT/uncertainty/CASE_entropy.nii.gz      and CASE_disagreement.nii.gz, if asked
OUT/predictions.json                     which run made them, and what failed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twoslice.errors import InputError, OutputError, PartialError
from twoslice.inference.inputs import (
    MANIFEST,
    find_inputs,
    read_manifest,
    refuse_useless_series,
)
from twoslice.inference.volume import Predictor, VolumePrediction
from twoslice.io import atomic
from twoslice.io.find import FoundScan
from twoslice.io.grid import Grid
from twoslice.io.scans import read_channels, write_image, write_labels
from twoslice.progress import Progress, Silent
from twoslice.training.run import Run


@dataclass(frozen=True)
class PredictionSummary:
    """What was asked: cases predicted now, those that were there already, and those that failed."""

    out: Path
    predicted: tuple[str, ...]
    already: tuple[str, ...]
    failed: dict[str, str]


@dataclass(frozen=True)
class Wanted:
    """What is written for each case beside its label map, and which DICOM series is read."""

    probabilities: bool = False
    uncertainty: bool = False
    series: str | None = None


def predict(
    run: Path,
    inputs: Sequence[Path],
    out: Path,
    *,
    probabilities: bool = False,
    uncertainty: bool = False,
    series: str | None = None,
    progress: Progress | None = None,
) -> PredictionSummary:
    """Predict every scan in `inputs`. A scan that cannot be read is named and left out, the rest
    is done, and a PartialError then says how many failed; finished ones are not made again.
    `series` names one of several DICOM series in a folder.
    """
    progress = progress or Silent()
    opened = Run.open(run)
    scans = find_inputs(inputs, out, progress)
    refuse_useless_series(scans, series)
    _claim(out, opened, series)
    predictor: Predictor | None = None
    wanted = Wanted(probabilities, uncertainty, series)
    done: list[str] = []
    already: list[str] = []
    failed: dict[str, str] = {}
    with progress.task("predicting", len(scans)) as task:
        for scan in scans:
            if all(path.is_file() for path in _outputs(out, scan.case, wanted, opened)):
                already.append(scan.case)
            else:
                predictor = predictor or Predictor(opened)
                fault = _predict_one(predictor, scan, out, wanted)
                if fault is None:
                    done.append(scan.case)
                else:
                    failed[scan.case] = fault
                    progress.say(f"left out {scan.case}: {fault}")
            task.advance(note=scan.case)
    _write_manifest(out, opened, series, [*done, *already], failed)
    if failed:
        raise PartialError(_tell(failed, len(scans), out))
    return PredictionSummary(out, tuple(done), tuple(already), failed)


def _tell(failed: dict[str, str], total: int, out: Path) -> str:
    return (
        f"{len(failed)} of {total} scan(s) could not be predicted ({', '.join(sorted(failed))}); "
        f"the other {total - len(failed)} are in {out}. First fault: {next(iter(failed.values()))}"
    )


def _predict_one(predictor: Predictor, scan: FoundScan, out: Path, wanted: Wanted) -> str | None:
    """Predict and write one scan; the fault in one line if it cannot be read."""
    try:
        volume = read_channels(scan.paths, series=wanted.series)
        prediction = predictor(volume, name=", ".join(map(str, scan.paths)))
    except InputError as error:
        return str(error)
    _write(prediction, volume.grid, scan.case, out, wanted)
    return None


def _write(prediction: VolumePrediction, grid: Grid, case: str, out: Path, wanted: Wanted) -> None:
    """The label map last: a case that has one has all that was asked for."""
    if wanted.probabilities:
        for index, channel in enumerate(prediction.probabilities):
            write_image(_probability_file(out, case, index), channel, grid)
    if wanted.uncertainty:
        entropy, apart = _uncertainty_files(out, case)
        write_image(entropy, np.ascontiguousarray(prediction.entropy), grid)
        write_image(apart, np.ascontiguousarray(prediction.disagreement), grid)
    write_labels(out / f"{case}.nii.gz", prediction.labels, grid)


def _outputs(out: Path, case: str, wanted: Wanted, run: Run) -> list[Path]:
    files = [out / f"{case}.nii.gz"]
    if wanted.probabilities:
        classes = range(run.plan.network.classes)
        files += [_probability_file(out, case, index) for index in classes]
    if wanted.uncertainty:
        files += _uncertainty_files(out, case)
    return files


def _probability_file(out: Path, case: str, index: int) -> Path:
    return out / "probabilities" / f"{case}_{index:04d}.nii.gz"


def _uncertainty_files(out: Path, case: str) -> list[Path]:
    folder = out / "uncertainty"
    return [folder / f"{case}_entropy.nii.gz", folder / f"{case}_disagreement.nii.gz"]


def _identity(run: Run, series: str | None) -> dict[str, str | int | None]:
    return {"run": str(run.folder.resolve()), "step": run.step, "series": series}


def _claim(out: Path, run: Run, series: str | None) -> None:
    """Mark the folder as this run's before the first map: a killed prediction can then go on.

    Label maps of another run, or of nobody knows whom, are neither taken as ours nor replaced.
    """
    if not out.is_dir() or not any(out.iterdir()):
        _write_manifest(out, run, series, [], {})
        return
    found, mine = read_manifest(out), _identity(run, series)
    if {key: found.get(key) for key in mine} != mine:
        of = f" with --series {series}" if series else ""
        raise OutputError(
            f"{out}: holds files that this run at step {run.step}{of} did not make. Name another "
            f"--out."
        )


def _write_manifest(
    out: Path, run: Run, series: str | None, cases: list[str], failed: dict[str, str]
) -> None:
    known = {*read_manifest(out).get("cases", []), *cases}
    record = {**_identity(run, series), "cases": sorted(known), "failed": failed}
    atomic.write_json(out / MANIFEST, record)
