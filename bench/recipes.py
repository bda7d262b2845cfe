"""Methods and recipes on real scans: the protocol's training, last checkpoint, validation Dice.

    python bench/recipes.py --out DIR --data la_half --name fast --seeds 0,1,2 [--method desco]
        [--preset fast] [--set a.b=c]... [--every 250] [--whole] [--choice middle]
    python bench/recipes.py --out DIR --data la_half --table

The first form makes the protocol's dataset (la_half, hippocampus, btcv: five cases with an axial
and a coronal slice each, then the unlabelled ones; dense labels serve to score the validation cases
and nothing else), trains one run a seed under the name given, and writes DIR/DATA/NAME-SEED.json.
With `--whole` the five cases keep their dense labels: the upper bound. `--choice` takes other
slices than `simulate` does by itself: `middle`, the paper's. Finished runs are kept, stopped ones
go on. `--every N` scores the checkpoints on the way as well.
Start it with OMP_NUM_THREADS=1: `cpu` is then what one undisturbed core would take. The second form
prints all that is there as Markdown. Needs the data of TWOSLICE_DATA.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from real_scans import DATA, ROOT
from twoslice.annotation.choice import CHOICES, Choice
from twoslice.annotation.relabeling import Relabeling
from twoslice.annotation.simulate import simulate
from twoslice.evaluation.evaluate import evaluate
from twoslice.inference.predict import predict
from twoslice.inference.volume import keep_largest
from twoslice.io import atomic
from twoslice.io.dataset import Dataset
from twoslice.io.scans import read_label_map, write_labels
from twoslice.progress import Lines, Task
from twoslice.propagation.dataset import propagate_dataset
from twoslice.settings import load_settings
from twoslice.training.loop import train
from twoslice.training.run import Run

ORGANS = ("liver", "spleen", "left kidney")


@dataclass(frozen=True)
class Protocol:
    """Cases sorted by name: the first `labeled`, the next `unlabeled`, the last `validation`."""

    folder: str
    unlabeled: int
    validation: int
    labels: tuple[str, ...] | None = None
    labeled: int = 5


PROTOCOLS = {
    "la_half": Protocol("LA_half", unlabeled=59, validation=16),
    "hippocampus": Protocol("Hippocampus", unlabeled=150, validation=45),
    "btcv": Protocol("BTCV_ct", unlabeled=10, validation=5, labels=ORGANS),
}


@dataclass
class Keeper(Lines):
    """Progress in lines that keeps a copy of every checkpoint of a training, with its CPU time."""

    run: Path = Path()
    steps: dict[int, float] = field(default_factory=dict)
    every: float = 60.0

    @contextmanager
    def task(self, name: str, total: int, *, done: int = 0) -> Iterator[Task]:
        """As lines do; in a training, look for a new checkpoint after each step."""
        with super().task(name, total, done=done) as lines:
            if name != "training":
                yield lines
                return
            keeper, begun = self, time.process_time()

            class _Watch:
                def advance(self, steps: int = 1, note: str = "") -> None:
                    lines.advance(steps, note)
                    keeper.keep(time.process_time() - begun)

            yield _Watch()

    def keep(self, seconds: float) -> None:
        """Copy the checkpoints that are new into run folders of their own."""
        for checkpoint in (self.run / "checkpoints").glob("step-*"):
            step = int(checkpoint.name.removeprefix("step-"))
            if step not in self.steps:
                self.steps[step] = seconds
                copy = self.run.with_name(f"{self.run.name}-at-{step}")
                shutil.rmtree(copy, ignore_errors=True)  # of a run that was stopped here
                shutil.copytree(checkpoint, copy / "checkpoints" / checkpoint.name)
                for name in ("settings.yaml", "plan.json", "data.json"):
                    shutil.copy(self.run / name, copy / name)


def prepare(
    protocol: Protocol, folder: Path, *, whole: bool = False, choice: Choice = "spread"
) -> Dataset:
    """The sparse dataset with its label views, or the one whose labelled cases keep their labels
    `whole`; and the validation labels beside it. All is made once.
    """
    dense = Dataset.open(DATA / protocol.folder)
    names = sorted(dense.cases)
    labels = list(protocol.labels) if protocol.labels else None
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:  # two benchmarks may start together
        fcntl.flock(lock, fcntl.LOCK_EX)
        sparse = "sparse" if choice == "spread" else f"sparse-{choice}"
        root = folder / ("whole" if whole else sparse)
        if not root.is_dir():
            kept = names[: protocol.labeled + protocol.unlabeled]
            simulate(
                dense,
                root,
                labeled=protocol.labeled,
                cases=kept,
                labels=labels,
                whole=whole,
                choice=choice,
            )
        dataset = Dataset.open(root)
        if not whole:
            propagate_dataset(dataset)
        relabel = Relabeling.keeping(dense, labels)
        for name in names[-protocol.validation :]:
            target = folder / "validation" / f"{name}.nii.gz"
            if not target.is_file():
                truth, grid = relabel.read(dense, name)
                write_labels(target, truth, grid)
    return dataset


def score(run: Path, protocol: Protocol, folder: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """Predict the validation cases with a run's last checkpoint and score them."""
    dense = Dataset.open(DATA / protocol.folder)
    cases = sorted(dense.cases)[-protocol.validation :]
    images = [path for case in cases for path in dense.case(case).images]
    predictions = run.with_name(f"{run.name}-predictions")
    shutil.rmtree(predictions, ignore_errors=True)
    begun = time.process_time()
    predict(run, images, predictions)
    seconds = time.process_time() - begun
    found = evaluate(predictions, folder / "validation", class_names=names)
    rows = [(row["case"], row["label"], row["dice"]) for row in found.cases]
    return {
        "summary": found.summary,
        "largest": _largest(predictions, folder, names),
        "dice": rows,
        "predicting": seconds / len(cases),
    }


