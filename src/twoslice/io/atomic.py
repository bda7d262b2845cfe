"""Writes that are whole or absent: a temporary file beside the target, fsync, rename.

A reader never sees half a file, a killed run leaves the old file or the new one, and a full disk
leaves the target as it was. What a killed run leaves behind is a hidden `.writing-…` folder, which
no reader here looks into and which may be deleted.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twoslice.errors import OutputError, TwosliceError

PREFIX = ".writing-"
# Less than this left means full: no library could have written another block.
_FULL_BYTES = 64 * 1024


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """Give a temporary path in the target's folder to write to; it becomes `target` at the end.

    The temporary name keeps the target's endings (`.nii.gz`), since libraries choose by them.
    """
    with _as_output_error(target):
        if target.is_dir():
            raise OutputError(f"{target}: a folder is there. Name a file, or move the folder away.")
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=target.parent))
        try:
            with _full_disk_told(target):
                scratch = folder / target.name
                yield scratch
                _sync(scratch)
            scratch.replace(target)
            _sync(target.parent)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Give a temporary folder beside `target` that becomes `target` at the end.

    `target` may exist only if it is an empty folder: what a user has there is never replaced.
    """
    with _as_output_error(target):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise OutputError(f"{target}: already there and not empty. Name another --out.")
        target.parent.mkdir(parents=True, exist_ok=True)
        outer = Path(tempfile.mkdtemp(prefix=PREFIX, dir=target.parent))
        try:
            with _full_disk_told(target):
                # A folder inside the private one, so that its permissions are the user's own.
                scratch = outer / target.name
                scratch.mkdir()
                yield scratch
                for path in (*scratch.rglob("*"), scratch):
                    _sync(path)
            if target.exists():
                target.rmdir()
            scratch.replace(target)
            _sync(target.parent)
        finally:
            shutil.rmtree(outer, ignore_errors=True)


def write_bytes(target: Path, content: bytes) -> None:
    """Write `content` to `target`, whole or not at all."""
    with whole_file(target) as scratch:
        scratch.write_bytes(content)


def write_text(target: Path, text: str) -> None:
    """Write `text` to `target` as UTF-8, whole or not at all."""
    write_bytes(target, text.encode("utf-8"))


def write_json(target: Path, tree: Any) -> None:
    """Write `tree` to `target` as JSON that a person can read."""
    write_text(target, json.dumps(tree, indent=1, ensure_ascii=False) + "\n")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _full_disk_told(target: Path) -> Iterator[None]:
    """Tell a full disk also where a library hides it behind an error of its own.

    numpy, ITK, HDF5 and torch raise errors without a reason when a write comes up short. The
    temporary file still holds what room there was, so the disk itself can be asked.
    """
    try:
        yield
    except TwosliceError:
        raise
    except Exception as error:
        told = isinstance(error, OSError) and error.errno is not None
        if not told and shutil.disk_usage(target.parent).free < _FULL_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise


@contextmanager
def _as_output_error(target: Path) -> Iterator[None]:
    """Turn the operating system's refusals into one line with a remedy."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            remedy = "The disk is full: free some space and run the same command again"
        elif not _concerns(error, target):
            raise
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            remedy = "Writing there is not allowed: choose another place with --out"
        elif error.errno == errno.EISDIR:
            remedy = "Name a file, or move the folder away"
        elif error.errno in (errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY):
            remedy = "A folder is needed there: choose another place with --out"
        elif error.errno == errno.ENOENT and not target.parent.exists():
            remedy = "No folder can be made there: choose another place with --out"
        elif error.errno == errno.ENAMETOOLONG:
            remedy = "Choose a shorter name with --out"
        else:
            raise
        raise OutputError(f"{target}: {error.strerror}. {remedy}.") from error


def _concerns(error: OSError, target: Path) -> bool:
    """False if the error names a file elsewhere, such as an input that could not be read."""
    if not isinstance(error.filename, str):
        return True
    named = Path(error.filename).absolute()
    place = target.absolute()
    return named.is_relative_to(place.parent) or place.is_relative_to(named)
