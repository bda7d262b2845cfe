"""The stage that judges: signs of every scan, held-out trainings on drawn slices, the verdict.

OUT/quality/CASE.json           signs and shapes of a scan under the final networks
OUT/quality/fold-N.json         what a held-out training said on the slices it was not taught with
OUT/quality.json                the verdict

A file that was made with the same weights is kept: the stage goes on where it was stopped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.reading import read_annotation
from twoslice.evaluation.advice import Advice, Candidate, advise
from twoslice.evaluation.calibration import Point, firmness
from twoslice.evaluation.oddities import ScanSigns
from twoslice.evaluation.rivals import carried, dice_by_label
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

VERSION = 5
"""Raised when the same weights and scans would give other signs."""
_USUAL = [Plane.AXIAL, Plane.CORONAL]


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
    found = _signs(run, data, folds, scans, out, progress)
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
    folds: Sequence[Fold],
    scans: Mapping[str, tuple[Path, ...]],
    out: Path,
    progress: Progress,
) -> list[ScanSigns]:
    """Signs of every scan, those that are known already from their files."""
    held_out = [Run.open(fold.folder) for fold in folds]
    weights = " ".join(each.fingerprint for each in (run, *held_out))
    asked: _Asked | None = None
    found = []
    with progress.task("judging", len(scans)) as task:
        for case, paths in scans.items():
            path = out / "quality" / f"{case}.json"
            known = _read(path, weights)
            if known is None:
                asked = asked or _Asked.of(run, held_out, _planes(data))
                slices = list(drawn_slices(data, case, run.plan)) if case in data.labeled else []
                known = asdict(_look(asked, case, paths, slices, out))
                tree = {"weights": weights, "version": VERSION, "found": known}
                atomic.write_json(path, tree)
            found.append(ScanSigns(**known))
            task.advance(note=case)
    return found


@dataclass(frozen=True, eq=False)
class _Asked:
    """Who is asked about a scan: the final networks and the held-out ones; and the planes in which
    the label map is carried.
    """

    predictor: Predictor
    folds: Sequence[Predictor]
    planes: Sequence[Plane]

    @classmethod
    def of(cls, run: Run, held_out: Sequence[Run], drawn: Sequence[Plane]) -> _Asked:
        """The networks of these runs; where one plane alone was drawn in, the usual two."""
        planes = drawn[:2] if len(drawn) > 1 else _USUAL
        return cls(Predictor(run), [Predictor(each) for each in held_out], planes)

    def rivals(
        self, volume: Volume, labels: NDArray[np.uint8], case: str
    ) -> dict[str, list[float]]:
        """The Dice of a label map with what others make of the scan."""
        plan = self.predictor.plan
        classes = plan.network.classes
        image = self.predictor.prepare(volume, name=case)[0].cpu().numpy()
        there = resample_labels(labels, (image.shape[1], image.shape[2], image.shape[3]))
        found = {
            "carried": carried(
                image, there, classes=classes, spacing=plan.voxel, planes=self.planes
            )
        }
        if self.folds:
            maps = (fold.labels(volume, name=case) for fold in self.folds)
            each = [dice_by_label(labels, other, classes) for other in maps]
            found["folds"] = [round(float(dice), 5) for dice in np.mean(each, axis=0)]
        return found


def _look(
    asked: _Asked,
    case: str,
    paths: Sequence[Path],
    slices: Sequence[DrawnSlice],
    out: Path,
) -> ScanSigns:
    predictor = asked.predictor
    classes = predictor.plan.network.classes
    labels = read_label_map(out / "predictions" / f"{case}.nii.gz")
    handed_out = labels.data.astype(np.uint8)
    volume = read_channels(paths)
    reading = _ask(predictor, volume, slices, case, handed_out)
    found = shapes(handed_out, labels.grid.ras.spacing, classes)
    if predictor.thinned:
        answered = shapes(reading.labels, predictor.plan.voxel, classes)
        for value in predictor.thinned:
            shape = answered[value - 1]
            found[value - 1]["strays"] = round(1 - shape["largest"], 4) if shape["pieces"] else 0.0
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
        rivals=asked.rivals(volume, handed_out, case),
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
    return advise(candidates, _planes(data)[:2] or _USUAL) if candidates else None


def _planes(data: Dataset) -> list[Plane]:
    """The planes that were drawn in."""
    annotations = (read_annotation(data, case) for case in data.labeled)
    return list(dict.fromkeys(plane for each in annotations for plane in each.planes))


def _read(path: Path, weights: str) -> Any:
    """What a file says, if it was made with these weights."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        if tree["weights"] == weights and tree["version"] == VERSION:
            return tree["found"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None
