"""One process at a time in a folder: studies that are restarted meet what a kill left running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twoslice.errors import OutputError


@contextmanager
def locked(folder: Path, *, wait: bool) -> Iterator[None]:
    """Hold `folder/.lock`; wait for whoever holds it, or refuse.

    The lock goes with the process that holds it, however that ends. Where the system has no such
    locks, nothing is held.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("w")
    except OSError as error:
        raise OutputError(f"{folder}: {error.strerror}. Choose another place with --out.") from None
    with file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:
            pass
        except BlockingIOError:
            raise OutputError(f"{folder}: another study runs there. Wait for it to end.") from None
        yield
