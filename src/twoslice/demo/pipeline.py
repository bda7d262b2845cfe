"""The whole path on phantoms, as a user would type it, in under four minutes on two cores.

OUT/phantoms/                 12 dense phantoms: 8 to train on (imagesTr), 4 to test on (imagesTs)
OUT/dataset/                  what `simulate` leaves: two slices in 3 of the 8, dense labels hidden
OUT/run/                      DeSCO, taught with the propagated labels
OUT/run-drawn-slices/         one network, taught with the drawn slices alone
OUT/predictions*/             both on the 4 test scans
OUT/scores*.json              both on the test scans; propagation alone on the 3 labelled scans
OUT/report.html               the page

Stopped at any moment and typed again, it goes on from what is there: every stage gives the same
files for the same seed, so what is finished is kept.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from twoslice import __version__
from twoslice.annotation.check import check_dataset
from twoslice.annotation.simulate import simulate
from twoslice.console import align
from twoslice.demo.phantom import SHAPE, write_phantoms
from twoslice.errors import AnnotationError, OutputError
from twoslice.evaluation.evaluate import Evaluation, evaluate, evaluate_files
from twoslice.inference.predict import predict
from twoslice.io import atomic
from twoslice.io.dataset import Dataset
from twoslice.io.grid import Shape
from twoslice.pipeline.run import is_trained
from twoslice.progress import Progress, Silent
from twoslice.propagation.dataset import propagate_dataset
from twoslice.propagation.threads import single_threaded
from twoslice.propagation.views import FOLDER, FUSED, view_path
from twoslice.report.page import write_report
from twoslice.report.tables import Rival
from twoslice.settings import load_settings
from twoslice.training.loop import train

DESCO, DRAWN, PROPAGATED = "DeSCO", "drawn slices alone", "propagation alone"
SCORES = {
    DESCO: "scores.json",
    DRAWN: "scores-drawn-slices.json",
    PROPAGATED: "scores-propagation.json",
}


@dataclass(frozen=True)
class Scale:
    """How much the demo does. The defaults fit into four minutes on two cores."""

    training: int = 8
    test: int = 4
    labeled: int = 3
    shape: Shape = SHAPE
    desco_iterations: int = 400
    drawn_iterations: int = 300


@dataclass(frozen=True)
class DemoResult:
    """What the demo made and how good it is."""

    out: Path
    page: Path
    scores: dict[str, Evaluation]
    seconds: float

    def in_words(self) -> str:
        """The last lines: what was made, how good it is, what to type next."""
        rows = [["labels from", "Dice", "HD95 mm", "scored on"]]
        for name, evaluation in self.scores.items():
            overall = evaluation.summary["overall"]
            rows.append(
                [
                    name,
                    f"{100 * overall['dice']['mean']:.1f} ± {100 * overall['dice']['std']:.1f}",
                    f"{overall['hd95_mm']['mean']:.1f}",
                    scored_on(name, evaluation),
                ]
            )
        return (
            f"\n{align(rows)}\n\n"
            f"Made in {self.seconds:.0f} s: {self.out}\n"
            f"Open {self.page} in a browser.\n"
            f"Next, with scans of your own: twoslice import SCANS --out DATASET, draw two slices "
            f"in a few of them,\nthen twoslice check, propagate, train, predict and report; "
            f"twoslice --help lists them."
        )


def scored_on(name: str, evaluation: Evaluation) -> str:
    """Which scans a score was measured on: propagation has labels for the labelled ones only."""
    kind = "labelled scans, the only ones it covers" if name == PROPAGATED else "test scans"
    return f"{evaluation.summary['cases']} {kind}"


def run_demo(
    out: Path,
    *,
    seed: int = 0,
    scale: Scale | None = None,
    progress: Progress | None = None,
) -> DemoResult:
    """Run every stage that is not done yet, and say what came of it."""
    start = time.monotonic()
    demo = _Demo(out, seed, scale or Scale(), progress or Silent())
    demo.claim()
    demo.make_data()
    demo.propagate()
    # One thread is enough for phantoms, gives the same figures on any number of cores, and does not
    # stall where other programs use the cores too, as threads that wait for each other do.
    with single_threaded():
        for name in (DESCO, DRAWN):
            demo.train(name)
            demo.predict(name)
    scores = demo.score()
    page = demo.report(scores)
    return DemoResult(out, page, scores, time.monotonic() - start)


class _Demo:
    """The stages, each said as the command that a user would type for it."""

    def __init__(self, out: Path, seed: int, scale: Scale, progress: Progress) -> None:
        self.out, self.seed, self.scale, self.progress = out, seed, scale, progress
        self.phantoms, self.dataset = out / "phantoms", out / "dataset"
        self.runs = {DESCO: out / "run", DRAWN: out / "run-drawn-slices"}
        self.predictions = {DESCO: out / "predictions", DRAWN: out / "predictions-drawn-slices"}

    def claim(self) -> None:
        """Refuse a folder that holds something else, or a demo made otherwise."""
        path = self.out / "demo.json"
        record = {"version": __version__, "seed": self.seed, **asdict(self.scale)}
        wanted = json.loads(json.dumps(record))
        if not path.is_file():
            if self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
                raise OutputError(f"{self.out}: already there and not empty. Name another --out.")
            atomic.write_json(path, wanted)
        elif json.loads(path.read_text(encoding="utf-8")) != wanted:
            raise OutputError(
                f"{self.out}: holds a demo of another seed, size or version. Name another --out."
            )

    def make_data(self) -> None:
        """Phantoms, two slices of some of them, and the check that a user would do."""
        size = self.scale
        if not (self.phantoms / "dataset.json").is_file():
            self.progress.say(f"making {size.training + size.test} phantoms in {self.phantoms}")
            write_phantoms(
                self.phantoms,
                seed=self.seed,
                training=size.training,
                test=size.test,
                shape=size.shape,
                progress=self.progress,
            )
        if not (self.dataset / "dataset.json").is_file():
            command = f"{self.phantoms} --out {self.dataset} --labeled {size.labeled}"
            self.progress.say(f"twoslice simulate {command}")
            dense = Dataset.open(self.phantoms)
            simulate(dense, self.dataset, labeled=size.labeled, progress=self.progress)
        self.progress.say(f"twoslice check {self.dataset}")
        faults = check_dataset(self.dataset, progress=self.progress)
        if faults:
            raise AnnotationError(f"case {faults[0].case}: {faults[0].message}")

    def propagate(self) -> None:
        """Label views of the labelled scans."""
        self.progress.say(f"twoslice propagate {self.dataset}")
        propagate_dataset(Dataset.open(self.dataset), progress=self.progress)

    def train(self, name: str) -> None:
        """One training, from its last checkpoint if it was stopped."""
        run, begun = self.runs[name], (self.runs[name] / "settings.yaml").is_file()
        if is_trained(run):
            return
        changes = self.changes(name)
        said = " ".join(f"--set {change}" for change in changes)
        self.progress.say(f"twoslice train {self.dataset} --out {run} --preset demo {said}")
        settings = load_settings(preset="demo", assignments=changes)
        train(Dataset.open(self.dataset), run, settings, resume=begun, progress=self.progress)

    def changes(self, name: str) -> list[str]:
        """What a training has beside the preset; on slices alone one network can see more."""
        changes = [f"training.seed={self.seed}"]
        if name == DESCO:
            return [*changes, f"training.iterations={self.scale.desco_iterations}"]
        return [
            *changes,
            f"training.iterations={self.scale.drawn_iterations}",
            "method=supervised",
            "training.setting=sparse",
            "training.labeled_per_batch=2",
        ]

    def predict(self, name: str) -> None:
        """The test scans, which no training saw."""
        scans, out = self.phantoms / "imagesTs", self.predictions[name]
        self.progress.say(f"twoslice predict {self.runs[name]} {scans} --out {out}")
        predict(self.runs[name], [scans], out, progress=self.progress)

    def score(self) -> dict[str, Evaluation]:
        """Both trainings on the test scans, propagation on the scans that it has labels for."""
        names = Dataset.open(self.dataset).class_names
        scores = {
            name: evaluate(folder, self.phantoms / "labelsTs", class_names=names)
            for name, folder in self.predictions.items()
        }
        views = {
            case: (
                view_path(self.dataset / FOLDER, case, FUSED),
                self.dataset / "dense" / f"{case}.nii.gz",
            )
            for case in Dataset.open(self.dataset).labeled
        }
        scores[PROPAGATED] = evaluate_files(views, class_names=names)
        for name, file in SCORES.items():
            scores[name].write(self.out / file)
        return scores

    def report(self, scores: dict[str, Evaluation]) -> Path:
        """The page, with the three ways side by side."""
        self.progress.say(f"twoslice report {self.runs[DESCO]}")
        return write_report(
            self.runs[DESCO],
            self.out / "report.html",
            predictions=self.predictions[DESCO],
            labels=self.phantoms / "labelsTs",
            scans=[self.phantoms / "imagesTs"],
            rivals=[Rival(name, found, scored_on(name, found)) for name, found in scores.items()],
            title=f"Demo on phantoms, seed {self.seed}",
            progress=self.progress,
        )
