"""What the labels of an imported dataset are called."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twoslice.errors import AnnotationError, DatasetError, SettingsError
from twoslice.io.description import BACKGROUND, IGNORE, MOST_LABELS, read_description

_ONE_LABEL = "target"


@dataclass(frozen=True)
class LabelNames:
    """Names to values, the ignore value, and the channel names where a source dataset has them."""

    labels: Mapping[str, int]
    ignore: int | None
    channels: tuple[str, ...] = ()


def label_names_for(
    sources: Sequence[Path],
    wanted: Sequence[str] | None,
    values: Mapping[int, Path],
    *,
    some_unlabeled: bool,
) -> LabelNames:
    """The user's names, the source dataset's, or plain ones for the values that were found.

    `values` maps each value to a label file that holds it.
    A dataset with unlabelled scans gets an `ignore` label, for slices that are still to be drawn.
    """
    known = _of_sources(sources)
    if wanted is not None:
        labels, ignore = _wanted(wanted)
        channels = known.channels if known else ()
    elif known is not None:
        labels, ignore, channels = dict(known.labels), known.ignore, known.channels
    else:
        labels, ignore, channels = _from_values(values), None, ()
    allowed = {*labels.values()} | ({ignore} if ignore is not None else set())
    for value in sorted(values.keys() - allowed):
        raise AnnotationError(
            f"{values[value]}: holds label value {value}, but the labels are "
            f"{', '.join(f'{known} {name}' for name, known in labels.items())}. Name every value "
            f"with --names, or repaint them."
        )
    if ignore is None and some_unlabeled:
        ignore = len(labels)
    return LabelNames(labels, ignore, channels)


def _wanted(names: Sequence[str]) -> tuple[dict[str, int], int | None]:
    """The user's names; `ignore` as the last one is the value of what nobody drew."""
    if names and names[-1] == IGNORE:
        return _numbered(names[:-1]), len(names)
    return _numbered(names), None


def _numbered(names: Sequence[str]) -> dict[str, int]:
    if not names or len({BACKGROUND, IGNORE, *names}) != len(names) + 2:
        raise SettingsError(
            f"--names {','.join(names)}: expected a name of its own for each label from 1 on, "
            f"without '{BACKGROUND}', and '{IGNORE}' at most as the last one."
        )
    return {BACKGROUND: 0} | {name: value for value, name in enumerate(names, start=1)}


def _from_values(values: Mapping[int, Path]) -> dict[str, int]:
    highest = max({1, *values})
    missing = set(range(1, highest)) - values.keys()
    if highest >= MOST_LABELS or missing:
        raise AnnotationError(
            f"{values[highest]}: label values run to {highest}; all files together hold "
            f"{_few(sorted(values))}, expected 0, 1, 2, … without a gap. Renumber them, or "
            f"name every value from 1 on with --names."
        )
    if highest == 1:
        return _numbered([_ONE_LABEL])
    return _numbered([f"label {value}" for value in range(1, highest + 1)])


def _few(values: list[int]) -> str:
    return ", ".join(map(str, values[:8])) + (", …" if len(values) > 8 else "")


def _of_sources(sources: Sequence[Path]) -> LabelNames | None:
    """What the dataset.json of the source folders say; they must say the same."""
    found: LabelNames | None = None
    for source in sources:
        path = source / "dataset.json"
        if not path.is_file() or not (source / "imagesTr").is_dir():
            continue
        names = _of_decathlon(path) or _of_nnunet(source)
        if found is not None and names != found:
            raise DatasetError(
                f"{path}: names other labels or channels than the dataset before it. Import them "
                f"one by one, or give all of them one dataset.json."
            )
        found = names
    return found


def _of_nnunet(root: Path) -> LabelNames:
    description = read_description(root)
    return LabelNames(description.labels, description.ignore, description.channel_names)


def _of_decathlon(path: Path) -> LabelNames | None:
    """The Medical Segmentation Decathlon maps values to names: {"0": "background", …}."""
    try:
        raw: Any = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return None  # read_description says what is wrong with it
    labels = raw.get("labels") if isinstance(raw, dict) else None
    if not isinstance(labels, dict) or "file_ending" in raw:
        return None
    if sorted(labels) != sorted(map(str, range(len(labels)))) or len(labels) < 2:
        return None
    names = [str(labels[str(value)]) for value in range(1, len(labels))]
    channels = raw.get("modality")
    kept = tuple(map(str, channels.values())) if isinstance(channels, dict) else ()
    return LabelNames(_numbered(names), None, kept)
