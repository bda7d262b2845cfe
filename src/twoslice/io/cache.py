"""VolumeCache: prepared volumes as memory-mapped arrays, so that neither start-up time nor memory
grows with the number of scans.

    FOLDER/<settings>/CASE.<sources>.npy

The folder's name is a digest of the settings a volume was prepared with, and the file's of its
sources (path, size, time of change): an array made from other settings or from an older file is
never found, and the older one is deleted when the new one is written.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoslice.errors import InputError
from twoslice.io import atomic

Prepare = Callable[[str], NDArray[Any]]
Sources = Callable[[str], Sequence[Path]]
_DIGEST_LENGTH = 16


class VolumeCache:
    """Arrays by case name, each prepared once and then mapped from disk, a few at a time.

    `prepare` makes a case's array; `sources` names the files that it reads; `settings` is
    everything else that the array depends on, as plain values. At most `keep_open` arrays of
    `keep_bytes` together stay mapped: a map that nobody holds any more gives its memory back, so
    keep a copy of the patch, not the map.
    """

    def __init__(
        self,
        folder: Path,
        *,
        prepare: Prepare,
        sources: Sources,
        settings: Any = None,
        keep_open: int = 64,
        keep_bytes: int = 512 * 2**20,
    ) -> None:
        self.folder = folder / _digest(settings)
        self.prepare, self.sources = prepare, sources
        self.keep_open, self.keep_bytes = keep_open, keep_bytes
        self._open: OrderedDict[Path, NDArray[Any]] = OrderedDict()
        self._turn = threading.Lock()

    def get(self, case: str) -> NDArray[Any]:
        """The array of one case, read-only and mapped; prepared first if need be. Threads may ask
        at the same time.
        """
        path = self.path(case)
        with self._turn:
            array = self._open.pop(path, None)
            if array is None:
                array = self._mapped(path)
            if array is None:
                self.build(case)
                array = self._mapped(path)
                if array is None:
                    raise InputError(f"{path}: went away while it was read. Run the command again.")
            self._open[path] = array
            self._let_go()
            return array

    def has(self, case: str) -> bool:
        """True if the case's array is there and made from its files as they are now."""
        return self.path(case).is_file()

    def build(self, case: str) -> Path:
        """Prepare one case and store it, whole or not at all; older arrays of the case go."""
        path = self.path(case)
        array = np.ascontiguousarray(self.prepare(case))
        with atomic.whole_file(path) as scratch, scratch.open("wb") as file:
            # Not np.save: on a full disk its error does not say so.
            header = np.lib.format.header_data_from_array_1_0(array)  # type: ignore[no-untyped-call]
            np.lib.format.write_array_header_1_0(file, header)  # type: ignore[no-untyped-call]
            file.write(array.reshape(-1).view(np.uint8).data)
        older = re.compile(re.escape(case) + rf"\.[0-9a-f]{{{_DIGEST_LENGTH}}}\.npy")
        for other in self.folder.iterdir():
            if other != path and older.fullmatch(other.name):
                other.unlink(missing_ok=True)
        return path

    def path(self, case: str) -> Path:
        """Where the case's array is, or will be."""
        stamps = []
        for source in self.sources(case):
            try:
                state = source.stat()
            except OSError as error:
                raise InputError(f"{source}: {error.strerror}. Put it back.") from None
            stamps.append([str(source.resolve()), state.st_size, state.st_mtime_ns])
        return self.folder / f"{case}.{_digest(stamps)}.npy"

    def close(self) -> None:
        """Let go of every map."""
        self._open.clear()

    def __getstate__(self) -> dict[str, Any]:
        """Without the open maps: each worker process opens its own."""
        return {**self.__dict__, "_open": OrderedDict(), "_turn": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _turn=threading.Lock())

    def _let_go(self) -> None:
        """Drop the maps that were asked for longest ago; the last one stays."""
        size = sum(array.nbytes for array in self._open.values())
        while len(self._open) > 1 and (len(self._open) > self.keep_open or size > self.keep_bytes):
            size -= self._open.popitem(last=False)[1].nbytes

    @staticmethod
    def _mapped(path: Path) -> NDArray[Any] | None:
        try:
            array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError):
            # Not one of ours any more (a damaged disk, a foreign hand): make it again.
            return None
        return array


def _digest(tree: Any) -> str:
    text = json.dumps(tree, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]
