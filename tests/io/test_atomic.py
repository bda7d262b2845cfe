"""Whole or absent: on a full disk, after kill -9, and when something else goes wrong half-way."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from twoslice.errors import OutputError
from twoslice.io import atomic
from twoslice.io.cache import VolumeCache
from twoslice.io.dataset import write_description
from twoslice.io.grid import Grid
from twoslice.io.scans import write_image

SHAPE = (64, 64, 64)
NOISE = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "a.txt"
    atomic.write_text(target, "old")
    atomic.write_text(target, "née")
    assert target.read_text(encoding="utf-8") == "née"
    assert names(target.parent) == ["a.txt"]


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    atomic.write_text(target, "old")

    def fail_half_way() -> None:
        with atomic.whole_file(target) as scratch:
            scratch.write_text("half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail_half_way()
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_folder_in_the_place_of_a_file_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(OutputError, match=r"there: a folder is there\. Name a file"):
        atomic.write_text(tmp_path / "there", "x")
    assert names(tmp_path) == ["there"]


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with atomic.whole_folder(tmp_path / "made") as scratch:
        (scratch / "part").mkdir()
        atomic.write_text(scratch / "part" / "a.txt", "x")
        assert not (tmp_path / "made").exists()
    assert (tmp_path / "made" / "part" / "a.txt").read_text() == "x"

    def fail_half_way() -> None:
        with atomic.whole_folder(tmp_path / "other") as scratch:
            (scratch / "a.txt").write_text("x")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail_half_way()
    assert names(tmp_path) == ["made"]


def test_a_folder_with_something_in_it_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with atomic.whole_folder(tmp_path / "mine") as scratch:
        (scratch / "a.txt").write_text("x")
    with (
        pytest.raises(OutputError, match="already there and not empty"),
        atomic.whole_folder(tmp_path / "mine"),
    ):
        pass
    assert names(tmp_path / "mine") == ["a.txt"]


def test_a_made_folder_has_the_permissions_of_any_other(tmp_path: Path) -> None:
    with atomic.whole_folder(tmp_path / "made"):
        pass
    (tmp_path / "plain").mkdir()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 300 kB, where the machine lets us mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no permission to mount a small disk: the limit on file size covers it")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


WRITERS = {
    "scan": lambda folder: write_image(folder / "a.nii.gz", NOISE, Grid(SHAPE, np.eye(4))),
    "itk": lambda folder: write_image(folder / "a.nrrd", NOISE, Grid(SHAPE, np.eye(4))),
    "text": lambda folder: atomic.write_text(folder / "a.txt", "x" * 1_000_000),
    "array": lambda folder: VolumeCache(
        folder, prepare=lambda _: NOISE, sources=lambda _: []
    ).build("a"),
    "numpy's own": lambda folder: _numpy_save(folder / "a.npy"),
}


def _numpy_save(path: Path) -> None:
    with atomic.whole_file(path) as scratch, scratch.open("wb") as file:
        np.save(file, NOISE)


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_told_and_leaves_what_was_there(small_disk: Path, name: str) -> None:
    (small_disk / "precious.txt").write_text("mine")
    with pytest.raises(OutputError, match="The disk is full: free some space"):
        WRITERS[name](small_disk)
    assert [path for path in small_disk.rglob("*") if path.is_file()] == [
        small_disk / "precious.txt"
    ]
    assert (small_disk / "precious.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["scan", "text", "array"])
def test_a_limit_on_file_size_is_told_like_a_full_disk(tmp_path: Path, name: str) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OutputError, match="free some space"):
            WRITERS[name](tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "The disk is full"),
        (errno.EDQUOT, "The disk is full"),
        (errno.EROFS, "Writing there is not allowed"),
        (errno.EACCES, "Writing there is not allowed"),
    ],
)
def test_what_the_system_refuses_is_one_line_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OutputError, match=words) as refused:
        atomic.write_text(tmp_path / "a.txt", "x")
    assert str(tmp_path / "a.txt") in str(refused.value)
    assert names(tmp_path) == []


def test_a_file_where_a_folder_is_needed_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="A folder is needed there"):
        atomic.write_text(tmp_path / "file" / "a.txt", "x")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="a place where nothing can be made")
def test_a_place_where_no_folder_can_be_made_is_told() -> None:
    with pytest.raises(OutputError, match=r"No folder can be made there.*--out"):
        atomic.write_text(Path("/proc/here/file.txt"), "text")


def test_an_input_that_cannot_be_read_is_not_blamed_on_the_output(tmp_path: Path) -> None:
    source = tmp_path / "inputs" / "secret.txt"
    with pytest.raises(PermissionError), atomic.whole_file(tmp_path / "out" / "a.txt"):
        raise PermissionError(errno.EACCES, "Permission denied", str(source))


KILLED = """
import sys, time
from pathlib import Path
from twoslice.io import atomic
target = Path(sys.argv[1])
with atomic.whole_file(target) as scratch:
    with scratch.open("w") as file:
        file.write("half of it")
        file.flush()
        print("writing", flush=True)
        time.sleep(60)
"""


def test_kill_9_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "imagesTr" / "a_0000.nii.gz"
    atomic.write_text(target, "old")
    command = [sys.executable, "-c", KILLED, str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.kill()
    assert target.read_text() == "old"
    left = [path for path in target.parent.iterdir() if path != target]
    assert all(path.name.startswith(".writing-") for path in left)
    write_description(
        tmp_path, name="x", channel_names=["a"], labels={"background": 0, "b": 1}, ignore=2
    )


RACING = """
import sys
from pathlib import Path
from twoslice.io import atomic
target = Path(sys.argv[1])
print("go", flush=True)
while True:
    for letter in "ab":
        atomic.write_text(target, letter * 200_000)
"""


def test_kill_9_at_any_moment_leaves_one_whole_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    for round_ in range(5):
        command = [sys.executable, "-c", RACING, str(target)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            while not target.exists():
                time.sleep(0.001)
            time.sleep(0.01 + 0.007 * round_)
            process.kill()
        content = target.read_text()
        assert content in ("a" * 200_000, "b" * 200_000)
