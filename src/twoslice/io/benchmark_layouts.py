"""The paper's three data sets in the folders that people download them in.

LA       <id>/lgemri.nrrd, <id>/laendo.nrrd, or <id>/mri_norm2.h5
KiTS19   case_00000/imaging.nii.gz, case_00000/segmentation.nii.gz
LiTS     volume-0.nii, segmentation-0.nii, in one folder or in several
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from twoslice.errors import DatasetError, ScanError
from twoslice.io.find import listed_twice, safe_name

BenchmarkName = Literal["la", "kits19", "lits"]
H5 = "mri_norm2.h5"
_LITS = re.compile(r"(?P<kind>volume|segmentation)-(?P<number>\d+)\.nii(\.gz)?")
_EXPECTED = {
    "la": f"<id>/lgemri.nrrd with <id>/laendo.nrrd, or <id>/{H5}",
    "kits19": "case_00000/imaging.nii.gz with case_00000/segmentation.nii.gz",
    "lits": "volume-0.nii with segmentation-0.nii",
}


@dataclass(frozen=True)
class Pair:
    """One scan with its dense label; both are the same file for .h5."""

    case: str
    image: Path
    label: Path

    @property
    def prepared(self) -> bool:
        """Whether it comes cropped and normalised already."""
        return self.image.name == H5


def find_pairs(name: BenchmarkName, sources: Sequence[Path]) -> tuple[list[Pair], list[str]]:
    """The scans that have a label, by case name; and the names of those that have none."""
    for source in sources:
        if not source.is_dir():
            raise ScanError(f"{source}: there is no such folder. Name the data set's own folder.")
    files = [path for source in sources for path in sorted(source.rglob("*")) if _is_file(path)]
    finder = {"la": _la, "kits19": _kits19, "lits": _lits}[name]
    images, labels = finder(files)
    pairs = [Pair(case, images[case], labels[case]) for case in sorted(images) if case in labels]
    if not pairs:
        raise DatasetError(
            f"{sources[0]}: holds no labelled scan of {name}, expected {_EXPECTED[name]}. Name the "
            f"folder that holds them."
        )
    return pairs, sorted(images.keys() - labels.keys())


def find_list(name: str, sources: Sequence[Path]) -> list[str] | None:
    """The cases in a `train.list` or `test.list` beside the scans; None if there is no such."""
    for source in sources:
        for folder in (source, source.parent):
            path = folder / name
            if path.is_file():
                return [safe_name(line) for line in path.read_text(encoding="utf-8").split()]
    return None


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")


def _la(files: Iterable[Path]) -> tuple[dict[str, Path], dict[str, Path]]:
    files = list(files)
    raw = _by_folder(files, "lgemri.nrrd"), _by_folder(files, "laendo.nrrd")
    h5 = _by_folder(files, H5)
    if raw[0] and h5:
        first, second = next(iter(raw[0].values())), next(iter(h5.values()))
        raise DatasetError(
            f"{first} and {second}: scans as they were taken, and scans that are cropped and "
            f"normalised already. Import one kind."
        )
    return (h5, h5) if h5 else raw


def _kits19(files: Iterable[Path]) -> tuple[dict[str, Path], dict[str, Path]]:
    files = list(files)
    return _by_folder(files, "imaging.nii.gz"), _by_folder(files, "segmentation.nii.gz")


def _lits(files: Iterable[Path]) -> tuple[dict[str, Path], dict[str, Path]]:
    found: Mapping[str, dict[str, Path]] = {"volume": {}, "segmentation": {}}
    for path in files:
        match = _LITS.fullmatch(path.name)
        if match:
            _put(found[match["kind"]], f"lits_{int(match['number']):03d}", path)
    return found["volume"], found["segmentation"]


def _by_folder(files: Iterable[Path], name: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in files:
        if path.name == name:
            _put(found, safe_name(path.resolve().parent.name), path)
    return found


def _put(found: dict[str, Path], case: str, path: Path) -> None:
    known = found.setdefault(case, path)
    if known != path:
        raise listed_twice(case, known, path)
