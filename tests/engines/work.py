"""Jobs for the tests of engines: importable, and each leaves a trace in a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from twoslice.engines.jobs import Job
from twoslice.errors import ScanError
from twoslice.memory import available_memory, memory_bound


def double(number: int) -> int:
    return 2 * number


def tell_process() -> int:
    return os.getpid()


def tell_environment() -> dict[str, str]:
    return dict(os.environ)


def tell_memory() -> tuple[int | None, int]:
    return memory_bound(), available_memory()


def refuse(path: str) -> None:
    raise ScanError(f"{path}: is no scan. Name another.")


def stumble(folder: Path, times: int) -> int:
    """Fail unforeseen the first `times` times; then say which try it is."""
    tries = len([*folder.iterdir()])
    (folder / f"try-{tries}").touch()
    print("on my way")
    if tries < times:
        raise ZeroDivisionError("no luck")
    return tries + 1


def die(folder: Path, times: int) -> int:
    """Take the whole process down the first `times` times."""
    tries = len([*folder.iterdir()])
    (folder / f"try-{tries}").touch()
    print("about to die", flush=True)
    if tries < times:
        os.kill(os.getpid(), signal.SIGKILL)
    return tries + 1


def sleep(folder: Path, name: str, seconds: float) -> str:
    """Take some time; the file `name` holds the process while it lasts."""
    (folder / name).write_text(str(os.getpid()))
    time.sleep(seconds)
    (folder / f"{name}-done").touch()
    return name


def sleep_with_child(folder: Path) -> None:
    """Start another process, and take long."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    (folder / "child").write_text(str(child.pid))
    time.sleep(300)


def stumbling(folder: Path) -> list[Job[int]]:
    """`lucky` succeeds at its third try, `hopeless` never does."""
    return _trying(stumble, folder, {"lucky": 2, "hopeless": 99})


def dying(folder: Path) -> list[Job[int]]:
    """`once` kills its worker at its first try, `always` at each."""
    return _trying(die, folder, {"once": 1, "always": 99})


def _trying(function: Callable[..., int], folder: Path, times: dict[str, int]) -> list[Job[int]]:
    for name in times:
        (folder / name).mkdir()
    return [
        Job(name, function, {"folder": folder / name, "times": count})
        for name, count in times.items()
    ]
