"""Float maps of one scan on their way to disk: slices are appended to raw files as they come, and
read back one map at a time, so that ten organs' probabilities of a large scan never lie in memory
together.
"""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoslice.errors import OutputError
from twoslice.io import atomic


class MapStore:
    """Maps by target file, in a hidden folder beside them that `close` removes."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._targets: dict[Path, tuple[Path, int]] = {}

    @property
    def targets(self) -> tuple[Path, ...]:
        """The files that the maps are meant for, in the order in which they first came."""
        return tuple(self._targets)

    def append(self, target: Path, slices: NDArray[np.float32], axis: int) -> None:
        """Add the next slices along `axis` to a map."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix=atomic.PREFIX, dir=self.out)
        folder = Path(self._folder.name)
        file, _ = self._targets.setdefault(target, (folder / f"{len(self._targets)}.raw", axis))
        try:
            with file.open("ab") as stream:
                stream.write(np.ascontiguousarray(np.moveaxis(slices, axis, 0)).data)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise OutputError(
                f"{target}: {error.strerror}. The disk is full: free some space and run the same "
                f"command again."
            ) from error

    def read(self, target: Path, shape: tuple[int, int, int]) -> NDArray[np.float32]:
        """One whole map, (I, J, K)."""
        file, axis = self._targets[target]
        sides = [shape[axis], *(side for dim, side in enumerate(shape) if dim != axis)]
        return np.moveaxis(np.fromfile(file, np.float32).reshape(sides), 0, axis)

    def close(self) -> None:
        """Remove the raw files."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
