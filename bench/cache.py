"""2,000 scans of 256×256×100 opened, and 200 random patches drawn, within 1 GB of memory.

A dataset folder with N scans is made, its scans and their prepared arrays as files with holes (so
that they take no room on the disk), then opened in a process of its own, which draws the patches
and says how long opening took and how much memory it had at most. Memory and start-up time are
compared for 2,000 and for 20 scans.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from twoslice.io.cache import VolumeCache
from twoslice.io.dataset import Dataset, write_description
from twoslice.io.grid import Grid
from twoslice.io.scans import write_image

SHAPE = (256, 256, 100)
PATCH = (112, 112, 80)
PATCHES = 200
LIMIT_MB = 1000


def open_cache(dataset: Dataset) -> VolumeCache:
    """The cache as training opens it; nothing is prepared here, since all of it is there."""

    def prepare(case: str) -> np.ndarray:
        raise AssertionError(f"{case} should have been in the cache")

    return VolumeCache(
        dataset.root / "preprocessed",
        prepare=prepare,
        sources=lambda case: dataset.case(case).images,
        settings={"bench": "cache"},
    )


def make(root: Path, scans: int) -> None:
    """A dataset of `scans` scans whose voxels are all holes, and its filled cache."""
    model = root / "model.nii"
    write_image(model, np.zeros((2, 2, 2), np.int16), Grid((2, 2, 2), np.eye(4)))
    header = bytearray(model.read_bytes()[:352])
    header[42:48] = np.array(SHAPE, np.int16).tobytes()
    (root / "imagesTr").mkdir()
    for index in range(scans):
        with (root / "imagesTr" / f"scan_{index:04d}_0000.nii").open("wb") as file:
            file.write(header)
            file.truncate(352 + 2 * int(np.prod(SHAPE)))
    labels = {"background": 0, "target": 1}
    names = {"name": "bench", "channel_names": ("image",), "labels": labels, "ignore": 2}
    write_description(root, **names, file_ending=".nii")
    dataset = Dataset.open(root)
    cache = open_cache(dataset)
    cache.folder.mkdir(parents=True)
    for case in dataset.cases:
        np.lib.format.open_memmap(cache.path(case), "w+", np.float32, (1, *SHAPE))


def draw(root: Path) -> dict[str, float]:
    """Open the dataset and its cache, draw the patches, and measure this process."""
    random = np.random.default_rng(0)
    before = _peak_mb()
    start = time.perf_counter()
    dataset = Dataset.open(root)
    cache = open_cache(dataset)
    cases = list(dataset.cases)
    grid = dataset.read_grid(cases[0])
    assert grid.shape == SHAPE
    cache.get(cases[0])
    opened = time.perf_counter() - start
    start = time.perf_counter()
    for case in random.choice(cases, PATCHES):
        corner = [random.integers(0, n - p + 1) for n, p in zip(SHAPE, PATCH, strict=True)]
        where = tuple(slice(c, c + p) for c, p in zip(corner, PATCH, strict=True))
        patch = np.array(cache.get(str(case))[(0, *where)])
        assert patch.shape == PATCH
    drawn = (time.perf_counter() - start) / PATCHES
    return {"open_s": opened, "patch_ms": 1000 * drawn, "before_mb": before, "peak_mb": _peak_mb()}


def _peak_mb() -> float:
    """The most memory that this process has had, mapped pages of files included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(scans: int) -> dict[str, float]:
    """Make a dataset of `scans` scans and open it in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), scans)
        command = [sys.executable, __file__, "--draw", folder]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, float] = json.loads(said)
    print(
        f"{scans:5d} scans: opened in {result['open_s']:.2f} s, {result['patch_ms']:.1f} ms a "
        f"patch, peak memory {result['peak_mb']:.0f} MB ({result['before_mb']:.0f} MB before)"
    )
    return result


def main() -> None:
    """Compare many scans with few, in one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--scans", type=int, default=2000)
    options = parser.parse_args()
    if options.draw:
        print(json.dumps(draw(options.draw)))
        return
    few, many = measure(20), measure(options.scans)
    ratio = many["peak_mb"] / few["peak_mb"]
    print(f"peak memory, {options.scans} scans / 20 scans: {ratio:.2f}")
    print(f"start-up, {options.scans} scans - 20 scans: {many['open_s'] - few['open_s']:.2f} s")
    if many["peak_mb"] > LIMIT_MB:
        sys.exit(f"peak memory {many['peak_mb']:.0f} MB is over {LIMIT_MB} MB")


if __name__ == "__main__":
    main()
