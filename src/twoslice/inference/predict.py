"""Predict any folder or files of scans: `OUT/CASE.nii.gz`, each on exactly its scan's grid.

OUT/CASE.nii.gz                          the label map, the labels' names in its header
OUT/probabilities/CASE_0001.nii.gz       one file a class, if asked
OUT/uncertainty/CASE_entropy.nii.gz      and CASE_disagreement.nii.gz, if asked
OUT/dataset.json, labels.txt, .ctbl      the labels' names for nnU-Net, ITK-SNAP and 3D Slicer
OUT/predictions.json                     which run made them, how, from what, and what failed

While one scan is predicted, the next is read and the one before is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoslice.errors import InputError, PartialError, ScanError
from twoslice.inference.inputs import find_inputs, refuse_useless_series
from twoslice.inference.manifest import Manifest
from twoslice.inference.maps import MapStore
from twoslice.inference.published import open_model
from twoslice.inference.volume import Piece, Predictor, refuse_channels
from twoslice.io.description import write_description
from twoslice.io.find import FoundScan
from twoslice.io.grid import Grid
from twoslice.io.label_table import write_label_files
from twoslice.io.scans import read_channels, read_grid, write_image, write_labels
from twoslice.io.volume import Volume
from twoslice.progress import Progress, Silent
from twoslice.settings import InferenceSettings
from twoslice.training.run import Run

_SMALL_VOXELS = 40_000_000
"""Two scans of up to this size may be in memory at once, and a result with them."""


@dataclass(frozen=True)
class PredictionSummary:
    """What was asked: cases predicted now, those that were there already, and those that failed."""

    out: Path
    predicted: tuple[str, ...]
    already: tuple[str, ...]
    failed: dict[str, str]


@dataclass(frozen=True)
class Wanted:
    """What is written for each case beside its label map, and which DICOM series is read."""

    out: Path
    class_names: tuple[str, ...]
    probabilities: bool = False
    uncertainty: bool = False
    series: str | None = None

    def labels(self, case: str) -> Path:
        """The label map of a case."""
        return self.out / f"{case}.nii.gz"

    def maps(self, case: str) -> list[Path]:
        """Its other files: a probability a class, then entropy and disagreement."""
        files: list[Path] = []
        if self.probabilities:
            folder = self.out / "probabilities"
            files += [folder / f"{case}_{i:04d}.nii.gz" for i in range(len(self.class_names))]
        if self.uncertainty:
            folder = self.out / "uncertainty"
            files += [folder / f"{case}_{kind}.nii.gz" for kind in ("entropy", "disagreement")]
        return files

    def files(self, case: str) -> list[Path]:
        """All of them; the label map last: a case that has it has the others too."""
        return [*self.maps(case), self.labels(case)]


def predict(
    run: Path,
    inputs: Sequence[Path],
    out: Path,
    *,
    probabilities: bool = False,
    uncertainty: bool = False,
    series: str | None = None,
    options: InferenceSettings | None = None,
    changes: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PredictionSummary:
    """Predict every scan in `inputs` with a run folder, or with a published V-Net's `.pth` file.

    A scan that cannot be read is named and left out, the rest is done, and a PartialError then
    says how many failed; finished ones are not made again, unless `overwrite` says so. `series`
    names one of several DICOM series in a folder; `options` stand in for the run's own, and
    `changes` change some of them by name.
    """
    progress = progress or Silent()
    opened = open_model(run)
    scans = find_inputs(inputs, out, progress)
    refuse_useless_series(scans, series)
    _refuse_if_none_fits(opened, scans)
    chosen = (options or opened.settings.inference).model_copy(update=dict(changes or {}))
    predictor = Predictor(opened, options=chosen)  # a fault in it shows before anything is written
    manifest = Manifest.claim(out, opened, chosen, series, overwrite=overwrite)
    wanted = Wanted(out, opened.data.class_names, probabilities, uncertainty, series)
    _describe(opened, wanted)
    todo = [scan for scan in scans if not manifest.finished(scan, wanted.files(scan.case))]
    already = {scan.case for scan in scans} - {scan.case for scan in todo}
    with progress.task("predicting", len(scans)) as task:
        task.advance(len(already))
        for scan, fault in _predict_all(predictor, todo, wanted):
            if fault is None:
                manifest.add(scan, wanted.files(scan.case))
            else:
                manifest.fail(scan.case, fault)
                progress.say(f"left out {scan.case}: {fault}")
            task.advance(note=scan.case)
    failed = manifest.failed
    if failed:
        raise PartialError(_tell(failed, len(scans), out))
    return PredictionSummary(out, tuple(s.case for s in todo), tuple(sorted(already)), failed)


def _tell(failed: dict[str, str], total: int, out: Path) -> str:
    return (
        f"{len(failed)} of {total} scan(s) could not be predicted ({', '.join(sorted(failed))}); "
        f"the other {total - len(failed)} are in {out}. First fault: {next(iter(failed.values()))}"
    )


def _refuse_if_none_fits(run: Run, scans: Sequence[FoundScan]) -> None:
    """If no scan has the run's channels, it is the wrong run or folder: say so, write nothing."""
    if all(len(scan.paths) != len(run.data.channel_names) for scan in scans):
        named = ", ".join(map(str, scans[0].paths))
        refuse_channels(run, len(scans[0].paths), named)


