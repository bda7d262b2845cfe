"""The C library keeps freed blocks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FAULTS = """
import resource, torch, twoslice.allocator
if {keep}:
    assert twoslice.allocator.keep_freed_memory()
block = 24 * 2**20 // 4
for _ in range(10):
    torch.ones(block)
before = resource.getrusage(resource.RUSAGE_SELF)
for _ in range(10):
    torch.ones(block)
after = resource.getrusage(resource.RUSAGE_SELF)
print(after.ru_minflt - before.ru_minflt)
"""


def page_faults(*, keep: bool) -> int:
    command = [sys.executable, "-c", FAULTS.format(keep=keep)]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1000000"}
    environment.pop("THP_MEM_ALLOC_ENABLE", None)
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return int(ran.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc only")
def test_a_large_block_that_was_freed_is_reused_without_fetching_its_pages_again() -> None:
    fresh, kept = page_faults(keep=False), page_faults(keep=True)
    assert fresh > 10 * 24 * 2**20 / os.sysconf("SC_PAGE_SIZE") / 2
    assert kept < fresh / 100
