"""Where a training runs, and the random state of each of its steps."""

from __future__ import annotations

import torch
from lightning_fabric import Fabric

from twoslice.errors import SettingsError
from twoslice.methods.base import Batch, View
from twoslice.settings import TrainingSettings

_STEPS_APART = 1_000_003


def make_fabric(settings: TrainingSettings) -> Fabric:
    """Lightning Fabric on the device and in the precision that the settings name."""
    try:
        return Fabric(accelerator=settings.device, devices=1, precision=settings.precision)
    except (RuntimeError, ValueError):
        raise SettingsError(
            f"training.device = {settings.device!r}: this machine has no such device, or PyTorch "
            f"cannot use it. Set training.device to auto or cpu."
        ) from None


def available_device() -> torch.device:
    """The best device of this machine, which need not be the one that trained."""
    return make_fabric(TrainingSettings()).device


def seed_everything(seed: int, *, step: int) -> None:
    """Dropout and noise of a step follow from the seed and the step alone, as its batch does."""
    torch.manual_seed((seed * _STEPS_APART + step) % 2**63)


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch on the device that trains."""
    if device.type == "cpu":
        return batch
    views = tuple(
        View(view.label.to(device, non_blocking=True), view.distance.to(device, non_blocking=True))
        for view in batch.views
    )
    labeled = batch.labeled.to(device, non_blocking=True)
    unlabeled = batch.unlabeled.to(device, non_blocking=True)
    return Batch(labeled, unlabeled, views, batch.cases)
