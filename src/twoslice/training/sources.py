"""From a dataset folder to a source of patches: which labels, which scans, from where."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.reading import DenseLabelError, read_annotation
from twoslice.errors import AnnotationError, DatasetError, ScanError
from twoslice.io.cache import VolumeCache
from twoslice.io.dataset import Dataset
from twoslice.memory import PROGRAM_BYTES, memory_bound, refuse_beyond_bound
from twoslice.methods.base import LabelSource, Method
from twoslice.objectives.weights import NEVER
from twoslice.progress import Progress
from twoslice.propagation.views import FOLDER, FUSED, read_views
from twoslice.settings import Settings
from twoslice.training.augment import Augmentation, quarter_turns, rich
from twoslice.training.patches import LabeledScan, PatchSource, label_scan
from twoslice.training.planner import Plan
from twoslice.training.recipes import find_recipe
from twoslice.training.volumes import HIGH, LOW, prepare_image, resample_view, shape_at

View = tuple[NDArray[np.uint8], NDArray[np.int16]]
_MOST_MAPPED = 512 * 2**20
"""Of prepared scans in memory at a time; an eighth of the bound, where one is set."""


def open_source(
    dataset: Dataset,
    plan: Plan,
    settings: Settings,
    method: type[Method],
    *,
    folder: Path,
    progress: Progress,
) -> PatchSource:
    """Read the labels, prepare the scans into the cache, and put the patch source together."""
    training = settings.training
    labeled = _alike(
        [read_labeled_scan(dataset, case, plan, method, settings) for case in _drawn(dataset)]
    )
    held = sum(scan.views.nbytes for scan in labeled)
    cache = image_cache(dataset, plan, folder, held=held)
    unlabeled: list[str] = []
    sizes = method.batch_sizes(settings)
    if sizes[1]:
        unlabeled = [*dataset.unlabeled] or [scan.name for scan in labeled]
    _fill(cache, [*dict.fromkeys([*(scan.name for scan in labeled), *unlabeled])], progress)
    return PatchSource(
        labeled=labeled,
        unlabeled=unlabeled,
        open_image=cache.get,
        patch=plan.patch,
        voxel=plan.voxel,
        augmentation=augmentation_of(settings),
        sizes=sizes,
        foreground_share=training.foreground_share,
        seed=training.seed,
    )


def augmentation_of(settings: Settings) -> Augmentation:
    """The recipe's augmentation, with `training.flips` where it is set."""
    flips = settings.training.flips
    if find_recipe(settings.training.recipe).augmentation == "rich":
        return rich(flips=bool(flips))
    turns = quarter_turns()
    return turns if flips in (None, True) else Augmentation(quarter_turns=True)


