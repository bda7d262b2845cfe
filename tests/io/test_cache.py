"""The cache: prepared once, mapped, rebuilt when a file or a setting changed, bounded in memory."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from twoslice.errors import InputError
from twoslice.io.cache import VolumeCache


class Desk:
    """Counts how often a case is prepared; picklable, as a data loader's worker needs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: list[str] = []

    def prepare(self, case: str) -> np.ndarray:
        self.made.append(case)
        value = float((self.folder / f"{case}.txt").read_text())
        return np.full((1, 4, 5, 6), value, np.float32)

    def sources(self, case: str) -> list[Path]:
        return [self.folder / f"{case}.txt"]

    def write(self, case: str, value: float) -> None:
        path = self.folder / f"{case}.txt"
        path.write_text(str(value))
        later = path.stat().st_mtime_ns + 1_000_000 * len(self.made)
        os.utime(path, ns=(later, later))

    def cache(self, settings: object = None, **limits: int) -> VolumeCache:
        return VolumeCache(
            self.folder / "cache",
            prepare=self.prepare,
            sources=self.sources,
            settings=settings,
            **limits,
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    for number in range(5):
        made.write(f"case {number}", number)
    return made


def test_an_array_is_prepared_once_and_mapped_read_only(desk: Desk) -> None:
    first = desk.cache().get("case 3")
    second = desk.cache().get("case 3")
    assert desk.made == ["case 3"]
    assert isinstance(second, np.memmap)
    assert not second.flags.writeable
    np.testing.assert_array_equal(second, np.full((1, 4, 5, 6), 3, np.float32))
    assert first.dtype == np.float32


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.uint8, np.int16])
def test_the_type_and_the_values_stay_whatever_the_memory_order(desk: Desk, kind: type) -> None:
    array = np.asfortranarray(np.random.default_rng(0).integers(0, 99, (2, 3, 4, 5)).astype(kind))
    cache = VolumeCache(desk.folder, prepare=lambda _: array, sources=lambda _: [])
    read = cache.get("a")
    assert read.dtype == kind
    np.testing.assert_array_equal(read, array)


def test_a_changed_file_is_prepared_again_and_the_old_array_goes(desk: Desk) -> None:
    cache = desk.cache()
    held = cache.get("case 1")
    desk.write("case 1", 77)
    assert not cache.has("case 1")
    assert cache.get("case 1").max() == 77
    assert held.max() == 1, "an array that somebody holds stays as it was"
    assert len(list(cache.folder.glob("case 1.*.npy"))) == 1


def test_other_settings_have_arrays_of_their_own(desk: Desk) -> None:
    desk.cache({"spacing": [1, 1, 1]}).get("case 1")
    desk.cache({"spacing": [2, 2, 2]}).get("case 1")
    desk.cache({"spacing": (1, 1, 1)}).get("case 1")
    assert desk.made == ["case 1", "case 1"]


def test_a_case_whose_name_begins_like_another_is_left_alone(desk: Desk) -> None:
    desk.write("case", 8)
    desk.write("case.1", 9)
    cache = desk.cache()
    cache.get("case.1")
    cache.get("case")
    desk.write("case", 10)
    cache.get("case")
    assert cache.has("case.1")


def test_maps_are_let_go_by_number_and_by_size(desk: Desk) -> None:
    size = 1 * 4 * 5 * 6 * 4
    for limits in ({"keep_open": 2}, {"keep_bytes": 2 * size}, {"keep_bytes": 1}):
        cache = desk.cache(**limits)
        for number in range(5):
            assert cache.get(f"case {number}").max() == number
        expected = 1 if limits == {"keep_bytes": 1} else 2
        assert len(cache._open) == expected
    cache.close()
    assert len(cache._open) == 0


def test_a_damaged_array_is_made_again(desk: Desk) -> None:
    cache = desk.cache()
    path = cache.build("case 2")
    path.write_bytes(path.read_bytes()[:150])
    assert desk.cache().get("case 2").max() == 2
    path.write_bytes(b"")
    assert desk.cache().get("case 2").max() == 2
    assert len(desk.made) == 3


def test_a_failing_preparation_leaves_nothing(desk: Desk) -> None:
    def fail(_: str) -> np.ndarray:
        raise InputError("a broken scan. Mend it.")

    cache = VolumeCache(desk.folder / "cache", prepare=fail, sources=desk.sources)
    with pytest.raises(InputError, match="broken"):
        cache.get("case 1")
    assert list((desk.folder / "cache").rglob("*")) == []


def test_a_source_that_went_away_is_told(desk: Desk) -> None:
    with pytest.raises(InputError, match=r"case 9\.txt: No such file"):
        desk.cache().get("case 9")


def test_a_worker_gets_the_cache_without_its_maps(desk: Desk) -> None:
    cache = desk.cache()
    cache.get("case 1")
    copy = pickle.loads(pickle.dumps(cache))
    assert len(copy._open) == 0
    assert copy.get("case 1").max() == 1
