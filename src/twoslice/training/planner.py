"""The planner: looks at the scans and chooses spacing, patch and network, and says why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from twoslice.errors import SettingsError
from twoslice.io.dataset import Dataset
from twoslice.methods.registry import find_method
from twoslice.networks.build import NetworkPlan
from twoslice.networks.padding import Triple
from twoslice.settings import Settings
from twoslice.training.recipes import Recipe, find_recipe
from twoslice.training.volumes import shape_at

Spacing = tuple[float, float, float]
Side = tuple[int, int, int]

_CPU_VOXELS = 40_000
_GPU_VOXELS = 1_000_000
_FAR_LARGER = 2.0  # a scan of more than this many patches is worth coarser voxels
_COARSEST = 2.0  # but never coarser than this times the finest side of its own voxels
_MOST_SCANS = 200
_ANY_PATCH = 128  # sides up to this are taken whatever the scans: the paper's patch must be
_MOST_VOXELS = 2**31  # of one scan: 8 GiB, far beyond any scanner's
_DRAWN_SHARE = 2 / 3  # of a scan's side, at most, where only drawn slices teach
_SAME = 0.05  # spacings that differ by less than this share are not worth resampling


class Plan(BaseModel):
    """What the planner chose; saved as `plan.json` in the run folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spacing: Spacing | None
    """Millimetres that every scan is brought to; None: each scan stays on its own grid."""
    voxel: Spacing
    """Millimetres of the voxels that the network sees."""
    patch: Side
    iterations: int
    """How long to train, unless by the clock."""
    network: NetworkPlan
    why: str


def make_plan(dataset: Dataset, settings: Settings, *, gpu: bool = False) -> Plan:
    """Choose for this dataset; a setting that is given wins over the planner's choice."""
    recipe, method = find_recipe(settings.training.recipe), find_method(settings.method)
    grids = [dataset.read_grid(name).ras for name in _some(sorted(dataset.cases))]
    spacings = np.array([grid.spacing for grid in grids])
    own = _spacing(np.median(spacings, axis=0))
    alike = bool((np.abs(spacings / np.array(own) - 1) <= _SAME).all())
    extents = np.median(np.array([grid.shape for grid in grids]) * spacings, axis=0)
    budget = _GPU_VOXELS if gpu else round(method.room * _CPU_VOXELS)
    large = np.prod(extents / np.array(own)) > _FAR_LARGER * budget
    share = method.share if large else 1.0
    if large and settings.training.setting == "sparse":
        share = min(share, _DRAWN_SHARE)
    coarse = own if recipe.own_grid else coarsen(extents, own, budget=budget, share=share)
    chosen = None if alike and coarse == own else coarse
    target = settings.training.spacing or chosen
    voxel = target or own
    shape = (extents / np.array(voxel)).round().astype(int)
    patch = settings.training.patch or fit_patch(shape, voxel, budget=budget, share=share)
    largest = np.max([shape_at(grid.shape, grid.spacing, target) for grid in grids], axis=0)
    _refuse_fine_spacing(target, largest)
    _refuse_huge_patch(patch, largest)
    _refuse_tiny_patch(patch, recipe, method.batch_sizes(settings)[0])
    strides, kernels = choose_levels(voxel, patch)
    network = NetworkPlan(
        kind=recipe.network,
        channels=len(dataset.channel_names),
        classes=dataset.classes,
        filters=settings.network.filters or (recipe.filters_gpu if gpu else recipe.filters),
        dropout=recipe.dropout,
        normalisation=recipe.normalisation,
        strides=strides,
        kernels=kernels,
        size=patch,
    )
    shown = (target, voxel, shape, patch, network)
    small = float(np.clip(np.prod(shape) / budget, method.least, 1.0))
    usual = recipe.iterations_gpu if gpu else round(method.length * small * recipe.iterations)
    iterations = settings.training.iterations or usual
    why = _explain(grids_seen=len(grids), alike=alike, own=own, plan=shown)
    if settings.training.minutes is None:
        why += f" Training takes {iterations} iterations."
    return Plan(
        spacing=target,
        voxel=voxel,
        patch=patch,
        iterations=iterations,
        network=network,
        why=why,
    )


def coarsen(
    extents: NDArray[np.float64], own: Spacing, *, budget: int, share: float = 1.0
) -> Spacing:
    """Voxels at which a patch is about `share` of the typical scan's sides, if it is much less at
    the scan's own.

    The finest axes give way first: in a short training, coarse patches that show the whole target
    teach more than fine ones that show a corner of it.
    """
    budget = round(budget / share**3)
    if np.prod(extents / np.array(own)) <= _FAR_LARGER * budget:
        return own
    low, high = min(own), _COARSEST * min(own)
    for _ in range(30):
        middle = (low + high) / 2
        fits = np.prod(extents / np.maximum(own, middle)) <= budget
        low, high = (low, middle) if fits else (middle, high)
    return _spacing(np.maximum(own, high))


def _spacing(values: NDArray[np.float64]) -> Spacing:
    i, j, k = (round(float(value), 3) for value in values)
    return i, j, k


