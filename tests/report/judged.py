"""A run folder with predictions, doubt and a verdict, made without any training."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from twoslice.annotation.simulate import simulate
from twoslice.demo.phantom import write_phantoms
from twoslice.evaluation.advice import Advice
from twoslice.evaluation.calibration import Point
from twoslice.evaluation.oddities import ScanSigns
from twoslice.evaluation.verdict import Verdict, reach_verdict
from twoslice.io import atomic
from twoslice.io.scans import read_label_map, write_image, write_labels
from twoslice.propagation.dataset import propagate_dataset
from twoslice.settings import load_settings
from twoslice.training.planner import make_plan
from twoslice.training.run import Run

METRICS = """step,loss,supervised,cross,alpha,trust,mask_fraction,learning_rate,seconds
10,1.5,1.0,0.5,0.95,0.01,0.2,0.002,3
20,1.1,0.8,0.3,0.5,0.4,0.5,0.001,6
30,0.9,0.7,0.2,0.0,0.8,0.9,0.0005,9
"""


def make_run(root: Path, *, cases: int = 4) -> Verdict:
    """`root/run`, `root/predictions`, `root/quality.json`; the truth in `root/dense/labelsTr`."""
    dense = write_phantoms(root / "dense", training=cases, test=1, shape=(32, 32, 16))
    data = simulate(dense, root / "data", labeled=2)
    propagate_dataset(data)
    settings = load_settings(preset="fast")
    Run.create(root / "run", settings, make_plan(data, settings), data).save()
    atomic.write_text(root / "run" / "metrics.csv", METRICS)
    found = []
    for number, case in enumerate(sorted(data.cases)):
        labels = read_label_map(dense.root / "labelsTr" / f"{case}.nii.gz")
        said = np.roll(labels.data, number, axis=0).astype(np.uint8)  # worse and worse
        write_labels(root / "predictions" / f"{case}.nii.gz", said, labels.grid)
        doubt = (labels.data != said).astype(np.float32)
        path = root / "predictions" / "uncertainty" / f"{case}_entropy.nii.gz"
        write_image(path, doubt, labels.grid)
        found.append(_signs(case, 0.95 - 0.1 * number, len(data.class_names) - 1))
    names = data.class_names[1:]
    points = [Point("a", "axial 3", name, found[0].signs[0], 0.8, 50.0) for name in names]
    advice = Advice(found[-1].case, ["axial 4", "coronal 9"], "poor", "a", "sagittal 2", "doubt")
    verdict = reach_verdict(found, points, names, advice)
    verdict.write(root / "quality.json")
    return verdict


def _signs(case: str, value: float, labels: int) -> ScanSigns:
    signs = dict.fromkeys(("softmax", "certainty", "networks", "shift", "mirror"), value)
    shape = {
        "ml": 10.0,
        "extent_mm": [20.0, 30.0, 25.0],
        "thickness_mm": 3.0,
        "pieces": 1,
        "largest": 1.0,
    }
    return ScanSigns(case, [signs] * labels, [shape] * labels, [[1.0]] * 3, {})
