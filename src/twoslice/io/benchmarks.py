"""`twoslice import --dataset`: LA, KiTS19 and LiTS as the paper prepares them.

CT is clipped, cropped to the body in plane and around the target along the body, and resampled to
192 × 192 × 64 voxels; LA is cropped around the target; .h5 files of LA come cropped and stay as
they are. Intensities are z-scored by the training itself.

The published preparation crops test scans by their own labels too, which nobody has for a new
scan. Here a test scan is cropped to where the targets of the *training* scans lie, as shares of
the body (of the scan, in LA) from first to last, with the same margin; along the body it gets the
slice distance that training scans have in the median.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoslice.errors import AnnotationError, DatasetError
from twoslice.io import atomic
from twoslice.io.benchmark_layouts import BenchmarkName, Pair, find_list, find_pairs
from twoslice.io.cropping import (
    Box,
    body_box,
    box_of,
    cut,
    resample,
    resampled_grid,
    whole,
)
from twoslice.io.dataset import Dataset, write_description
from twoslice.io.grid import Grid, Shape
from twoslice.io.importing import ENDING
from twoslice.io.scans import read_label_map, read_scan, write_image, write_labels
from twoslice.io.splits import Splits, listed, split, write_splits
from twoslice.progress import Progress, Silent


@dataclass(frozen=True)
class Benchmark:
    """What the paper does with one data set."""

    title: str
    channel: str
    target: str
    train: int
    test: int
    margin: Shape
    least: Shape = (1, 1, 1)
    window: tuple[float, float] | None = None
    shape: Shape | None = None


BENCHMARKS: dict[BenchmarkName, Benchmark] = {
    # UA-MT's files, which the paper uses, have 10 to 20 voxels at random (5 to 10 along the body).
    "la": Benchmark("LA", "LGE-MRI", "left atrium", 80, 20, (15, 15, 8), least=(112, 112, 80)),
    "kits19": Benchmark(
        "KiTS19", "CT", "kidney", 190, 20, (20, 20, 10), window=(-160, 240), shape=(192, 192, 64)
    ),
    "lits": Benchmark(
        "LiTS", "CT", "liver", 100, 31, (20, 20, 10), window=(-100, 200), shape=(192, 192, 64)
    ),
}


def import_benchmark(
    sources: Sequence[Path],
    out: Path,
    *,
    dataset: BenchmarkName,
    seed: int = 0,
    progress: Progress | None = None,
) -> Dataset:
    """Make the dataset folder `out`: training scans in imagesTr, test scans in imagesTs, and
    `splits.json` with the five folds. `train.list` and `test.list` beside LA's scans win over
    `seed`.
    """
    progress = progress or Silent()
    kind = BENCHMARKS[dataset]
    pairs, without = find_pairs(dataset, sources)
    if without:
        progress.say(f"left out, as they have no label: {len(without)} scans ({without[0]}, …)")
    splits = _split(kind, pairs, sources, seed, progress)
    by_case = {pair.case: pair for pair in pairs}
    with atomic.whole_folder(out) as folder:
        maker = _Maker(kind, folder)
        with progress.task("import", total=len(splits.train) + len(splits.test)) as task:
            for case in splits.train:
                maker.training(by_case[case])
                task.advance(note=case)
            for case in splits.test:
                maker.test(by_case[case])
                task.advance(note=case)
        write_description(
            folder,
            name=kind.title,
            channel_names=[kind.channel],
            labels={"background": 0, kind.target: 1},
            ignore=None,
        )
        write_splits(folder, splits, dataset=dataset, prepared=maker.in_words())
    return Dataset.open(out)


def _split(
    kind: Benchmark, pairs: Sequence[Pair], sources: Sequence[Path], seed: int, progress: Progress
) -> Splits:
    """The lists beside the scans where there are any; the paper's counts; or its proportion."""
    cases = [pair.case for pair in pairs]
    train, test = find_list("train.list", sources), find_list("test.list", sources)
    if train is not None:
        kept = [case for case in train if case in cases]
        rest = [c for c in (test if test is not None else cases) if c in cases and c not in kept]
        if kept and rest:
            return listed(kept, rest, seed=seed)
    if len(cases) < 2:
        raise DatasetError(f"{sources[0]}: one labelled scan, expected some to train and to test.")
    count = kind.test
    if len(cases) != kind.train + kind.test:
        count = min(
            len(cases) - 1, max(1, round(len(cases) * kind.test / (kind.train + kind.test)))
        )
        progress.say(
            f"{len(cases)} labelled scans, the paper has {kind.train + kind.test}: "
            f"{len(cases) - count} to train and {count} to test, in its proportion."
        )
    return split(cases, test=count, seed=seed)


