"""Freed memory is kept for the next step, in place of giving it back to the system each time.

A step of training asks for the same large blocks again and again. The C library fetches each of
them from the system and returns it when it is freed, and the system hands out such memory page by
page, cleared, at the first touch: on a virtual machine a copy of a 64 MB feature map took 105 ms
so, and 15 ms into a block that was kept. The process then holds, until it ends, about as much
memory as it once needed.
"""

from __future__ import annotations

import ctypes
import os
import sys

_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8  # their numbers in glibc's malloc.h
_NEVER = -1
_HUGE_PAGES = "THP_MEM_ALLOC_ENABLE"  # PyTorch reads it when it allocates for the first time


def keep_freed_memory() -> bool:
    """Let this process keep what it frees, and have large blocks in large pages; True where the
    C library can (glibc, so Linux).
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another C library, such as musl
        return False
    os.environ.setdefault(_HUGE_PAGES, "1")
    wanted = {_MMAP_MAX: 0, _TRIM_THRESHOLD: _NEVER, _ARENA_MAX: 1}  # one heap for all threads
    taken = [mallopt(what, value) for what, value in wanted.items()]
    return all(taken)