def _describe(run: Run, wanted: Wanted) -> None:
    """The labels' names beside the maps, for the programs that read them from a file."""
    write_description(
        wanted.out,
        name=run.data.name,
        channel_names=run.data.channel_names,
        labels=run.data.labels,
        ignore=None,
    )
    write_label_files(wanted.out, wanted.class_names)


def _predict_all(
    predictor: Predictor, scans: Sequence[FoundScan], wanted: Wanted
) -> Iterator[tuple[FoundScan, str | None]]:
    """Each scan when its files are written, or with its fault in one line."""
    pending: tuple[FoundScan, Future[None]] | None = None
    with ThreadPoolExecutor(1, "writer") as writer:
        for scan, volume in _read_ahead(scans, wanted.series):
            fault = str(volume) if isinstance(volume, InputError) else None
            if isinstance(volume, Volume):
                try:
                    labels, maps = _predict_one(predictor, volume, scan, wanted)
                except InputError as error:
                    path = str(scan.paths[0])
                    fault = str(error) if path in str(error) else f"{path}: {error}"
                grid = volume.grid
            if pending is not None:  # at most one result waits for the disk
                pending[1].result()
                yield pending[0], None
                pending = None
            if fault is not None:
                yield scan, fault
                continue
            pending = scan, writer.submit(_write, labels, maps, grid, scan.case, wanted)
            if labels.size > _SMALL_VOXELS:
                pending[1].result()
        if pending is not None:
            pending[1].result()
            yield pending[0], None


def _read_ahead(
    scans: Sequence[FoundScan], series: str | None
) -> Iterator[tuple[FoundScan, Volume | InputError]]:
    """The scans in order, the next one read while the caller works, unless it is very large."""
    with ThreadPoolExecutor(1, "reader") as reader:
        ahead: Future[Volume | InputError] | None = None
        for index, scan in enumerate(scans):
            volume = ahead.result() if ahead is not None else _read(scan, series)
            ahead = None
            if index + 1 < len(scans) and _is_small(scan) and _is_small(scans[index + 1]):
                ahead = reader.submit(_read, scans[index + 1], series)
            yield scan, volume
            del volume


def _read(scan: FoundScan, series: str | None) -> Volume | InputError:
    try:
        return read_channels(scan.paths, series=series)
    except InputError as error:
        return error
    except MemoryError:
        return _too_large(scan)


def _is_small(scan: FoundScan) -> bool:
    voxels = 0
    try:
        for path in scan.paths:
            if path.is_dir():  # DICOM: two bytes a voxel, or compressed and fewer
                voxels += sum(file.stat().st_size for file in path.iterdir()) // 2
            else:
                voxels += int(np.prod(read_grid(path).shape))
    except (InputError, OSError):  # reading it will say what is wrong
        return True
    return voxels <= _SMALL_VOXELS


def _predict_one(
    predictor: Predictor, volume: Volume, scan: FoundScan, wanted: Wanted
) -> tuple[NDArray[np.uint8], MapStore]:
    """The label map in memory, the other maps on disk as far as they are wanted."""
    labels = np.empty(volume.shape, np.uint8)
    maps = MapStore(wanted.out)
    name = ", ".join(map(str, scan.paths))
    try:
        for piece in predictor.pieces(volume, uncertainty=wanted.uncertainty, name=name):
            labels[piece.where] = piece.probabilities.argmax(axis=0)
            targets = wanted.maps(scan.case)
            for target, slices in zip(targets, _wanted_maps(piece, wanted), strict=True):
                maps.append(target, slices, piece.axis)
        return predictor.finish(labels), maps
    except BaseException as error:
        maps.close()
        if _is_out_of_memory(error):
            raise _too_large(scan) from error
        raise


def _wanted_maps(piece: Piece, wanted: Wanted) -> list[NDArray[np.float32]]:
    maps = list(piece.probabilities) if wanted.probabilities else []
    if piece.entropy is not None and piece.disagreement is not None:
        maps += [piece.entropy, piece.disagreement]
    return maps


def _write(
    labels: NDArray[np.uint8], maps: MapStore, grid: Grid, case: str, wanted: Wanted
) -> None:
    """The label map last: a case that has one has all that was asked for."""
    i, j, k = labels.shape
    try:
        for target in maps.targets:
            write_image(target, maps.read(target, (i, j, k)), grid)
        write_labels(wanted.labels(case), labels, grid, names=wanted.class_names)
    finally:
        maps.close()


def _is_out_of_memory(error: BaseException) -> bool:
    """numpy raises a MemoryError; PyTorch on a CPU only says so in words."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and "memory" in str(error).lower()


def _too_large(scan: FoundScan) -> ScanError:
    return ScanError(
        f"{scan.paths[0]}: there is not enough memory for it. Close other programs, or try "
        f"--window patch."
    )
