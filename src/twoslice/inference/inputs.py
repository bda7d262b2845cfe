"""Which scans a prediction is about: those under the named paths, but never what an earlier
prediction wrote there, which would be segmented as if it were a scan.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twoslice.errors import ScanError, SettingsError
from twoslice.io.find import FoundScan, find_scans
from twoslice.progress import Progress

MANIFEST = "predictions.json"


def find_inputs(inputs: Sequence[Path], out: Path, progress: Progress) -> list[FoundScan]:
    """The scans in `inputs` that lie neither in `out` nor in another folder of predictions."""
    results: list[Path] = []

    def skip(path: Path) -> bool:
        found = _is_result(path, out)
        if found:
            results.append(path)
        return found

    try:
        scans = find_scans(inputs, skip=skip)
    except ScanError as error:
        if not results:
            raise
        raise ScanError(
            f"{error} (What lies in {out} or in another folder of predictions is no scan.)"
        ) from None
    if results:
        progress.say(f"left out {len(results)} file(s) that lie in {out} or in other predictions")
    return scans


def refuse_useless_series(scans: Sequence[FoundScan], series: str | None) -> None:
    """`--series` chooses within DICOM folders and would be passed over silently elsewhere."""
    if series is not None and not any(path.is_dir() for scan in scans for path in scan.paths):
        raise SettingsError("--series is for DICOM folders, and none was named. Leave it out.")


def read_manifest(folder: Path) -> dict[str, Any]:
    """What `predictions.json` in a folder says; nothing if there is none."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_result(path: Path, out: Path) -> bool:
    """Whether a file lies in `out`, or beside or below (probabilities/) another manifest."""
    where = path.resolve()
    if where.is_relative_to(out.resolve()):
        return True
    return any(
        {"run", "step", "cases"} <= read_manifest(above).keys() for above in where.parents[:2]
    )