def fit_patch(
    shape: Sequence[int], spacing: Sequence[float], *, budget: int, share: float = 1.0
) -> Side:
    """The typical scan, its longest side (in mm) shortened until `budget` voxels are left; each
    side a multiple of 8, the one nearest to `share` of the scan's.

    Where only drawn slices teach, a patch as large as the scan shows them in one place, and little
    is learned about the rest. So large scans get patches of a share of their sides then; small ones
    do not, since on Hippocampus small patches were worse still (docs/LOG.md).
    """
    sides = [max(8, int(share * side / 8 + 0.5) * 8) for side in shape]
    while np.prod(sides) > budget:
        extent = [side * mm if side > 16 else 0.0 for side, mm in zip(sides, spacing, strict=True)]
        if not any(extent):
            break
        sides[int(np.argmax(extent))] -= 8
    return sides[0], sides[1], sides[2]


def choose_levels(
    spacing: Sequence[float], patch: Sequence[int]
) -> tuple[tuple[Triple, ...], tuple[Triple, ...]]:
    """Strides of up to four steps down, and the kernels of every level.

    An axis twice as coarse as the finest is neither halved nor convolved along until the others
    have caught up; an axis is halved while at least 4 voxels remain.
    """
    mm, sides = np.array(spacing, dtype=float), np.array(patch, dtype=float)
    strides: list[Triple] = []
    kernels = [_triple(np.where(mm < 2 * mm.min(), 3, 1))]
    while len(strides) < 4:
        halve = (mm < 2 * mm.min()) & (sides >= 8)
        if halve.sum() < 2 or (len(strides) >= 3 and sides.max() < 16):
            break
        step = np.where(halve, 2, 1)
        strides.append(_triple(step))
        mm, sides = mm * step, sides / step
        kernels.append(_triple(np.where(mm < 2 * mm.min(), 3, 1)))
    return tuple(strides), tuple(kernels)


def _triple(values: NDArray[np.int64]) -> Triple:
    return int(values[0]), int(values[1]), int(values[2])


def _refuse_tiny_patch(patch: Side, recipe: Recipe, labeled: int) -> None:
    """Batch norm needs two values: the V-Net's lowest level must keep more than one voxel."""
    voxels = int(np.prod([-(-side // 16) for side in patch]))
    if recipe.network == "vnet" and voxels * labeled < 2:
        raise SettingsError(
            f"training.patch = {' × '.join(map(str, patch))} is too small for the V-Net, which "
            f"halves it four times. Make one side at least 17, or use training.recipe=modern."
        )


def _refuse_huge_patch(patch: Side, largest: NDArray[np.int64]) -> None:
    """What lies outside a scan is made up; a patch that is mostly that only fills the memory."""
    if (np.array(patch) > np.maximum(2 * largest, _ANY_PATCH)).any():
        raise SettingsError(
            f"training.patch = {_times(patch)} is more than twice as long as any scan: the "
            f"largest scan has {_times(largest)} voxels. Make it smaller, or leave it out."
        )


def _refuse_fine_spacing(spacing: Spacing | None, largest: NDArray[np.int64]) -> None:
    if spacing is not None and np.prod(largest.astype(float)) > _MOST_VOXELS:
        raise SettingsError(
            f"training.spacing = {_times(spacing)} mm would give the largest scan "
            f"{_times(largest)} voxels. Make it coarser, or leave it out."
        )


def _times(sides: Iterable[float]) -> str:
    return " × ".join(f"{side:.7g}" for side in sides)


def _some(names: Sequence[str]) -> list[str]:
    """All names, or an even choice of them: headers of thousands of scans say little more."""
    if len(names) <= _MOST_SCANS:
        return list(names)
    picked = np.linspace(0, len(names) - 1, _MOST_SCANS).round().astype(int)
    return [names[index] for index in picked]


def _explain(
    *,
    grids_seen: int,
    alike: bool,
    own: Spacing,
    plan: tuple[Spacing | None, Spacing, NDArray[np.int64], Side, NetworkPlan],
) -> str:
    target, voxel, shape, patch, network = plan
    mm, typical = (" × ".join(f"{value:g}" for value in each) for each in (voxel, shape))
    finer = " × ".join(f"{value:g}" for value in own)
    if target is None:
        spacing = f"Voxels are {mm} mm in all of them, so scans keep their own grid."
    elif target == own and not alike:
        spacing = f"The spacing differs between them, so scans are brought to the usual {mm} mm."
    else:
        spacing = (
            f"Scans of {finer} mm are brought to {mm} mm, so that a patch shows more of a scan; "
            f"predictions go back to each scan's own grid."
        )
    kind = {"vnet": "V-Net", "unet": "U-Net"}[network.kind]
    return (
        f"Looked at {grids_seen} scans. {spacing} A typical scan then has {typical} voxels. "
        f"Patches of {' × '.join(map(str, patch))} voxels go into a {kind} with {network.filters} "
        f"filters, {network.channels} channel(s) in and {network.classes} classes out."
    )
