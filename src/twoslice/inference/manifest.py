"""`predictions.json`: which run made the label maps of a folder, how, and from which files.

A case is finished if the manifest says so and its files still are what it says: the scan has the
size and time that were read, the label map the size that was written. Anything else is made again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twoslice.errors import OutputError
from twoslice.inference.inputs import MANIFEST, read_manifest
from twoslice.io import atomic
from twoslice.io.find import FoundScan
from twoslice.settings import InferenceSettings
from twoslice.training.run import Run

_SHARE_OF_TIME = 20
"""A record is written again after so many times the time that it took."""


class Manifest:
    """The record of one folder, a context: `add` and `fail` write it anew, whole; but a long one
    only as often as that takes a small share of the time, and at the end.
    """

    def __init__(self, out: Path, identity: dict[str, Any], cases: dict[str, Any]) -> None:
        self.out, self.identity, self.cases = out, identity, cases
        self.failed: dict[str, str] = {}
        self._due = 0.0

    def __enter__(self) -> Manifest:
        return self

    def __exit__(self, *raised: object) -> None:
        self.write()

    @classmethod
    def claim(
        cls, out: Path, run: Run, options: InferenceSettings, series: str | None, *, overwrite: bool
    ) -> Manifest:
        """Mark the folder as this run's before the first map: a killed prediction can then go on.

        Label maps of another run or other options are neither taken as ours nor replaced, unless
        `overwrite` says so; files of nobody knows whom never are.
        """
        identity = {
            "run": str(run.folder.resolve()),
            "step": run.step,
            "weights": run.fingerprint,
            "series": series,
            "options": options.model_dump(mode="json"),
        }
        found = read_manifest(out) if out.is_dir() else {}
        same = {key: found.get(key) for key in identity} == identity
        if out.is_dir() and any(out.iterdir()) and not same and not (overwrite and found):
            raise _foreign(out, run, found, identity)
        cases = found.get("cases") if same and not overwrite else {}
        manifest = cls(out, identity, cases if isinstance(cases, dict) else {})
        manifest.write()
        return manifest

    def finished(self, scan: FoundScan, files: Sequence[Path]) -> bool:
        """Whether all `files` of a case are there, made from its scan as it is now."""
        known = self.cases.get(scan.case)
        if not isinstance(known, dict) or known.get("scan") != _stamps(scan.paths):
            return False
        sizes = known.get("files", {})
        return all(
            path.is_file() and sizes.get(self._name(path)) == path.stat().st_size for path in files
        )

    def add(self, scan: FoundScan, files: Sequence[Path]) -> None:
        """A case is done; what was made of it before and lies there still stays known."""
        known = self.cases.get(scan.case, {})
        before = known.get("files", {}) if known.get("scan") == _stamps(scan.paths) else {}
        now = {self._name(path): path.stat().st_size for path in files}
        self.cases[scan.case] = {"scan": _stamps(scan.paths), "files": {**before, **now}}
        self._write_if_due()

    def fail(self, case: str, fault: str) -> None:
        """A case could not be predicted."""
        self.failed[case] = fault
        self.cases.pop(case, None)
        self._write_if_due()

    def write(self) -> None:
        """Write it, whole or not at all."""
        record = {
            **self.identity,
            "cases": dict(sorted(self.cases.items())),
            "failed": self.failed,
        }
        atomic.write_json(self.out / MANIFEST, record)

    def _write_if_due(self) -> None:
        """Of thousands of cases, what is not noted when the power goes is made again."""
        begun = time.monotonic()
        if begun >= self._due:
            self.write()
            now = time.monotonic()
            self._due = now + _SHARE_OF_TIME * (now - begun)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.out).as_posix()


def _foreign(out: Path, run: Run, found: dict[str, Any], identity: dict[str, Any]) -> OutputError:
    """Say what the folder holds instead, as exactly as its manifest does."""
    for key, what in (("series", "--series"), ("options", "options")):
        ours = all(found.get(k) == v for k, v in identity.items() if k != key)
        if ours and found.get(key) != identity[key]:
            return OutputError(
                f"{out}: holds label maps that this run made with other {what} "
                f"({json.dumps(found.get(key))}). Name another --out, or say --overwrite."
            )
    if found.get("run") == identity["run"] and found.get("step") == identity["step"]:
        return OutputError(
            f"{out}: holds label maps of other weights than the run has now: it was trained anew. "
            f"Name another --out, or say --overwrite."
        )
    more = " or, to replace them, say --overwrite" if found else ""
    return OutputError(
        f"{out}: holds files that this run at step {run.step} did not make. Name another --out"
        f"{more}."
    )


def _stamps(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Where each file lies, how large it is and when it changed; of a folder, all its files."""
    stamps = []
    for path in paths:
        try:
            files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
            states = [file.stat() for file in files]
        except OSError:  # gone or unreadable: whoever reads it says so
            states = []
        stamps.append(
            {
                "path": str(path.resolve()),
                "bytes": sum(state.st_size for state in states),
                "changed": max((state.st_mtime_ns for state in states), default=0),
            }
        )
    return stamps
