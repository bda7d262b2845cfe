"""A training step of plus in 16-bit arithmetic against one in 32 bits, on this machine's CPU.

    python bench/precision.py [--data la_half] [--steps 10] [--rounds 3]

Both trainings have the planner's patches and step in turns, so that what else the machine does
hits both alike; the median over the rounds is printed, and the ratio. Whether a step in 16 bits
learns as much is for bench/recipes.py to say. Needs the data of TWOSLICE_DATA.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from recipes import PROTOCOLS, prepare
from twoslice.io.dataset import Dataset
from twoslice.progress import Silent
from twoslice.settings import load_settings
from twoslice.training.devices import cpu_has_bfloat16
from twoslice.training.loop import Trainer
from twoslice.training.planner import make_plan
from twoslice.training.run import Run

KINDS = ("32-true", "bf16-mixed")
_WARM = 3  # steps that ask the system for memory


def begin(dataset: Dataset, folder: Path, precision: str) -> Trainer:
    """A training that has found its pace."""
    settings = load_settings(
        preset="plus",
        assignments=[
            f"training.precision={precision}",
            "training.device=cpu",
            "training.pictures=false",
        ],
    )
    run = Run.create(folder / precision, settings, make_plan(dataset, settings), dataset)
    trainer = Trainer(run, dataset, Silent())
    step(trainer, _WARM)
    return trainer


def step(trainer: Trainer, count: int) -> float:
    """Seconds by the clock of one of so many steps."""
    begun = time.monotonic()
    for _ in range(count):
        trainer.train_step()
        trainer.step += 1
    return (time.monotonic() - begun) / count


def main() -> None:
    """Step in turns, and print the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", choices=PROTOCOLS, default="la_half")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        dataset = prepare(PROTOCOLS[arguments.data], folder / "data")
        trainers = {kind: begin(dataset, folder, kind) for kind in KINDS}
        seconds = {kind: [] for kind in KINDS}
        for _ in range(arguments.rounds):
            for kind, trainer in trainers.items():
                seconds[kind].append(step(trainer, arguments.steps))
    middle = {kind: float(np.median(values)) for kind, values in seconds.items()}
    for kind, value in middle.items():
        print(f"{kind}: {value:.3f} s a step, {torch.get_num_threads()} thread(s)")
    has = "has" if cpu_has_bfloat16() else "does not have"
    print(f"{arguments.data}: {middle[KINDS[0]] / middle[KINDS[1]]:.2f} times as fast in 16 bits")
    print(f"(this CPU {has} 16-bit arithmetic of its own)")


if __name__ == "__main__":
    main()
