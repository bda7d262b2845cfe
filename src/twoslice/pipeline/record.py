"""`run.json`: what a run was made from and with, what it made, when, and what was set aside.

It is written anew, whole, whenever something changes. A run may go on in its folder if its
settings, its drawings and the scans it trains on are what they were; scans that came later are
predicted, not trained on.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twoslice import __version__
from twoslice.engines.local import usable_cores
from twoslice.errors import InputError, OutputError
from twoslice.io import atomic
from twoslice.io.dataset import Dataset
from twoslice.settings import Settings, find_difference, parse_settings

NAME = "run.json"
_PACKAGES = ("torch", "monai", "numpy", "scipy", "nibabel", "SimpleITK", "lightning-fabric")
Tree = dict[str, Any]


class Record:
    """The manifest of one run folder."""

    def __init__(self, out: Path, tree: Tree) -> None:
        self.out, self.tree = out, tree

    @classmethod
    def claim(cls, out: Path, dataset: Path, settings: Settings) -> Record:
        """Open the folder's record or begin it; another run's folder, or anything else, is
        refused.
        """
        path = out / NAME
        if not path.is_file():
            if out.exists() and (not out.is_dir() or _holds_something(out)):
                raise OutputError(f"{out}: already there and not empty. Name another --out.")
            record = cls(out, _begin(dataset, settings))
            record.write()
            return record
        record = cls(out, _read(path))
        if record.tree["dataset"] != str(dataset.resolve()):
            raise OutputError(
                f"{out}: holds a run on {record.tree['dataset']}, not on {dataset}. Name another "
                f"--out."
            )
        found = find_difference(record.settings, settings)
        if found is not None:
            name, saved, wanted = found
            raise OutputError(
                f"{out}: its run has {name} = {saved}, and {wanted} was asked for. Leave that out "
                f"to go on with it, or name another --out."
            )
        return record

    @classmethod
    def open(cls, out: Path) -> Record:
        """The record of a folder that `twoslice run` made."""
        return cls(out, _read(out / NAME))

    @property
    def settings(self) -> Settings:
        """The settings that the run began with."""
        return parse_settings(self.tree["settings"])

    @property
    def aside(self) -> dict[str, Tree]:
        """Cases that were set aside: at which stage, and why."""
        found: dict[str, Tree] = self.tree["set_aside"]
        return found

    def set_aside(self, case: str, stage: str, reason: str) -> None:
        """A case failed; the first reason stays."""
        text = reason.removeprefix(f"case {case}: ")
        self.aside.setdefault(case, {"stage": stage, "reason": text})
        self.write()

    def show(self, scans: Sequence[Path], labels: Path | None) -> None:
        """Remember what the page shows beside the dataset: further scans, and dense labels."""
        self.tree["shown"] = {
            "scans": [str(path.resolve()) for path in scans],
            "labels": str(labels.resolve()) if labels else None,
        }
        self.write()

    @property
    def shown(self) -> tuple[list[Path], Path | None]:
        """What `show` remembers, as far as it is still there."""
        tree = self.tree.get("shown", {"scans": [], "labels": None})
        scans = [Path(path) for path in tree["scans"] if Path(path).exists()]
        labels = Path(tree["labels"]) if tree["labels"] else None
        return scans, labels if labels and labels.exists() else None

    def train_on(self, dataset: Dataset) -> tuple[str, ...]:
        """The cases to train on: all, when the run begins; later those that it began with.

        A drawing or a scan that is another one by now would make half a training of each.
        """
        files = {name: _files(dataset, name) for name in dataset.cases}
        known: Tree | None = self.tree["trained_on"]
        if known is None:
            self.tree["trained_on"] = known = {
                name: self.digests(paths) for name, paths in files.items()
            }
            self.write()
        for name, digests in known.items():
            if name not in files and name in self.aside:
                continue
            if name not in files or self.digests(files[name]) != digests:
                what = "is gone" if name not in files else "has another scan or drawing now"
                raise InputError(
                    f"case {name}: {what} than when the run in {self.out} began. Bring back what "
                    f"was there, or name another --out."
                )
        return tuple(name for name in known if name in files)

    def digests(self, paths: Mapping[str, Path]) -> dict[str, str]:
        """sha256 of files; one whose size and time are known is not read again."""
        found = {}
        for name, path in paths.items():
            stat = path.stat()
            stamp = [stat.st_size, stat.st_mtime_ns]
            entry = self.tree["inputs"].get(name)
            if entry is None or entry["stamp"] != stamp:
                entry = self.tree["inputs"][name] = {"sha256": sha256(path), "stamp": stamp}
            found[name] = entry["sha256"]
        return found

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Note when a stage begins, how long it takes over all lives of the run, and its end."""
        entry = self.tree["stages"].setdefault(name, {"began": _now(), "seconds": 0.0})
        entry.update(ended=None)
        self.write()
        start = time.monotonic()
        yield
        entry["seconds"] = round(entry["seconds"] + time.monotonic() - start, 2)
        entry["ended"] = _now()
        self.write()

    def made(self, *paths: Path) -> None:
        """Note what a stage wrote, with its hash."""
        for path in paths:
            self.tree["outputs"][path.relative_to(self.out).as_posix()] = sha256(path)
        self.write()

    def write(self) -> None:
        """Write it, whole or not at all."""
        atomic.write_json(self.out / NAME, self.tree)


def sha256(path: Path) -> str:
    """The hash of a file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}. Make it readable.") from None


def _begin(dataset: Path, settings: Settings) -> Tree:
    return {
        "twoslice": __version__,
        "began": _now(),
        "dataset": str(dataset.resolve()),
        "settings": settings.model_dump(mode="json"),
        "seed": settings.training.seed,
        "versions": {"python": platform.python_version(), **_versions()},
        "machine": {"system": platform.platform(), "cores": usable_cores()},
        "stages": {},
        "set_aside": {},
        "trained_on": None,
        "inputs": {},
        "outputs": {},
    }


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _read(path: Path) -> Tree:
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        if not {"dataset", "settings", "stages", "set_aside", "inputs"} <= tree.keys():
            raise ValueError
    except FileNotFoundError:
        raise InputError(f"{path}: is missing. Name a folder that 'twoslice run' made.") from None
    except (OSError, ValueError, AttributeError):
        raise InputError(
            f"{path}: not readable as the record of a run. Bring it back, or name another --out."
        ) from None
    assert isinstance(tree, dict)
    return tree


def _files(dataset: Dataset, name: str) -> dict[str, Path]:
    case = dataset.cases[name]
    paths = [*case.images, *([case.label] if case.label else []), *case.parts.values()]
    return {path.relative_to(dataset.root).as_posix(): path for path in paths}


def _holds_something(out: Path) -> bool:
    return any(not path.name.startswith(atomic.PREFIX) for path in out.iterdir())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
