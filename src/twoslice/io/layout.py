"""Which files of a dataset folder make which case."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from twoslice.errors import DatasetError, InputError
from twoslice.planes import Plane

CHANNEL = re.compile(r"^(?P<case>.+)_(?P<channel>\d{4})$")


@dataclass(frozen=True)
class Case:
    """One scan of a dataset: its image files, a channel each, and its label file if it has one.

    `parts` are label files of single planes, such as `CASE_axial.nii.gz`: slices that were drawn
    apart and not yet put into one file.
    """

    name: str
    images: tuple[Path, ...]
    label: Path | None
    parts: Mapping[Plane, Path] = field(default_factory=dict)


def find_cases(
    root: Path,
    images: str,
    labels: str,
    ending: str,
    listed: Mapping[str, Any] | None = None,
) -> dict[str, Case]:
    """The cases that dataset.json lists, and all others whose `CASE_0000` … lie in `images`."""
    cases = {name: _listed_case(root, name, entry) for name, entry in (listed or {}).items()}
    # One listing, not a look for each case: a network disk answers thousands of looks slowly.
    present = {path.name: path for path in list_folder(root / labels)}
    taken = {path.resolve() for case in cases.values() for path in case.images}
    for name, channels in _channels(root / images, ending).items():
        files = tuple(channels[index] for index in sorted(channels))
        if name in cases or (taken and any(path.resolve() in taken for path in files)):
            continue
        if sorted(channels) != list(range(len(channels))):
            raise DatasetError(
                f"{root / images}: case {name} has channels {sorted(channels)}, expected 0 to "
                f"{len(channels) - 1}. Add the missing file or rename the others."
            )
        cases[name] = Case(name, files, present.get(f"{name}{ending}"))
    return {
        name: replace(case, parts=_parts(present, name, ending, cases))
        for name, case in sorted(cases.items())
    }


def _parts(
    present: Mapping[str, Path], name: str, ending: str, cases: Mapping[str, Case]
) -> dict[Plane, Path]:
    """The label files of single planes, unless one is another case's own label."""
    return {
        plane: present[f"{name}_{plane}{ending}"]
        for plane in Plane
        if f"{name}_{plane}" not in cases and f"{name}_{plane}{ending}" in present
    }


def list_folder(folder: Path) -> list[Path]:
    """What a folder holds, by name; hidden entries (unfinished writes among them) are passed."""
    try:
        if not folder.is_dir():
            return []
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}. Make the folder readable.") from None


def _channels(folder: Path, ending: str) -> dict[str, dict[int, Path]]:
    """Case names to their files by channel number."""
    found: dict[str, dict[int, Path]] = {}
    for path in list_folder(folder):
        match = CHANNEL.match(path.name[: -len(ending)]) if path.name.endswith(ending) else None
        if match and path.is_file():
            found.setdefault(match["case"], {})[int(match["channel"])] = path
    return found


def _listed_case(root: Path, name: str, entry: Any) -> Case:
    """A case as dataset.json lists it: paths from the dataset's folder, variables expanded."""
    where = f"{root / 'dataset.json'}: dataset['{name}']"
    if not isinstance(entry, dict) or not isinstance(entry.get("images"), list):
        raise DatasetError(f"{where} is {entry!r}, expected images (a list) and label. Mend it.")
    label = entry.get("label")
    paths = [*entry["images"], *([label] if label is not None else [])]
    if not entry["images"] or not all(isinstance(path, str) for path in paths):
        raise DatasetError(f"{where} names files as {paths!r}, expected paths. Mend it.")
    files = [root / os.path.expandvars(path) for path in paths]
    for file in files:
        if not file.is_file():
            raise DatasetError(f"{where} names {file}, which is not there. Mend the path.")
    count = len(entry["images"])
    return Case(name, tuple(files[:count]), files[count] if label is not None else None)
