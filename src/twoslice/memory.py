"""How much memory may be used: what the machine has left, and what a container allows.

Linux says so in /proc/meminfo and, for containers, in the control group's own files; a container
that is given 4 GB on a machine of 256 GB is stopped at 4 GB, whatever the machine has free.
"""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc/meminfo")
_GROUPS = Path("/sys/fs/cgroup")
# Limit and use of this process's group: version 2 of control groups, then version 1.
_GROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)
_UNKNOWN = 2 * 2**30
"""Taken where the system does not say; every machine that trains has this much."""


def available_memory(proc: Path = _PROC, groups: Path = _GROUPS) -> int:
    """Bytes that can still be taken without swapping and without breaking a container's limit."""
    known = [room for room in (_machine(proc), _group(groups)) if room is not None]
    return max(0, min(known)) if known else _UNKNOWN


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
