"""Areas as they were drawn: what is done to a trained method before its last checkpoint.

Networks may call a label a little too often or too seldom, and that shows where somebody drew. So
the scores of each class are raised or lowered by one number, which goes into the biases of the last
layer, until the label maps have on the drawn slices as many voxels of each class as were drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from twoslice.annotation.reading import DenseLabelError
from twoslice.io.dataset import Dataset
from twoslice.memory import available_memory
from twoslice.methods.base import Method
from twoslice.networks.convolutions import Scores
from twoslice.networks.regrid import regrid
from twoslice.networks.windows import choose_window, sweep
from twoslice.training.patches import PatchSource
from twoslice.training.planner import Plan
from twoslice.training.sources import View, read_drawn, read_volume

MOST = 0.5
"""Log odds that a class may be moved by. Few slices say where a class is cut by chance as well: on
hippocampi 0.9 was asked for and did harm (docs/LOG.md)."""
_ROUNDS, _HALVINGS = 3, 12
_FLOOR = 1e-7
_ENOUGH = 1_000_000  # voxels of a scan: two slices of 512 × 512 and more


@torch.no_grad()
def level(
    method: Method,
    plan: Plan,
    scans: Iterable[tuple[Float[Tensor, "1 C I J K"], View]],
) -> list[float]:
    """Move the biases of the predicting networks; by how much for each class, background at 0.

    `scans` are prepared images, and the label and distance of the drawn voxels on the scans' own
    grids: label maps are made there, and what was resampled may be thinner.
    """
    logs, labels = [], []
    for image, (label, distance) in scans:
        drawn = thinned(distance == 0)
        logs.append(probabilities_at(drawn, method, plan, image).clamp_min(_FLOOR).log())
        labels.append(torch.from_numpy(label[drawn]).long())
    shifts = find_shifts(torch.cat(logs, dim=-1), torch.cat(labels))
    for network in method.predicting:
        move_scores(network, shifts)
    return [round(value, 3) for value in shifts.tolist()]


def thinned(chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The same, or an even choice of them where whole volumes were drawn."""
    every = -(-int(chosen.sum()) // _ENOUGH)
    if every <= 1:
        return chosen
    kept = np.zeros_like(chosen)
    kept.flat[np.flatnonzero(chosen)[::every]] = True
    return kept


def drawn_scans(
    dataset: Dataset, source: PatchSource, device: torch.device
) -> Iterator[tuple[Float[Tensor, "1 C I J K"], View]]:
    """The labelled scans as the networks take them, and what was drawn on their own grids."""
    for scan in source.labeled:
        image = torch.from_numpy(np.array(source.open_image(scan.name)))[None].to(device)
        try:
            drawn = read_drawn(dataset, scan.name)[0]
        except DenseLabelError:
            drawn = read_volume(dataset, scan.name)[0]
        yield image.contiguous(memory_format=torch.channels_last_3d), drawn


def probabilities_at(
    chosen: NDArray[np.bool_], method: Method, plan: Plan, image: Float[Tensor, "1 C I J K"]
) -> Float[Tensor, "N C2 V"]:
    """Each predicting network's softmax in the `chosen` voxels of the scan's own grid, in their
    order, as a prediction of the whole scan would have it.
    """
    i, j, k = image.shape[2:]
    members, classes = len(method.predicting), plan.network.classes
    memory, maps = available_memory(), members * classes
    window = choose_window("auto", (i, j, k), plan.patch, plan.network, memory=memory, maps=maps)
    axis = int(np.argmax((i, j, k)))
    target = (chosen.shape[0], chosen.shape[1], chosen.shape[2])
    places = [torch.from_numpy(each) for each in np.nonzero(chosen)]
    parts = torch.empty(maps, len(places[0]))
    slabs = sweep(
        lambda part: method.member_probabilities(part).transpose(0, 1).flatten(1, 2),
        image,
        window,
        axis=axis,
    )
    for slab in regrid(slabs, source=(i, j, k), target=target, axis=axis):
        here = (places[axis] >= slab.start) & (places[axis] < slab.stop)
        at = [place[here] - (slab.start if one == axis else 0) for one, place in enumerate(places)]
        parts[:, here] = slab.maps.cpu()[:, at[0], at[1], at[2]]
    return parts.view(members, classes, -1)


def find_shifts(logs: Float[Tensor, "N C V"], labels: Int[Tensor, " V"]) -> Float[Tensor, " C"]:
    """What to add to each class's scores so that the networks' mean gives each as many voxels as
    `labels` has, within `MOST`; 0 for background, and for a class that is drawn or found nowhere.
    """
    classes = logs.shape[1]
    wanted = torch.bincount(labels, minlength=classes)
    shifts = torch.zeros(classes)

    def found(value: int) -> int:
        chosen = (logs + shifts[:, None]).softmax(dim=1).mean(dim=0).argmax(dim=0)
        return int((chosen == value).sum())

    known = [value for value in range(1, classes) if wanted[value] and found(value)]
    for _ in range(_ROUNDS):
        for value in known:
            low, high = -MOST, MOST
            for _ in range(_HALVINGS):
                shifts[value] = middle = (low + high) / 2
                low, high = (middle, high) if found(value) < wanted[value] else (low, middle)
    return shifts


def move_scores(network: nn.Module, shifts: Float[Tensor, " C"]) -> None:
    """Add to the biases of the last layer; outputs beyond the classes stay as they are."""
    last = [module for module in network.modules() if isinstance(module, Scores)][-1]
    assert last.bias is not None
    last.bias[: len(shifts)] += shifts.to(last.bias.device)
