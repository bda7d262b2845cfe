"""The log of a job that failed, kept where a person finds it."""

from __future__ import annotations

import re
from pathlib import Path

from twoslice.engines.jobs import Outcome, T
from twoslice.errors import JobError
from twoslice.io import atomic

LOGS = "logs"


def kept_log(folder: Path, outcome: Outcome[T]) -> str:
    """Write what a job printed that was given up to `folder`/logs; the words that say where. For
    a fault of the input, the line says it all, and nothing is written.
    """
    if not isinstance(outcome.error, JobError) or not outcome.log:
        return ""
    name = re.sub(r"[^\w.-]+", "_", outcome.job.name)
    path = folder / LOGS / f"{name}.log"
    atomic.write_text(path, outcome.log + "\n")
    return f" Its log: {path}"
