"""A running annotator and how Chromium is started, for the benchmark and for the pictures."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking "
    "--disable-component-update --disable-sync --no-first-run"
)


@contextmanager
def served(root: Path) -> Iterator[str]:
    """A running annotator; gives its link."""
    program = "from twoslice.cli import main; main()"
    command = [sys.executable, "-c", program, "annotate", str(root), "--no-browser", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield next(line.strip() for line in process.stdout if line.startswith("http"))
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
