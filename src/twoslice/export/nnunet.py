"""Labels as an nnU-Net dataset: propagated or predicted, with `ignore` where they are not trusted.

imagesTr/CASE_0000.nii.gz    the scans, a file a channel
labelsTr/CASE.nii.gz         their labels
dataset.json                 with `ignore`, unless every voxel is trusted

Trust runs from 0 to 1, and what was drawn has 1. A propagated voxel is doubted as far as the planes
disagree about it and no drawn slice is near: 1 − disagreement · (1 − α ** distance); with a single
plane there is nothing to disagree with, and trust is α ** distance. α is what the self-check of the
propagation measured. A predicted voxel's trust is 1 − entropy over ln(classes).
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.reading import DenseLabelError, read_annotation
from twoslice.errors import DatasetError, InputError
from twoslice.evaluation.evaluate import label_files
from twoslice.io import atomic
from twoslice.io.dataset import Dataset, write_description
from twoslice.io.find import find_scans
from twoslice.io.grid import Grid
from twoslice.io.scans import (
    read_channels,
    read_grid,
    read_label_map,
    read_scan,
    write_image,
    write_labels,
)
from twoslice.progress import Progress
from twoslice.propagation.quality import PAPER_DECAY
from twoslice.propagation.views import FOLDER, FUSED, read_record, read_views, view_path

Labels = NDArray[np.uint8]
Trust = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class TrustedLabels:
    """One case: its scan's files, and on the RAS grid its labels and how far each is trusted."""

    case: str
    files: Sequence[Path]
    labels: Labels
    trust: Trust


def write_nnunet(
    dataset: Dataset,
    out: Path,
    *,
    predictions: Path | None,
    scans: Sequence[Path],
    least: float,
    progress: Progress,
) -> str:
    """Write the dataset; labels with a trust below `least` become `ignore`. Says what was made."""
    found = _predicted_files(dataset, predictions, scans) if predictions else {}
    cases = sorted(found) or list(dataset.labeled)
    if not cases:
        raise DatasetError(f"{dataset.root}: no case has labels. Draw slices in a few scans first.")
    ignore = dataset.classes
    ignored, voxels = 0, 0
    with atomic.whole_folder(out) as folder, progress.task("exporting", len(cases)) as task:
        for case in cases:
            each = _read(dataset, case, found.get(case), trusting=least == 0)
            doubted = each.trust < least
            labels = np.where(doubted, ignore, each.labels).astype(np.uint8)
            _write_case(folder, each, labels)
            ignored, voxels = ignored + int(doubted.sum()), voxels + doubted.size
            task.advance(note=each.case)
        write_description(
            folder,
            name=dataset.name,
            channel_names=dataset.channel_names,
            labels=dataset.labels,
            ignore=ignore if least > 0 else None,
        )
    return f"{len(cases)} cases, {100 * ignored / voxels:.1f} % of their voxels ignored"


def _read(
    dataset: Dataset, case: str, found: tuple[Path, Sequence[Path]] | None, *, trusting: bool
) -> TrustedLabels:
    if found is None:
        labels, trust = propagated(dataset, case)
        return TrustedLabels(case, dataset.case(case).images, labels, trust)
    path, files = found
    labels, trust = predicted(dataset, case, path, read_grid(files[0]), trusting=trusting)
    return TrustedLabels(case, files, labels, trust)


def propagated(dataset: Dataset, case: str) -> tuple[Labels, Trust]:
    """The fused view of a case, and how far each voxel of it is trusted."""
    views = read_views(dataset, case)
    record = read_record(dataset.root / FOLDER, case)
    planes = [view for name, view in views.items() if name != FUSED]
    measured = record.get("quality", {}).get("views", {})
    near = np.zeros(planes[0].label.shape, np.float32)
    for view in planes:
        decay = measured.get(view.name, {}).get("decay") or PAPER_DECAY
        np.maximum(near, np.float32(decay) ** view.distance, out=near)
    fused = views.get(FUSED, planes[0])
    if len(planes) == 1:
        return fused.label, near
    path = view_path(dataset.root / FOLDER, case, "disagreement")
    if path.is_file():
        apart = read_label_map(path).data.astype(np.float32) / 100
    else:
        apart = (planes[0].label != planes[1].label).astype(np.float32)
    trust: Trust = (1 - apart * (1 - near)).astype(np.float32)
    return fused.label, trust


