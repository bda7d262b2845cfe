"""How much memory a training step needs, worked out before it runs; and which patch would fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from twoslice.errors import TrainingError
from twoslice.memory import available_memory
from twoslice.methods.base import Method
from twoslice.networks.build import NetworkPlan, build_network
from twoslice.settings import Settings
from twoslice.training.planner import Plan

Side = tuple[int, int, int]

_COPIES = 5
"""Tensors of a weight's size: the weight, its gradient, two of the optimizer, the average."""
_ROOM = 1.3
"""A patch that is recommended leaves room for buffers of convolutions and for the losses' own."""
_SMALLEST = 16
_NO_MEMORY = ("not enough memory", "can't allocate memory", "out of memory")


def step_bytes(plan: NetworkPlan, patch: Sequence[int], *, networks: int, patches: int) -> int:
    """What one step keeps at the least: of each network, its features of `patches` patches until
    the gradient is taken, and the copies of its weights. The pass runs on shapes alone.
    """
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage.nbytes()  # views of one storage count once
        return tensor

    with torch.random.fork_rng(devices=[]):
        network = build_network(plan).to("meta")
    image = torch.empty(patches, plan.channels, *patch, device="meta")
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        scores = network(image)  # holds the graph, and with it every storage
    weights = sum(
        int(value.numel() * value.element_size()) for value in network.state_dict().values()
    )
    del scores
    return networks * (max(sum(kept.values()) - weights, 0) + _COPIES * weights)


def refuse_too_large(
    plan: Plan, method: type[Method], settings: Settings, device: torch.device
) -> None:
    """Stop before the first step if what it keeps is more than there is: on a CPU the system
    would otherwise kill the training without a word.
    """
    room = free_bytes(device)
    if device.type == "cpu":
        room //= settings.training.devices
    needed = _needed(plan, method, settings, plan.patch)
    if needed > room:
        found = f"needs at least {_gigabytes(needed)} of memory, and {_gigabytes(room)} are free"
        raise _too_little(plan, method, settings, found=found, room=room)


@contextmanager
def memory_told(plan: Plan, method: type[Method], settings: Settings) -> Iterator[None]:
    """Turn a step that ran out of memory into one line that says which patch would fit."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        told = isinstance(error, (MemoryError, torch.OutOfMemoryError))
        if not told and not any(words in str(error).lower() for words in _NO_MEMORY):
            raise
        # What it asks for at the least was not there: something clearly smaller may be.
        room = _needed(plan, method, settings, plan.patch)
        raise _too_little(plan, method, settings, found="ran out of memory", room=room) from None


def free_bytes(device: torch.device) -> int:
    """Bytes that a training on this device can still take."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0]) + torch.cuda.memory_reserved(device)
    return available_memory()


def fitting_patch(patch: Side, fits: Callable[[Side], bool]) -> Side | None:
    """The patch with its longest side shortened by 8 until it fits; None if none does."""
    sides = list(patch)
    while not fits((sides[0], sides[1], sides[2])):
        longest = max(range(3), key=lambda axis: sides[axis])
        if sides[longest] <= _SMALLEST:
            return None
        sides[longest] = max(_SMALLEST, sides[longest] - 8)
    return sides[0], sides[1], sides[2]


def _needed(plan: Plan, method: type[Method], settings: Settings, patch: Side) -> int:
    patches = method.patches_each(settings)
    return step_bytes(plan.network, patch, networks=method.trained, patches=patches)


def _too_little(
    plan: Plan, method: type[Method], settings: Settings, *, found: str, room: int
) -> TrainingError:
    smaller = fitting_patch(
        plan.patch, lambda patch: _ROOM * _needed(plan, method, settings, patch) <= room
    )
    remedy = (
        "No patch would fit: lower network.filters, or close other programs"
        if smaller is None
        else f"This should fit: --set training.patch=[{','.join(map(str, smaller))}]"
    )
    return TrainingError(
        f"A step with training.patch = {' × '.join(map(str, plan.patch))} and "
        f"{plan.network.filters} filters {found}. {remedy}."
    )


def _gigabytes(size: int) -> str:
    return f"{size / 2**30:.2g} GiB"
