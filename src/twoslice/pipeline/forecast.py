"""How long a run will take, measured on a few steps of it before it begins."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from twoslice.inference.probes import PROBES
from twoslice.io.dataset import Dataset
from twoslice.memory import available_memory
from twoslice.networks.windows import choose_window
from twoslice.progress import Progress
from twoslice.settings import Settings
from twoslice.training.loop import Trainer
from twoslice.training.planner import Plan
from twoslice.training.run import Run
from twoslice.training.volumes import shape_at

STEPS = 3


@dataclass(frozen=True)
class Pace:
    """Seconds of one training step, and of one window through the networks that predict."""

    step: float
    window: float
    windows: float
    """Windows of a typical scan."""

    def training(self, settings: Settings, plan: Plan, *, done: int = 0) -> float:
        """Seconds that a training still takes."""
        if settings.training.minutes is not None:
            return 60.0 * settings.training.minutes
        return self.step * max(0, plan.iterations - done)

    @property
    def predicting(self) -> float:
        """Seconds of one scan: predicted, and put to the networks again by every probe."""
        return self.window * self.windows * (2 + len(PROBES))


def measure_pace(dataset: Dataset, settings: Settings, plan: Plan, progress: Progress) -> Pace:
    """Train a few steps that nobody keeps; the scans prepared for them serve the real training."""
    with tempfile.TemporaryDirectory(prefix="twoslice-") as folder:
        quiet = settings.training.model_copy(update={"pictures": False, "mlflow": None})
        run = Run.create(
            Path(folder), settings.model_copy(update={"training": quiet}), plan, dataset
        )
        trainer = Trainer(run, dataset, progress)
        trainer.train_step()  # the first one also sets up memory and kernels
        start = time.perf_counter()
        for _ in range(STEPS):
            trainer.train_step()
        step = (time.perf_counter() - start) / STEPS
        patch = torch.zeros(1, plan.network.channels, *plan.patch, device=trainer.fabric.device)
        trainer.method.eval()
        start = time.perf_counter()
        with torch.inference_mode():
            trainer.method.member_probabilities(patch)
        window = time.perf_counter() - start
    return Pace(step, window, _windows(dataset, plan))


def _windows(dataset: Dataset, plan: Plan) -> float:
    """How many patches' worth of voxels goes through the networks for a typical scan."""
    found = []
    for case in sorted(dataset.cases)[:20]:
        grid = dataset.read_grid(case).ras
        shape = shape_at(grid.shape, grid.spacing, plan.spacing)
        window = choose_window("auto", shape, plan.patch, plan.network, memory=available_memory())
        counts = [
            1 + max(0, -(-(side - size) // stride))
            for side, size, stride in zip(shape, window.size, window.stride, strict=True)
        ]
        found.append(np.prod(counts) * np.prod(window.size) / np.prod(plan.patch))
    return float(np.median(found))
