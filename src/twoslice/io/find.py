"""Which scans lie under the paths a user named, and what each case is called.

scan.nii.gz                      case scan
CASE_0000.nii.gz, CASE_0001…     case CASE with its channels, if they count from 0
FOLDER/ with DICOM images        case FOLDER
ID/mri_norm2.h5                  case ID
FOLDER/ of any of these          one case each; what lies deeper is named by its folders too
FOLDER/imagesTr/                 a dataset: its imagesTr and imagesTs
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from twoslice.errors import ScanError
from twoslice.io.layout import CHANNEL, list_folder
from twoslice.io.scans import ending_of, format_of, is_scan

H5_NAME = "mri_norm2"
_UNSAFE = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|$]+')


class FoundScan(NamedTuple):
    """A case's name and its files (or its DICOM folder), a channel each."""

    case: str
    paths: tuple[Path, ...]


def find_scans(
    inputs: Path | Sequence[Path], *, skip: Callable[[Path], bool] | None = None
) -> list[FoundScan]:
    """The scans in files and folders of any supported format, in order of case name.

    What `skip` says of a file in a folder is asked before cases are formed from channels. Raises
    a ScanError if a path holds no scan, or if two scans would be the same case.
    """
    given = [inputs] if isinstance(inputs, Path) else list(inputs)
    named: list[tuple[str, Path]] = []
    for path in given:
        found = _in_folder(path) if path.is_dir() else [_single(path)]
        if skip is not None and path.is_dir():
            found = [(name, file) for name, file in found if not skip(file)]
        if not found:
            raise ScanError(
                f"{path}: no scans in it. Name a folder or files in one of the supported formats: "
                f"NIfTI, NRRD, MHA/MHD, DICOM, HDF5."
            )
        named += found
    return sorted(_grouped(named))


def safe_name(text: str) -> str:
    """A case name that works as a file name everywhere and stays readable.

    Letters of any script and spaces stay; signs that some file system or shell expansion would
    not take become `-`.
    """
    name = _UNSAFE.sub("-", unicodedata.normalize("NFC", text)).strip().strip(".")
    return name or "scan"


def stem_of(path: Path) -> str:
    """The file's name without its ending; the folder's name for `ID/mri_norm2.h5` and DICOM."""
    ending = None if path.is_dir() else ending_of(path.name)
    if ending is None:
        return path.resolve().name if path.is_dir() else path.stem
    stem = path.name[: -len(ending)]
    return path.resolve().parent.name if stem == H5_NAME else stem


def _single(path: Path) -> tuple[str, Path]:
    format_of(path)  # says what is wrong with a path that cannot be read
    return safe_name(stem_of(path)), path


def _in_folder(folder: Path) -> list[tuple[str, Path]]:
    """Every scan under a folder with its name; a dataset's images, not its labels."""
    if (folder / "imagesTr").is_dir():
        parts = (folder / "imagesTr", folder / "imagesTs")
        return [found for part in parts for found in _walk(part, ())]
    if is_scan(folder):
        return [(safe_name(stem_of(folder)), folder)]
    return _walk(folder, ())


def _walk(folder: Path, above: tuple[str, ...]) -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    for path in list_folder(folder):
        if path.is_dir() and not is_scan(path):
            found += _walk(path, (*above, path.name))
        elif is_scan(path):
            parts = above if _named_by_folder(path) and above else (*above, stem_of(path))
            found.append((safe_name("_".join(parts)), path))
    return found


def _named_by_folder(path: Path) -> bool:
    return path.stem == H5_NAME


def _grouped(named: Iterable[tuple[str, Path]]) -> list[FoundScan]:
    """Join `CASE_0000`, `CASE_0001` … into one case each, and refuse a case that is there twice."""
    single: dict[str, Path] = {}
    for name, path in named:
        known = single.get(name)
        if known is not None and known.resolve() != path.resolve():
            raise listed_twice(name, known, path)
        if known is not None:
            raise ScanError(f"case '{name}' is listed twice ({path}). Name it once.")
        single[name] = path
    cases = _channels(single)
    seen: dict[str, FoundScan] = {}
    for case in cases:
        # File systems that do not tell A from a would let one overwrite the other.
        other = seen.setdefault(case.case.casefold(), case)
        if other is not case:
            raise listed_twice(case.case, other.paths[0], case.paths[0])
    return cases


def listed_twice(case: str, first: Path, second: Path) -> ScanError:
    """The error for two scans that would be one case."""
    return ScanError(
        f"case '{case}' is listed twice: {first} and {second}. Rename one of them, or leave it out."
    )


def _channels(single: dict[str, Path]) -> list[FoundScan]:
    """Names end in channels if one has both _0000 and _0001, or if each has _0000 alone.

    Otherwise the number belongs to the name: scan_0001, scan_0002 are two scans. A case whose last
    channels are missing comes with those that it has: whoever reads it says what it lacks, and the
    other cases are none the worse for it.
    """
    groups: dict[str, dict[int, Path]] = {}
    plain: dict[str, Path] = {}
    for name, path in single.items():
        match = CHANNEL.match(name)
        if match and not path.is_dir():
            groups.setdefault(match["case"], {})[int(match["channel"])] = path
        else:
            plain[name] = path
    several = any({0, 1} <= channels.keys() for channels in groups.values())
    if not several and any(channels.keys() != {0} for channels in groups.values()):
        return [FoundScan(name, (path,)) for name, path in single.items()]
    cases = [FoundScan(name, (path,)) for name, path in plain.items()]
    for name, channels in groups.items():
        if name in plain:
            raise listed_twice(name, plain[name], channels[min(channels)])
        gaps = set(range(max(channels))) - channels.keys()
        if gaps:
            raise ScanError(
                f"{channels[max(channels)]}: case {name} lacks channel {min(gaps):04d}. Add the "
                f"missing file, or leave this case out."
            )
        cases.append(FoundScan(name, tuple(channels[index] for index in sorted(channels))))
    return cases
