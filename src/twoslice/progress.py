"""Progress that a person can watch: a bar with an estimate on a terminal, plain lines elsewhere.

Stages take a `Progress` and never print; `cli.py` chooses which one they get.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

VOICE = threading.RLock()
"""Held while a line is printed, and by readers while they turn standard error away: a scan that is
read ahead in another thread must not swallow a line.
"""


class Task(Protocol):
    """One piece of long work under way."""

    def advance(self, steps: int = 1, note: str = "") -> None:
        """`steps` more are done; `note` is a short state such as a loss or a case."""


class Progress(Protocol):
    """Where stages announce long work."""

    @contextmanager
    def task(self, name: str, total: int, done: int = 0) -> Iterator[Task]:
        """Announce `total` steps of work called `name`, `done` of which an earlier run did."""
        ...

    def say(self, line: str) -> None:
        """One line for the person to read."""
        ...


class _SilentTask:
    def advance(self, steps: int = 1, note: str = "") -> None:
        return None


class Silent:
    """Shows nothing: for tests and for use as a library."""

    @contextmanager
    def task(self, name: str, total: int, done: int = 0) -> Iterator[Task]:
        """Do the work and show nothing."""
        yield _SilentTask()

    def say(self, line: str) -> None:
        """Say nothing."""


class _LineTask:
    """Prints a line at most every `every` seconds; short work ends before the first."""

    def __init__(self, name: str, total: int, done: int, every: float) -> None:
        self.name, self.total, self.every = name, total, every
        self.done, self.earlier, self.start = done, done, time.monotonic()
        self.last = self.start

    def advance(self, steps: int = 1, note: str = "") -> None:
        self.done += steps
        now = time.monotonic()
        begun = self.last > self.start
        if now - self.last < self.every and not (begun and self.done == self.total):
            return
        self.last = now
        pace = (now - self.start) / max(self.done - self.earlier, 1)
        left = in_words(pace * (self.total - self.done))
        state = f"{self.name}: {self.done}/{self.total}, about {left} left"
        _print(f"{state}, {note}" if note else state)


def in_words(seconds: float) -> str:
    """A time as a person says it: 45 s, 12 min, 3 h 20 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


class Lines:
    """Plain lines, for logs and pipes."""

    def __init__(self, every: float = 10.0) -> None:
        self.every = every

    @contextmanager
    def task(self, name: str, total: int, done: int = 0) -> Iterator[Task]:
        """Print how far `name` is, now and then."""
        yield _LineTask(name, total, done, self.every)

    def say(self, line: str) -> None:
        """Print the line."""
        _print(line)


class Bars:
    """A Rich progress bar with an estimate of what remains."""

    @contextmanager
    def task(self, name: str, total: int, done: int = 0) -> Iterator[Task]:
        """Show a bar for `name` while the work goes on."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("{task.description:<12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with RichProgress(*columns, console=Console(stderr=True)) as rich:
            identity = rich.add_task(name, total=total, completed=done, note="")

            class _BarTask:
                def advance(self, steps: int = 1, note: str = "") -> None:
                    rich.update(identity, advance=steps, note=note)

            yield _BarTask()

    def say(self, line: str) -> None:
        """Print the line."""
        _print(line)


def _print(line: str) -> None:
    with VOICE:
        print(line, file=sys.stderr, flush=True)  # noqa: T201


def for_stderr() -> Progress:
    """Bars on a terminal, plain lines elsewhere."""
    return Bars() if sys.stderr.isatty() else Lines()