@dataclass
class _Maker:
    """Prepares one scan after the other; the training scans come first and teach where to look."""

    kind: Benchmark
    folder: Path
    reach: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=list)
    distances: list[float] = field(default_factory=list)

    def training(self, pair: Pair) -> None:
        """A training scan, cropped around its own target."""
        image, label, grid = self._read(pair)
        if pair.prepared:
            self._write(pair.case, "Tr", image, label, grid)
            return
        frame, target = self._frame(image), box_of(label > 0)
        if target is None:
            raise AnnotationError(f"{pair.label}: shows no target. Leave the case out.")
        low, size = np.array(frame.low), np.array(frame.shape)
        self.reach.append(((np.array(target.low) - low) / size, (target.high - low) / size))
        shape = self.kind.shape
        box = self._crop(frame, target, grid.shape)
        if shape is not None:
            self.distances.append(grid.spacing[2] * box.shape[2] / shape[2])
        self._write(pair.case, "Tr", *_prepared(image, label, grid, box, shape))

    def test(self, pair: Pair) -> None:
        """A test scan, cropped without a look at its label."""
        image, label, grid = self._read(pair)
        if pair.prepared:
            self._write(pair.case, "Ts", image, label, grid)
            return
        frame = self._frame(image)
        low, high = self._reach()
        size = np.array(frame.shape)
        first = np.floor(frame.low + low * size).astype(int).tolist()
        last = np.ceil(frame.low + high * size).astype(int).tolist()
        box = self._crop(frame, Box(tuple(first), tuple(last)), grid.shape)
        shape = self.kind.shape
        if shape is not None:
            slices = grid.spacing[2] * box.shape[2] / float(np.median(self.distances))
            shape = (shape[0], shape[1], max(1, round(slices)))
        self._write(pair.case, "Ts", *_prepared(image, label, grid, box, shape))

    def in_words(self) -> dict[str, object]:
        """What was done, for a person to read."""
        if not self.reach:
            return {"cropped": "by whoever made the .h5 files, test scans by their labels too"}
        low, high = self._reach()
        return {
            "window": self.kind.window,
            "margin": self.kind.margin,
            "shape": self.kind.shape,
            "targets lie from": low.round(4).tolist(),
            "targets lie to": high.round(4).tolist(),
            "slice distance mm": float(np.median(self.distances)) if self.distances else None,
        }

    def _read(self, pair: Pair) -> tuple[NDArray[np.float32], NDArray[np.uint8], Grid]:
        volume, labels = read_scan(pair.image), read_label_map(pair.label)
        if labels.shape != volume.shape:
            raise AnnotationError(
                f"{pair.label}: has {labels.shape} voxels and its image {volume.shape}. Download "
                f"both again."
            )
        # Kidney with tumour, liver with tumour; LA's label is 255.
        return volume.data[0], (labels.data > 0).astype(np.uint8), volume.grid.ras

    def _frame(self, image: NDArray[np.float32]) -> Box:
        """What places are told by: the body in CT, the field of view in MRI."""
        if self.kind.window is None:
            return whole((image.shape[0], image.shape[1], image.shape[2]))
        low, high = self.kind.window
        np.clip(image, low, high, out=image)
        return body_box(image, above=low + 0.1 * (high - low))

    def _reach(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        lows, highs = zip(*self.reach, strict=True)
        return np.min(lows, axis=0), np.max(highs, axis=0)

    def _crop(self, frame: Box, target: Box, within: Shape) -> Box:
        """CT keeps the body in plane; all else goes around the target."""
        if self.kind.window is not None:
            target = Box(
                (frame.low[0], frame.low[1], target.low[2]),
                (frame.high[0], frame.high[1], target.high[2]),
            )
        return target.grown(self.kind.margin, within=within, least=self.kind.least)

    def _write(
        self, case: str, part: str, image: NDArray[np.float32], label: NDArray[np.uint8], grid: Grid
    ) -> None:
        kept = np.rint(image).astype(np.int16) if self.kind.window is not None else image
        write_image(self.folder / f"images{part}" / f"{case}_0000{ENDING}", kept, grid)
        write_labels(self.folder / f"labels{part}" / f"{case}{ENDING}", label, grid)


def _prepared(
    image: NDArray[np.float32],
    label: NDArray[np.uint8],
    grid: Grid,
    box: Box,
    shape: Shape | None,
) -> tuple[NDArray[np.float32], NDArray[np.uint8], Grid]:
    image, label, grid = image[box.slices], label[box.slices], cut(grid, box)
    if shape is None:
        return image, label, grid
    return (
        resample(image, shape, linear=True),
        resample(label, shape, linear=False),
        resampled_grid(grid, shape),
    )
