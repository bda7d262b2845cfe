"""Ctrl-C between steps: the first one asks, so that what is saved is a whole step; the second one
interrupts at once.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Interrupt:
    """While entered, `asked` turns true at the first SIGINT or SIGTERM."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
