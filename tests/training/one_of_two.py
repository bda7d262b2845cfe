"""One process of a training on two devices: takes one step and writes its gradients down.

LOCAL_RANK=0|1 python one_of_two.py DATASET SETTINGS OUT
"""

from __future__ import annotations

import sys
from pathlib import Path

from safetensors.torch import save_file

from twoslice.io.dataset import Dataset
from twoslice.progress import Silent
from twoslice.settings import load_settings
from twoslice.training.devices import make_fabric
from twoslice.training.loop import Trainer
from twoslice.training.planner import make_plan
from twoslice.training.run import Run


def step(dataset: Dataset, settings_file: Path, out: Path) -> None:
    """Take one step from the start; the gradients (after clipping) go to OUT-<rank>."""
    settings = load_settings(file=settings_file)
    fabric = make_fabric(settings.training)
    run = Run.create(out / "run", settings, make_plan(dataset, settings), dataset)
    fabric.launch()
    trainer = Trainer(run, dataset, Silent(), fabric)
    losses = trainer.train_step()
    named = trainer.method.named_parameters()
    found = {name: p.grad.contiguous() for name, p in named if p.grad is not None}
    found["loss"] = losses.total.detach()
    batch = trainer.source.batch(0)
    found["images"] = batch.images.contiguous()
    out.mkdir(parents=True, exist_ok=True)
    save_file(found, out / f"rank-{fabric.global_rank}.safetensors")


if __name__ == "__main__":
    step(Dataset.open(Path(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3]))
