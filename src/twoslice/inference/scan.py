"""One scan of a prediction: read, through the networks, written. A job for any engine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from twoslice.errors import InputError, ScanError
from twoslice.inference.maps import MapStore
from twoslice.inference.published import open_model
from twoslice.inference.volume import Piece, Predictor
from twoslice.io.find import FoundScan
from twoslice.io.grid import Grid, Shape
from twoslice.io.scans import read_channels, read_grid, write_image, write_labels
from twoslice.memory import PROGRAM_BYTES, memory_bound, refuse_beyond_bound
from twoslice.settings import InferenceSettings

_SMALL_VOXELS = 40_000_000
"""Two scans of up to this size may be in memory at once, and a result with them."""
_SMALL_BYTES = 64
"""Of a voxel in such a pair, so that a bound on the memory says what is small."""


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


@dataclass(frozen=True, eq=False)
class ReadyScan:
    """A scan as the networks take it, and where its labels belong. Its own intensities are gone:
    the largest scans fit into memory twice, but not three times.
    """

    image: Tensor
    grid: Grid
    shape: Shape


def predict_scan(run: Path, options: InferenceSettings, scan: FoundScan, wanted: Wanted) -> None:
    """Predict one scan and write its maps; the networks stay loaded for the next one."""
    predictor = _loaded(run, options)
    ready = read_scan(predictor, scan, wanted.series)
    if isinstance(ready, InputError):
        raise ready
    labels, maps = predict_one(predictor, ready, scan, wanted)
    write_maps(labels, maps, ready.grid, scan.case, wanted)


@lru_cache(maxsize=1)
def _loaded(run: Path, options: InferenceSettings) -> Predictor:
    return Predictor(open_model(run), options=options)


def read_scan(predictor: Predictor, scan: FoundScan, series: str | None) -> ReadyScan | InputError:
    """The scan as the networks take it, or what is wrong with it."""
    try:
        _refuse_too_large(scan)
        volume = read_channels(scan.paths, series=series)
        return ReadyScan(predictor.prepare(volume, name=_named(scan)), volume.grid, volume.shape)
    except InputError as error:
        return error
    except MemoryError:
        return _too_large(scan)


def _refuse_too_large(scan: FoundScan) -> None:
    """The scan as it is and as the networks take it; then the former goes and its labels come."""
    if scan.paths[0].is_dir():  # DICOM: not known before it is read
        return
    voxels = int(np.prod(read_grid(scan.paths[0]).shape))
    needed = PROGRAM_BYTES + voxels * 8 * len(scan.paths)
    refuse_beyond_bound(needed, f"{scan.paths[0]}: to predict it")


def is_small(scan: FoundScan) -> bool:
    """Whether another scan may be in memory beside this one."""
    voxels = 0
    try:
        for path in scan.paths:
            if path.is_dir():  # DICOM: two bytes a voxel, or compressed and fewer
                voxels += sum(file.stat().st_size for file in path.iterdir()) // 2
            else:
                voxels += int(np.prod(read_grid(path).shape))
    except (InputError, OSError):  # reading it will say what is wrong
        return True
    return is_small_size(voxels)


def is_small_size(voxels: int) -> bool:
    """The same of a number of voxels."""
    most = memory_bound()
    return voxels <= _SMALL_VOXELS and (most is None or voxels * _SMALL_BYTES <= most)


def predict_one(
    predictor: Predictor, ready: ReadyScan, scan: FoundScan, wanted: Wanted
) -> tuple[NDArray[np.uint8], MapStore]:
    """The label map in memory, the other maps on disk as far as they are wanted."""
    labels = np.empty(ready.shape, np.uint8)
    maps = MapStore(wanted.out)
    try:
        for piece in predictor.pieces_of(
            ready.image, ready.shape, uncertainty=wanted.uncertainty, name=_named(scan)
        ):
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


def write_maps(
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


def _named(scan: FoundScan) -> str:
    return ", ".join(map(str, scan.paths))


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