def predicted(
    dataset: Dataset, case: str, path: Path, grid: Grid, *, trusting: bool = False
) -> tuple[Labels, Trust]:
    """A predicted label map and its trust (1 throughout if `trusting`); what was drawn in the case
    takes its place.
    """
    found = read_label_map(path)
    if not found.grid.same_as(grid):
        raise InputError(
            f"{path}: lies on another grid than its scan ({found.grid.against(grid)}). Predict "
            f"the scan again."
        )
    strange = sorted(set(np.unique(found.data).tolist()) - set(dataset.labels.values()))
    if strange:
        raise InputError(
            f"{path}: holds labels {strange}, which {dataset.root / 'dataset.json'} does not name. "
            f"Name the folder that predict made."
        )
    labels = found.data.astype(np.uint8)
    trust = np.ones(labels.shape, np.float32) if trusting else _certainty(path, case)
    if case in dataset.labeled:
        drawn, truth = _drawn(dataset, case)
        labels[drawn], trust[drawn] = truth[drawn], 1
    return labels, trust


def _drawn(dataset: Dataset, case: str) -> tuple[NDArray[np.bool_], NDArray[np.integer]]:
    """Which voxels of a case somebody drew, and as what: a few slices, or the whole volume."""
    try:
        annotation = read_annotation(dataset, case)
    except DenseLabelError:
        whole = dataset.read_labels(case).data
        return np.asarray(whole != dataset.ignore), whole
    return annotation.drawn(), annotation.label_map(elsewhere=0)


def _certainty(path: Path, case: str) -> Trust:
    entropy = path.parent / "uncertainty" / f"{case}_entropy.nii.gz"
    if not entropy.is_file():
        raise InputError(
            f"{entropy}: is missing, and trust is taken from it. Predict with --uncertainty, or "
            f"take every voxel with --trust 0."
        )
    certainty: Trust = 1 - read_scan(entropy).data[0]
    return certainty


def _predicted_files(
    dataset: Dataset, predictions: Path, scans: Sequence[Path]
) -> dict[str, tuple[Path, Sequence[Path]]]:
    """For every label map its file and those of its scan."""
    known: dict[str, Sequence[Path]] = {
        name: case.images for name, case in [*dataset.cases.items(), *dataset.test_cases.items()]
    }
    if scans:
        known |= {found.case: found.paths for found in find_scans(scans)}
    maps = label_files(predictions)
    missing = sorted(set(maps) - set(known))
    if missing:
        raise InputError(
            f"{predictions}: no scan of {', '.join(missing[:3])} in {dataset.root}. Name the "
            f"predicted scans with --scans."
        )
    return {case: (path, known[case]) for case, path in maps.items()}


def _write_case(folder: Path, each: TrustedLabels, labels: Labels) -> None:
    grid = read_grid(each.files[0])
    if all(path.name.endswith(".nii.gz") for path in each.files):
        (folder / "imagesTr").mkdir(exist_ok=True)
        for index, path in enumerate(each.files):
            shutil.copyfile(path, folder / "imagesTr" / f"{each.case}_{index:04d}.nii.gz")
    else:
        for index, channel in enumerate(read_channels(each.files).data):
            write_image(folder / "imagesTr" / f"{each.case}_{index:04d}.nii.gz", channel, grid)
    write_labels(folder / "labelsTr" / f"{each.case}.nii.gz", labels, grid)
