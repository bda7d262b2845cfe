"""`twoslice import`: scans of any supported format into one dataset folder.

Each scan becomes `imagesTr/CASE_0000.nii.gz` (a dataset's imagesTs stays imagesTs), on the grid it
came on; a .nii.gz file is copied as it is. Labels come from label files named as the cases, from a
dataset's own labelsTr, and from the `label` inside an .h5 file, unless they are left out. Nothing
is there until all of it is: one scan that cannot be read stops the import and leaves no folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoslice.errors import AnnotationError, DatasetError, SettingsError
from twoslice.io import atomic, dicom, nifti
from twoslice.io.dataset import Dataset, write_description
from twoslice.io.find import FoundScan, find_scans
from twoslice.io.h5 import Spacing
from twoslice.io.label_names import LabelNames, label_names_for
from twoslice.io.label_sources import LabelSources
from twoslice.io.scans import (
    Format,
    format_of,
    read_channels,
    read_label_map,
    write_image,
    write_labels,
)
from twoslice.io.volume import Volume
from twoslice.progress import Progress, Silent

ENDING = ".nii.gz"


@dataclass(frozen=True)
class _Import:
    """One scan to bring in."""

    scan: FoundScan
    labels: Mapping[str, Path]
    part: str
    series: str | None
    spacing: Spacing | None

    def read(self) -> Volume:
        return read_channels(self.scan.paths, series=self.series, spacing=self.spacing)


def import_scans(
    sources: Sequence[Path],
    out: Path,
    *,
    labels: Path | Sequence[Path] | None = None,
    with_labels: bool = True,
    label_names: Sequence[str] | None = None,
    channel_names: Sequence[str] | None = None,
    name: str | None = None,
    series: str | None = None,
    spacing: Spacing | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Make the dataset folder `out` from files and folders of scans.

    `labels` are label files named as the cases, or folders of them; `with_labels=False` leaves all
    labels out. `label_names` name the values 1, 2, … (the last may be `ignore`);
    `series` chooses among DICOM series; `spacing` (mm) is for .h5 files, which have none.
    """
    scans = find_scans(sources)
    _refuse_other_channels(scans)
    _refuse_useless_options(scans, series, spacing)
    cases = [scan.case for scan in scans]
    wanted = LabelSources(labels, cases=cases, datasets=sources, with_labels=with_labels)
    imports = _plan(scans, wanted, series, spacing)
    with atomic.whole_folder(out) as folder:
        values: dict[int, Path] = {}
        with (progress or Silent()).task("import", total=len(imports)) as task:
            for each in imports:
                values = _write_case(folder, each) | values
                task.advance(note=each.scan.case)
        some_unlabeled = any(not each.labels for each in imports if each.part == "Tr")
        names = label_names_for(sources, label_names, values, some_unlabeled=some_unlabeled)
        write_description(
            folder,
            name=name or out.resolve().name,
            channel_names=_channel_names(imports, names, channel_names),
            labels=names.labels,
            ignore=names.ignore,
            file_ending=ENDING,
        )
    return Dataset.open(out)


def _plan(
    scans: Sequence[FoundScan],
    labels: LabelSources,
    series: str | None,
    spacing: Spacing | None,
) -> list[_Import]:
    imports = []
    for scan in scans:
        test = scan.paths[0].parent.name == "imagesTs"
        imports.append(_Import(scan, labels.of(scan), "Ts" if test else "Tr", series, spacing))
    labels.refuse_unused()
    if not any(each.part == "Tr" for each in imports):
        raise DatasetError(
            f"{scans[0].paths[0].parent}: holds test scans alone. Name the folder with imagesTr."
        )
    return imports


def _write_case(folder: Path, each: _Import) -> dict[int, Path]:
    """Write one case's images and labels; give back the values that its label files hold."""
    case, paths = each.scan
    volume = each.read()
    for channel, path in enumerate(paths):
        target = folder / f"images{each.part}" / f"{case}_{channel:04d}{ENDING}"
        if path.name.endswith(ENDING) and nifti.is_three_dimensional(path):
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, target)
        else:
            write_image(target, compact(volume.data[channel]), volume.grid)
    values: dict[int, Path] = {}
    for name, path in each.labels.items():
        labels = read_label_map(path, spacing=each.spacing)
        # The axis order may differ (some tools turn it): what counts is where each voxel lies.
        if not labels.grid.ras.same_as(volume.grid.ras):
            raise AnnotationError(
                f"{path}: lies on another grid than its image "
                f"({labels.grid.ras.against(volume.grid.ras)}, in RAS order). "
                f"Export the label on the image's own grid."
            )
        write_labels(folder / f"labels{each.part}" / f"{name}{ENDING}", labels.data, volume.grid)
        values |= {int(value): path for value in np.unique(labels.data)}
    return values


def compact(data: NDArray[np.float32]) -> NDArray[np.float32] | NDArray[np.int16]:
    """Whole numbers that fit as int16, half the size and just as exact (CT, most MRI)."""
    limits = np.iinfo(np.int16)
    if data.min() < limits.min or data.max() > limits.max or (data != np.rint(data)).any():
        return data
    return data.astype(np.int16)


def _refuse_useless_options(
    scans: Sequence[FoundScan], series: str | None, spacing: Spacing | None
) -> None:
    kinds = {format_of(path) for scan in scans for path in scan.paths}
    if series is not None and Format.DICOM not in kinds:
        raise SettingsError("--series is for DICOM folders, and none was named. Leave it out.")
    if spacing is None:
        return
    if not all(np.isfinite(side) and side > 0 for side in spacing):
        raise SettingsError(f"--spacing {spacing}: expected three millimetres above 0.")
    if kinds != {Format.H5}:
        raise SettingsError(
            "--spacing is for .h5 files, which hold none; the other formats say their own. Leave "
            "it out, or import the .h5 files alone."
        )


def _refuse_other_channels(scans: Sequence[FoundScan]) -> None:
    most = max(scans, key=lambda scan: len(scan.paths))
    for scan in scans:
        has = len(scan.paths)
        if has < len(most.paths):
            raise DatasetError(
                f"{scan.paths[0]}: case {scan.case} lacks channel {has:04d}: it has {has} "
                f"channel(s), but {most.case} has {len(most.paths)}. Every case needs the same "
                f"channels: add the missing file, or leave this case out."
            )


def _channel_names(
    imports: Sequence[_Import],
    names: LabelNames,
    wanted: Sequence[str] | None,
) -> tuple[str, ...]:
    """The user's names, the source dataset's, or what the files say of themselves."""
    count = len(imports[0].scan.paths)
    if wanted is not None:
        if len(wanted) != count:
            raise SettingsError(
                f"{len(wanted)} channel name(s) given for {count} channel(s). Name each one once."
            )
        return tuple(wanted)
    if len(names.channels) == count:
        return names.channels
    if count == 1:
        # nnU-Net treats a channel called CT in a way of its own, so the modality is worth keeping.
        folders = [each.scan.paths[0] for each in imports]
        if all(format_of(path) is Format.DICOM for path in folders):
            kinds = {dicom.modality(path, series=imports[0].series) for path in folders}
            if len(kinds) == 1 and (kind := kinds.pop()):
                return (kind,)
        return ("image",)
    return tuple(f"image {index}" for index in range(count))
