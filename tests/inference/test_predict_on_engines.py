"""Predictions by several workers: the files, the manifest and the faults of one process."""

from __future__ import annotations

import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from training import tiny
from twoslice.engines.choose import EngineOptions
from twoslice.errors import PartialError, ScanError
from twoslice.inference import scan as scan_module
from twoslice.inference.manifest import Manifest
from twoslice.inference.predict import predict
from twoslice.inference.scan import ReadyScan, is_small_size, read_scan
from twoslice.inference.volume import Predictor
from twoslice.io.find import FoundScan
from twoslice.io.grid import Grid
from twoslice.io.scans import write_image
from twoslice.io.volume import Volume
from twoslice.memory import PROGRAM_BYTES, available_memory, bounded
from twoslice.networks.build import NetworkPlan
from twoslice.networks.windows import bytes_per_voxel, choose_window
from twoslice.training.loop import train
from twoslice.training.planner import make_plan
from twoslice.training.sources import image_cache

GIB = 2**30


def maps(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*.nii.gz"))
    }


@pytest.mark.slow
def test_two_workers_write_the_same_maps_and_tell_the_same_fault_as_one(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    run = train(dataset, tmp_path / "run", tiny.settings(iterations=2)).folder
    for number in range(5):
        image = tiny.scan(number)[0]
        write_image(tmp_path / "in" / f"scan{number}.nii.gz", image, Grid(tiny.SHAPE, np.eye(4)))
    (tmp_path / "in" / "scan3.nii.gz").write_bytes(b"no scan")
    told = []
    for workers in (1, 2):
        out = tmp_path / str(workers)
        with pytest.raises(PartialError) as raised:
            predict(
                run,
                [tmp_path / "in"],
                out,
                uncertainty=True,
                engine=EngineOptions(workers=workers, memory="2GB"),
            )
        record = json.loads((out / "predictions.json").read_text())
        told.append((str(raised.value).replace(str(out), "OUT"), record["cases"], record["failed"]))
    assert told[0] == told[1]
    assert maps(tmp_path / "1") == maps(tmp_path / "2")
    assert len(maps(tmp_path / "2")) == 4 * 3


def test_a_long_manifest_is_written_seldom_and_is_whole_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand adds, each of which would write all that came before."""
    written = []
    clock = [0.0]
    whole = Manifest.write

    def write(self: Manifest) -> None:
        clock[0] += 0.01 * len(self.failed)  # the longer, the slower
        written.append(len(self.failed))
        whole(self)

    monkeypatch.setattr(Manifest, "write", write)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with Manifest(tmp_path, {"run": "x"}, {}) as manifest:
        for number in range(1000):
            clock[0] += 0.05
            manifest.fail(f"case {number}", "broken")
    assert written[:1] == [1]
    assert len(written) < 60
    assert len(json.loads((tmp_path / "predictions.json").read_text())["failed"]) == 1000


def test_windows_keep_within_the_bound_for_scans_of_512_512_1000() -> None:
    network = NetworkPlan(kind="vnet", channels=1, classes=2, filters=16, normalisation="batch")
    shape, patch = (512, 512, 1000), (112, 112, 80)
    for most in (2 * GIB, 4 * GIB, 16 * GIB):
        with bounded(most):
            memory = available_memory()
        assert memory < most
        window = choose_window("auto", shape, patch, network, memory=memory)
        each, plane = bytes_per_voxel(network), 8 * 2 * 512 * 512
        passing, held = int(np.prod(window.size)) * each, window.size[2] * plane
        # A patch is the least that a network takes.
        assert passing <= max(0.4 * memory, int(np.prod(patch)) * each)
        assert held <= max(0.2 * memory, patch[2] * plane)


def test_under_a_bound_large_scans_are_not_read_ahead() -> None:
    assert is_small_size(30_000_000)
    with bounded(GIB):
        assert not is_small_size(30_000_000)
        assert is_small_size(1_000_000)


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    folder = tmp_path_factory.mktemp("trained")
    dataset = tiny.make_dataset(folder / "data")
    return Predictor(train(dataset, folder / "run", tiny.settings("supervised", iterations=1)))


def test_a_scan_that_cannot_be_predicted_within_the_bound_is_told_before_it_is_read(
    tmp_path: Path, predictor: Predictor
) -> None:
    path = tmp_path / "scan.nii.gz"
    write_image(path, tiny.scan(0)[0], Grid(tiny.SHAPE, np.eye(4)))
    found = FoundScan("scan", (path,))
    with bounded(100 * 2**20):
        told = read_scan(predictor, found, None)
    assert isinstance(told, ScanError)
    assert "to predict it takes about 0.5 GB, and 0.1 GB may be taken" in str(told)
    with bounded(GIB):
        assert not isinstance(read_scan(predictor, found, None), ScanError)


def test_a_scan_whose_maps_cannot_be_held_within_the_bound_is_told_before_the_first_window(
    predictor: Predictor,
) -> None:
    wide, shape = torch.zeros(1, 1, 100, 100, 101), (100, 100, 101)
    held = PROGRAM_BYTES + wide.nbytes + wide.numel()
    with bounded(held + 2**20), pytest.raises(ScanError, match=r"huge: to predict it takes about"):
        next(predictor.pieces_of(wide, shape, uncertainty=True, name="huge"))
    with bounded(held + GIB):
        next(predictor.pieces_of(wide, shape, uncertainty=True, name="huge"))


def test_a_read_scan_holds_only_what_the_networks_take(
    tmp_path: Path, predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scan's own intensities must go, or the longest scans would lie in memory twice."""
    path = tmp_path / "scan.nii.gz"
    write_image(path, tiny.scan(0)[0], Grid(tiny.SHAPE, np.eye(4)))
    kept: list[weakref.ref[object]] = []
    reading = scan_module.read_channels

    def read(*paths: Any, **more: Any) -> Volume:
        volume = reading(*paths, **more)
        kept.append(weakref.ref(volume))
        return volume

    monkeypatch.setattr(scan_module, "read_channels", read)
    ready = read_scan(predictor, FoundScan("scan", (path,)), None)
    assert isinstance(ready, ReadyScan)
    assert ready.shape == tiny.SHAPE
    assert [each() for each in kept] == [None]


def test_a_scan_that_cannot_be_prepared_within_the_bound_is_told(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    with bounded(100 * 2**20):
        cache = image_cache(dataset, make_plan(dataset, tiny.settings()), tmp_path)
        assert cache.keep_bytes == 100 * 2**20 // 8
        with pytest.raises(ScanError, match=r"to prepare it takes about 0\.5 GB"):
            cache.get("tiny_0")
