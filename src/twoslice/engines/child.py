"""A worker process of this machine, seen from inside: takes jobs from a pipe until it closes.

Everything it prints goes to its log file, from which the parent also learns what a worker said
that died. Nothing heavy is imported here: the job brings what it needs.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

from twoslice.engines.jobs import Attempt, Job, attempt, tail

GRACE = 15.0
"""Seconds from being asked to end to being killed: a training saves its step in them."""


def serve(jobs: Connection, log: Path) -> None:
    """Run the jobs that come through the pipe, one at a time, until the parent closes it."""
    _lead_a_group()
    _print_to(log)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        jobs.send_bytes(b"ready")
        while True:
            taken = jobs.recv_bytes()
            os.truncate(log, 0)
            jobs.send_bytes(_tried(taken, log))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass


def _tried(taken: bytes, log: Path) -> bytes:
    try:
        job: Job[object] = pickle.loads(taken)
        ended = attempt(job)
    except KeyboardInterrupt:  # a training says so once it has saved what was asked to end
        raise SystemExit(143) from None
    except Exception as error:  # the job cannot be read here
        ended = Attempt(raised=f"{type(error).__name__}: {error}")
    sys.stdout.flush()
    sys.stderr.flush()
    said = log.read_text(encoding="utf-8", errors="replace")
    ended = replace(ended, log=tail(said + ended.log))
    try:
        return pickle.dumps(ended)
    except Exception as error:  # whatever the job gave back
        return pickle.dumps(Attempt(raised=f"a value that cannot be sent ({error})", log=said))


def _lead_a_group() -> None:
    """Whatever a job starts belongs to this worker's group and ends with it."""
    if hasattr(os, "setsid"):
        os.setsid()


def _print_to(log: Path) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(descriptor, stream.fileno())
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    faulthandler.enable(sys.stderr)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _end_with_parent() -> None:
    """A parent that was killed cannot say so: ask this process to end, then end the group."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