def _largest(predictions: Path, folder: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """The summary when only the largest piece of each label is kept: no training can buy what a
    line of post-processing gives, so the table shows both.
    """
    with tempfile.TemporaryDirectory() as scratch:
        for path in predictions.glob("*.nii.gz"):
            found = read_label_map(path)
            kept = keep_largest(found.data.astype(np.uint8), range(1, len(names)))
            write_labels(Path(scratch) / path.name, kept, found.grid)
        return evaluate(Path(scratch), folder / "validation", class_names=names).summary


def measure(arguments: argparse.Namespace, seed: int) -> None:
    """Train, predict and score one seed, unless its file is there."""
    protocol, folder = PROTOCOLS[arguments.data], arguments.out / arguments.data
    record = folder / f"{arguments.name}-{seed}.json"
    if record.is_file():
        return
    dataset = prepare(protocol, folder, whole=arguments.whole, choice=arguments.choice)
    assignments = [*arguments.set, f"training.seed={seed}"]
    if arguments.whole:
        assignments.append("training.setting=full")
    if arguments.every:
        assignments.append(f"training.checkpoint_every={arguments.every}")
    settings = load_settings(
        preset=arguments.preset, method=arguments.method, assignments=assignments
    )
    path = folder / "runs" / f"{arguments.name}-{seed}"
    started = Run.open(path).step if (path / "checkpoints").is_dir() else 0
    keeper = Keeper(run=path) if arguments.every else Lines(every=60)
    begun = time.process_time()
    run = train(dataset, path, settings, resume=True, progress=keeper)
    cpu = time.process_time() - begun
    meta = json.loads((run.latest / "meta.json").read_text())
    if run.step > started:
        cpu *= run.step / (run.step - started)
    else:  # it came ready: the clock is all that is known
        cpu = meta["seconds"]
    names = run.data.class_names
    curve = {}
    for step, seconds in getattr(keeper, "steps", {}).items():
        copy = path.with_name(f"{path.name}-at-{step}")
        curve[step] = {"cpu": seconds, **score(copy, protocol, folder, names)["summary"]["overall"]}
        shutil.rmtree(copy)
    result = {
        "name": arguments.name,
        "seed": seed,
        "commit": _commit(),
        "settings": run.settings.model_dump(mode="json"),
        "plan": run.plan.model_dump(mode="json"),
        "iterations": run.step,
        "seconds": meta["seconds"],
        "cpu": cpu,
        "curve": curve,
        **score(path, protocol, folder, names),
    }
    atomic.write_json(record, result)
    print(f"{record}: Dice {100 * result['summary']['overall']['dice']['mean']:.1f}")


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def table(folder: Path) -> None:
    """One line a name: mean over the seeds, and how far the seeds are apart; then the curves."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text())
        groups.setdefault(found["name"], []).append(found)
    heads = "run, seeds, iterations, CPU min, Dice, Jaccard, HD95 mm, ASD mm, largest piece"
    print(f"| {heads.replace(', ', ' | ')} | by label |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, runs in groups.items():
        overall = [run["summary"]["overall"] for run in runs]
        figures = [
            _spread([each[key]["mean"] * scale for each in overall])
            for key, scale in (("dice", 100), ("jaccard", 100), ("hd95_mm", 1), ("asd_mm", 1))
        ]
        pieces = [run["largest"]["overall"]["dice"]["mean"] for run in runs if "largest" in run]
        figures.append(_spread([100 * dice for dice in pieces]) if pieces else "")
        labels = {label: [] for label in runs[0]["summary"]["labels"]}
        for run in runs:
            for label, values in labels.items():
                values.append(100 * run["summary"]["labels"][label]["dice"]["mean"])
        by_label = ", ".join(f"{label} {np.mean(values):.1f}" for label, values in labels.items())
        minutes = np.mean([run["cpu"] for run in runs]) / 60
        seeds = ", ".join(str(run["seed"]) for run in runs)
        shown = " | ".join(figures)
        steps = round(np.mean([run["iterations"] for run in runs]))
        print(f"| {name} | {seeds} | {steps} | {minutes:.1f} | {shown} | {by_label} |")
    for name, runs in groups.items():
        _curve(name, [run["curve"] for run in runs if run["curve"]])


def _curve(name: str, curves: list[dict[str, Any]]) -> None:
    """Dice on the way, the mean over the seeds."""
    shared = [step for step in curves[0] if all(step in each for each in curves)] if curves else []
    if shared:
        print(f"\n{name}, {len(curves)} seed(s): iterations, CPU minutes, Dice")
    for step in sorted(shared, key=int):
        minutes = np.mean([each[step]["cpu"] for each in curves]) / 60
        dice = 100 * np.mean([each[step]["dice"]["mean"] for each in curves])
        print(f"{step:>6} {minutes:6.1f} {dice:6.1f}")


def _spread(values: list[float]) -> str:
    return f"{np.mean(values):.1f} ± {np.std(values, ddof=1) if len(values) > 1 else 0:.1f}"


def main() -> None:
    """Measure the runs asked for, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", choices=PROTOCOLS, default="la_half")
    parser.add_argument("--name", default="fast")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--method", default=None)
    parser.add_argument("--preset", default=None)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--whole", action="store_true", help="five whole volumes: the upper bound")
    parser.add_argument("--choice", choices=CHOICES, default="spread", help="which slices")
    parser.add_argument("--every", type=int, default=None)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        table(arguments.out / arguments.data)
        return
    for seed in map(int, arguments.seeds.split(",")):
        measure(arguments, seed)


if __name__ == "__main__":
    main()
