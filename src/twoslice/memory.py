"""How much memory may be used: what the machine has left, and what a container allows.

Linux says so in /proc/meminfo and, for containers, in the control group's own files; a container
that is given 4 GB on a machine of 256 GB is stopped at 4 GB, whatever the machine has free.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twoslice.errors import ScanError, SettingsError

_PROC = Path("/proc/meminfo")
_GROUPS = Path("/sys/fs/cgroup")
# Limit and use of this process's group: version 2 of control groups, then version 1.
_GROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)
PROGRAM_BYTES = 500 * 2**20
"""What the libraries and a network take before the first scan."""
_UNKNOWN = 2 * 2**30
"""Taken where the system does not say; every machine that trains has this much."""


_COUNTED = 0.9
"""Of a bound: a tenth is for what nobody counts. Without it, 512×512×1000 took 4.1 GB of 4."""
_bound: int | None = None
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {f"{letter}i": 2 ** (10 * (place + 1)) for place, letter in enumerate("kmgt")}


def available_memory(proc: Path = _PROC, groups: Path = _GROUPS) -> int:
    """Bytes that can still be taken without swapping, without breaking a container's limit, and
    within the bound that was set for this process.
    """
    rooms = (_machine(proc), _group(groups), _within_bound())
    known = [room for room in rooms if room is not None]
    return max(0, min(known)) if known else _UNKNOWN


@contextmanager
def bounded(most: int | None) -> Iterator[None]:
    """Inside, this process may take `most` bytes in all; None leaves it as it was."""
    global _bound
    before = _bound
    _bound = before if most is None else most
    try:
        yield
    finally:
        _bound = before


def memory_bound() -> int | None:
    """What this process may take in all, if somebody said so."""
    return _bound


def refuse_beyond_bound(needed: int, what: str) -> None:
    """Stop before the first array if `what` would break the bound that was set."""
    if _bound is not None and needed > _bound:
        raise ScanError(
            f"{what} takes about {needed / 1e9:.1f} GB, and {_bound / 1e9:.1f} GB may be taken. "
            f"Raise --memory, or start fewer --workers."
        )


def parse_bytes(text: str) -> int:
    """`8GB`, `500 MiB` or a plain number of bytes."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", text, re.IGNORECASE)
    if found is None or float(found[1]) == 0:
        raise SettingsError(f"'{text}' is no amount of memory. Write it as 8GB or 500MB.")
    return int(float(found[1]) * _UNITS[(found[2] or "").lower()])


def resident_bytes() -> int:
    """What this process holds in memory now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _within_bound() -> int | None:
    return None if _bound is None else int(_COUNTED * _bound) - resident_bytes()


def _machine(proc: Path) -> int | None:
    try:
        for line in proc.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:  # not Linux: half of what is built in
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (OSError, ValueError, AttributeError):
        return None


def _group(groups: Path) -> int | None:
    """What the container has left; pages that only cache files can be had back."""
    for limit_file, usage_file, stat_file in _GROUP_FILES:
        try:
            limit = int((groups / limit_file).read_text(encoding="ascii"))  # "max" is no number
            used = int((groups / usage_file).read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        return limit - used + _cached(groups / stat_file)
    return None


def _cached(stat: Path) -> int:
    try:
        pairs = (line.split() for line in stat.read_text(encoding="ascii").splitlines())
        return sum(int(value) for name, value in pairs if name == "inactive_file")
    except (OSError, ValueError):
        return 0
