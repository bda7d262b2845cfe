"""The stage that judges: signs of every scan, held-out trainings on drawn slices, the verdict.

OUT/quality/CASE.json           signs and shapes of a scan under the final networks
OUT/quality/fold-N.json         what a held-out training said on the slices it was not taught with
OUT/quality.json                the verdict

A file that was made with the same weights is kept: the stage goes on where it was stopped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.reading import read_annotation
from twoslice.evaluation.advice import Advice, Candidate, advise
from twoslice.evaluation.calibration import Point, firmness
from twoslice.evaluation.oddities import ScanSigns
from twoslice.evaluation.signs import Reading, read_answers, shapes
from twoslice.evaluation.verdict import Verdict, reach_verdict
from twoslice.inference.probes import probe
from twoslice.inference.volume import Predictor
from twoslice.io import atomic
from twoslice.io.dataset import Dataset
from twoslice.io.scans import read_channels, read_label_map
from twoslice.io.volume import Volume
from twoslice.pipeline.folds import DrawnSlice, Fold, drawn_slices
from twoslice.planes import Plane
from twoslice.progress import Progress
from twoslice.training.run import Run
from twoslice.training.volumes import resample_labels, shape_at

VERSION = 2
"""Raised when the same weights and scans would give other signs."""


def judge(
    run: Run,
    data: Dataset,
    folds: Sequence[Fold],
    scans: Mapping[str, tuple[Path, ...]],
    out: Path,
    *,
    progress: Progress,
) -> Verdict:
    """Look at every predicted scan and reach the verdict."""
    points = [point for fold in folds for point in _held_out(fold, out / "quality")]
    found = _signs(run, data, scans, out, progress)
    names = run.data.class_names[1:]
    verdict = reach_verdict(found, points, names)
    verdict = replace(verdict, draw=_next(verdict, found, data))
    verdict.write(out / "quality.json")
    return verdict


def _held_out(fold: Fold, folder: Path) -> list[Point]:
    """What a held-out training says on the slices that it was not taught with."""
    run = Run.open(fold.folder)
    path = folder / f"{fold.folder.name}.json"
    known = _read(path, run.fingerprint)
    if known is None:
        predictor = Predictor(run)
        known = []
        for case in fold.held:
            labeled = Dataset.open(fold.dataset.root, faults={})
            slices = list(drawn_slices(labeled, case, run.plan))
            volume = labeled.read_image(case)
            handed_out = predictor.labels(volume, name=case) if predictor.thinned else None
            reading = _ask(predictor, volume, slices, case, handed_out)
            known += _points(case, slices, reading, run.data.class_names[1:])
        atomic.write_json(path, {"weights": run.fingerprint, "version": VERSION, "found": known})
    return [Point(**each) for each in known]


def _points(
    case: str, slices: Sequence[DrawnSlice], reading: Reading, names: Sequence[str]
) -> list[dict[str, Any]]:
    """A point for each label that a slice, or the answer on it, shows."""
    found = []
    for each, sums in zip(slices, reading.drawn, strict=True):
        sizes = sums.pairs["truth"][1]
        for name, signs, dice, size in zip(
            names, sums.signs(), sums.dice("truth"), sizes, strict=True
        ):
            if size > 0:
                point = Point(case, each.name, name, signs, round(float(dice), 5), float(size))
                found.append(asdict(point))
    return found


def _signs(
    run: Run,
    data: Dataset,
    scans: Mapping[str, tuple[Path, ...]],
    out: Path,
    progress: Progress,
) -> list[ScanSigns]:
    """Signs of every scan, those that are known already from their files."""
    weights, predictor = run.fingerprint, None
    found = []
    with progress.task("judging", len(scans)) as task:
        for case, paths in scans.items():
            path = out / "quality" / f"{case}.json"
            known = _read(path, weights)
            if known is None:
                predictor = predictor or Predictor(run)
                slices = list(drawn_slices(data, case, run.plan)) if case in data.labeled else []
                known = asdict(_look(predictor, case, paths, slices, out))
                tree = {"weights": weights, "version": VERSION, "found": known}
                atomic.write_json(path, tree)
            found.append(ScanSigns(**known))
            task.advance(note=case)
    return found


def _look(
    predictor: Predictor,
    case: str,
    paths: Sequence[Path],
    slices: Sequence[DrawnSlice],
    out: Path,
) -> ScanSigns:
    classes = predictor.plan.network.classes
    labels = read_label_map(out / "predictions" / f"{case}.nii.gz")
    handed_out = labels.data.astype(np.uint8)
    reading = _ask(predictor, read_channels(paths), slices, case, handed_out)
    found = shapes(handed_out, labels.grid.ras.spacing, classes)
    if predictor.thinned:  # strays are gone from the map, but tell of trouble
        answered = shapes(reading.labels, predictor.plan.voxel, classes)
        for value in predictor.thinned:
            for name in ("pieces", "largest"):
                found[value - 1][name] = answered[value - 1][name]
    drawn = {
        each.name: [
            {"signs": signs, "dice": float(dice)}
            for signs, dice, size in zip(
                sums.signs(), sums.dice("truth"), sums.pairs["truth"][1], strict=True
            )
            if size > 0
        ]
        for each, sums in zip(slices, reading.drawn, strict=True)
    }
    return ScanSigns(
        case=case,
        signs=reading.whole.signs(),
        shapes=found,
        doubt=[[round(float(value), 2) for value in sums] for sums in reading.doubt],
        drawn=drawn,
    )


def _ask(
    predictor: Predictor,
    volume: Volume,
    slices: Sequence[DrawnSlice],
    name: str,
    handed_out: NDArray[np.uint8] | None,
) -> Reading:
    """The answers about a scan; strays that were taken out of its label map count for nothing."""
    shape = shape_at(volume.shape, volume.spacing, predictor.plan.spacing)
    drawn = [(each.mask, each.labels) for each in slices]
    allowed = None
    if handed_out is not None and predictor.thinned:
        there = resample_labels(handed_out, shape)
        allowed = {value: _around(there == value) for value in predictor.thinned}
    answers = probe(predictor, volume, name=name)
    return read_answers(answers, predictor.plan.network.classes, shape, drawn, allowed)


def _around(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The mask and two voxels about it: what lies there is the same piece on another grid."""
    from scipy import ndimage

    grown: NDArray[np.bool_] = ndimage.binary_dilation(mask, iterations=2)
    return grown


def _next(verdict: Verdict, found: Sequence[ScanSigns], data: Dataset) -> Advice | None:
    """What to draw next, in the planes that were drawn in so far."""
    dice = {row.case: row.dice for row in verdict.scans}
    annotations = {case: read_annotation(data, case) for case in data.labeled}
    candidates = []
    for scan in found:
        if scan.case not in data.cases:
            continue
        drawn = annotations.get(scan.case)
        features = [firmness(each) for each in scan.signs]
        features += [float(np.log(max(each["ml"], 1e-3))) for each in scan.shapes]
        candidates.append(
            Candidate(
                case=scan.case,
                dice=dice[scan.case],
                features=features,
                doubt=scan.doubt,
                shape=data.read_grid(scan.case).ras.shape,
                drawn=tuple((each.plane, each.index) for each in drawn.slices) if drawn else (),
            )
        )
    planes = list(dict.fromkeys(p for a in annotations.values() for p in a.planes))
    return advise(candidates, planes[:2] or [Plane.AXIAL, Plane.CORONAL]) if candidates else None


def _read(path: Path, weights: str) -> Any:
    """What a file says, if it was made with these weights."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        if tree["weights"] == weights and tree["version"] == VERSION:
            return tree["found"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None
