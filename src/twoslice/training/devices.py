"""Where a training runs, and the random state of each of its steps."""

from __future__ import annotations

import logging
import os
import warnings
from typing import Literal

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from lightning_fabric.utilities.exceptions import MisconfigurationException
from torch import Tensor

from twoslice.errors import SettingsError
from twoslice.methods.base import Batch, View
from twoslice.settings import TrainingSettings

_STEPS_APART = 1_000_003
_RANKS_APART = 2**40 + 15
_HALF_SINCE, _BFLOAT_SINCE = 7, 8  # CUDA capabilities: tensor cores, and those for bfloat16

Precision = Literal["32-true", "16-mixed", "bf16-mixed"]


def make_fabric(settings: TrainingSettings) -> Fabric:
    """Lightning Fabric on the devices and in the precision that the settings name. Several devices
    are a process each, with their gradients averaged (DDP; gloo between CPU processes).
    """
    strategy = DDPStrategy() if settings.devices * settings.nodes > 1 else "auto"
    # The layout of 1×1×1 kernels has two names, and DDP takes one for the other.
    warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
    # Where SLURM is installed, a training need not be one of its jobs.
    warnings.filterwarnings("ignore", message="The `srun` command is available")
    # Which precision it takes is nothing that a user has to read.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    try:
        return Fabric(
            accelerator=settings.device,
            devices=settings.devices,
            num_nodes=settings.nodes,
            strategy=strategy,
            precision=choose_precision(settings),
        )
    except MisconfigurationException:
        raise SettingsError(
            f"training.devices = {settings.devices}: this machine has fewer devices of the kind "
            f"{settings.device!r}. Ask for no more than it has."
        ) from None
    except (RuntimeError, ValueError):
        raise SettingsError(
            f"training.device = {settings.device!r}: this machine has no such device, or PyTorch "
            f"cannot use it. Set training.device to auto or cpu."
        ) from None


def start_fabric(settings: TrainingSettings) -> Fabric:
    """As `make_fabric`, for a training: refuses processes that were started otherwise."""
    refuse_other_launch(settings)
    return make_fabric(settings)


def started_by_torchrun() -> tuple[int, int] | None:
    """The devices a node and the nodes that torchrun started this process among; None without."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    local, world = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
    return local, world // local


def refuse_other_launch(settings: TrainingSettings) -> None:
    """Processes that were not started as the settings say would each train alone, or wait for
    others that never come.
    """
    found, wanted = started_by_torchrun(), (settings.devices, settings.nodes)
    if found is not None and found != wanted:
        raise SettingsError(
            f"torchrun started {found[0]} process(es) on each of {found[1]} node(s), but the "
            f"training is for {wanted[0]} on each of {wanted[1]}. Start it with --nproc-per-node "
            f"{wanted[0]} --nnodes {wanted[1]}, or a new run with --devices and --nodes to match."
        )
    others = {"TORCHELASTIC_RUN_ID", "SLURM_NTASKS", "NODE_RANK"}
    if settings.nodes > 1 and not others & os.environ.keys():
        raise SettingsError(
            f"--nodes {settings.nodes}: nothing here says which of them this machine is. Start "
            f"the command on each with torchrun, or with srun (docs/cluster.md)."
        )


def choose_precision(settings: TrainingSettings) -> Precision:
    """The precision that was asked for; `auto` is mixed where that is faster and safe: on devices
    with 16-bit arithmetic of their own, in the modern recipe. The paper trains in 32 bits.
    """
    if settings.precision != "auto":
        return settings.precision
    if settings.recipe == "paper":
        return "32-true"
    if settings.device in ("auto", "cuda") and torch.cuda.is_available():
        generation, _ = torch.cuda.get_device_capability()
        if generation >= _BFLOAT_SINCE:
            return "bf16-mixed"
        return "16-mixed" if generation >= _HALF_SINCE else "32-true"
    on_mps = settings.device == "auto" and torch.backends.mps.is_available()
    on_cpu = settings.device == "cpu" or (settings.device == "auto" and not on_mps)
    return "bf16-mixed" if on_cpu and cpu_has_bfloat16() else "32-true"


def cpu_has_bfloat16() -> bool:
    """Whether this CPU multiplies 16-bit numbers by itself; others convert them, which is slow.

    PyTorch has no public name for it, so a version that cannot tell counts as no.
    """
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name)() for name in names if hasattr(torch.cpu, name))


def sum_of_all(fabric: Fabric, value: Tensor) -> Tensor:
    """The sum of a tensor over all processes, without a gradient."""
    summed = fabric.all_reduce(value.detach().clone(), reduce_op="sum")
    assert isinstance(summed, Tensor)
    return summed


def available_device() -> torch.device:
    """The best device of this machine, which need not be the one that trained."""
    return make_fabric(TrainingSettings()).device


def seed_everything(seed: int, *, step: int, rank: int = 0) -> None:
    """Dropout and noise of a step follow from the seed, the step and which process it is, and
    from nothing else; as its batch does.
    """
    torch.manual_seed((seed * _STEPS_APART + step + rank * _RANKS_APART) % 2**63)


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