def image_cache(dataset: Dataset, plan: Plan, folder: Path, *, held: int = 0) -> VolumeCache:
    """Prepared images, kept with the dataset so that runs share them; in `folder` if it must.
    `held` bytes are in memory beside them, and count where a bound was set.
    """
    shared = dataset.root / "preprocessed"
    writable = os.access(shared if shared.is_dir() else dataset.root, os.W_OK)

    def prepare(case: str) -> NDArray[np.float32]:
        grid = dataset.read_grid(case).ras
        voxels = 2 * np.prod(grid.shape) + np.prod(shape_at(grid.shape, grid.spacing, plan.spacing))
        needed = PROGRAM_BYTES + held + 4 * len(dataset.channel_names) * int(voxels)
        refuse_beyond_bound(needed, f"case {case}: to prepare it")
        volume = dataset.read_image(case)
        try:
            return prepare_image(volume.data, volume.spacing, plan.spacing)
        except ScanError as error:
            raise ScanError(f"{dataset.case(case).images[0]}: {error}") from None

    return VolumeCache(
        shared if writable else folder / "preprocessed",
        prepare=prepare,
        sources=lambda case: dataset.case(case).images,
        settings={"percentiles": [LOW, HIGH], "spacing": plan.spacing},
        keep_open=64,
        keep_bytes=min(_MOST_MAPPED, (memory_bound() or 8 * _MOST_MAPPED) // 8),
    )


def read_labeled_scan(
    dataset: Dataset, case: str, plan: Plan, method: type[Method], settings: Settings
) -> LabeledScan:
    """The views of one case that the method asks for, on the planned grid."""
    source = method.label_source(settings)
    views = _READERS[source](dataset, case)
    needed = method.planes_needed(settings)
    if len(views) < needed:
        raise AnnotationError(
            f"case {case}: was drawn in one plane only, but the method '{settings.method}' "
            f"learns from {needed}, a network each. Draw a slice in a second plane and run "
            f"'twoslice propagate' again, or train with --method supervised."
        )
    grid = dataset.read_grid(case).ras
    shape = shape_at(grid.shape, grid.spacing, plan.spacing)
    return label_scan(case, [resample_view(*view, shape) for view in views])


def read_drawn(dataset: Dataset, case: str) -> list[View]:
    """One view that knows the drawn slices and nothing else."""
    annotation = read_annotation(dataset, case)
    return [(annotation.label_map(elsewhere=0), _known(annotation.drawn()))]


def read_planes(dataset: Dataset, case: str) -> list[View]:
    """The label view of each drawn plane, as `twoslice propagate` left them."""
    return [view for name, view in _propagated(dataset, case).items() if name != FUSED]


def read_fused(dataset: Dataset, case: str) -> list[View]:
    """The view that joins the planes, then theirs; a scan drawn in one plane has that alone."""
    views = _propagated(dataset, case)
    return [views[name] for name in sorted(views, key=lambda name: name != FUSED)]


def _propagated(dataset: Dataset, case: str) -> dict[str, View]:
    if not (dataset.root / FOLDER).is_dir():
        raise DatasetError(
            f"{dataset.root}: has no label views yet. Run 'twoslice propagate {dataset.root}' "
            f"first, or train on the drawn slices alone with --set training.setting=sparse."
        )
    views = read_views(dataset, case)
    return {name: (view.label, view.distance) for name, view in views.items()}


def read_volume(dataset: Dataset, case: str) -> list[View]:
    """One view that knows every voxel of a fully drawn volume, but for those marked `ignore`."""
    labels = dataset.read_labels(case).data
    known = np.ones(labels.shape, bool) if dataset.ignore is None else labels != dataset.ignore
    if known.all() or 2 * known.sum() < known.size:
        _refuse_few_slices(dataset, case)
    label = np.where(known, labels, 0).astype(np.uint8)
    return [(label, _known(known))]


def _known(voxels: NDArray[np.bool_]) -> NDArray[np.int16]:
    """Distance 0 at these voxels, and none elsewhere; in 16 bits from the start, since 64 would be
    more than all the rest of a long scan.
    """
    return np.where(voxels, np.int16(0), np.int16(NEVER))


def _refuse_few_slices(dataset: Dataset, case: str) -> None:
    """Where a few slices were drawn, the rest of the file would teach background."""
    try:
        drawn = read_annotation(dataset, case).slices
    except DenseLabelError:
        return
    raise AnnotationError(
        f"case {case}: its label holds {len(drawn)} drawn slice(s), but training.setting=full "
        f"learns from fully drawn volumes. Draw the others, or leave the setting out."
    )


_READERS: dict[LabelSource, Callable[[Dataset, str], list[View]]] = {
    "drawn": read_drawn,
    "planes": read_planes,
    "fused": read_fused,
    "volumes": read_volume,
}


def _alike(scans: list[LabeledScan]) -> list[LabeledScan]:
    """As many views for every scan as the one with the fewest planes has: batches need that."""
    fewest = min(len(scan.views) for scan in scans)
    return [replace(scan, views=scan.views[:fewest]) for scan in scans]


def _drawn(dataset: Dataset) -> tuple[str, ...]:
    if not dataset.labeled:
        raise DatasetError(
            f"{dataset.root}: no case has labels in labelsTr. Draw two slices in a few scans "
            f"first, in ITK-SNAP, 3D Slicer or napari (see docs/guide.md)."
        )
    return dataset.labeled


def _fill(cache: VolumeCache, cases: list[str], progress: Progress) -> None:
    """Prepare what is not there yet, so that the first round of training is not the slow one."""
    missing = [case for case in cases if not cache.has(case)]
    if not missing:
        return
    with progress.task("preparing", len(missing)) as task:
        for case in missing:
            cache.build(case)
            task.advance(note=case)
