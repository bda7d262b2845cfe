"""`dataset.json`: what nnU-Net asks of it, read leniently and written strictly."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twoslice.errors import DatasetError
from twoslice.io import atomic
from twoslice.io.layout import find_cases

IGNORE = "ignore"
BACKGROUND = "background"
MOST_LABELS = 254


@dataclass(frozen=True)
class Description:
    """What dataset.json says; `raw` keeps every key, also those that nobody here reads."""

    name: str
    channel_names: tuple[str, ...]
    labels: Mapping[str, int]
    ignore: int | None
    file_ending: str
    listed: Mapping[str, Any] | None
    raw: Mapping[str, Any]


def read_description(root: Path) -> Description:
    """Read `dataset.json` of a dataset folder, or say which part of it cannot be used."""
    path = root / "dataset.json"
    raw = _read_json(root, path)
    ending = raw["file_ending"]
    if not isinstance(ending, str) or not ending.startswith("."):
        raise DatasetError(f"{path}: file_ending is {ending!r}, expected such as '.nii.gz'.")
    listed = raw.get("dataset")
    if listed is not None and not isinstance(listed, dict):
        raise DatasetError(f"{path}: dataset is {type(listed).__name__}, expected case names.")
    labels, ignore = _labels(path, raw["labels"])
    return Description(
        name=str(raw.get("name") or root.resolve().name),
        channel_names=_channel_names(path, raw),
        labels=labels,
        ignore=ignore,
        file_ending=ending,
        listed=listed,
        raw=raw,
    )


def write_description(
    root: Path,
    *,
    name: str,
    channel_names: Sequence[str],
    labels: Mapping[str, int],
    ignore: int | None,
    file_ending: str = ".nii.gz",
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Write `dataset.json` so that nnU-Net accepts the folder; call it when the files are there.

    `labels` maps names to values without `ignore`. Where some scans are unlabelled, the labelled
    cases are listed under `dataset`, and `numTraining` counts them.
    """
    named = dict(sorted(labels.items(), key=lambda item: item[1]))
    if ignore is not None:
        named[IGNORE] = ignore
    _labels(root / "dataset.json", named)
    raw = {
        "name": name,
        "channel_names": {str(index): text for index, text in enumerate(channel_names)},
        "labels": named,
        "file_ending": file_ending,
        **(extra or {}),
    }
    _write_counted(root, raw, file_ending)


def refresh_description(root: Path) -> None:
    """Bring `numTraining` and the list of labelled cases up to date; all else stays."""
    description = read_description(root)
    raw = {key: value for key, value in description.raw.items() if key != "dataset"}
    _write_counted(root, raw, description.file_ending)


def add_ignore(root: Path) -> int:
    """The value of `ignore` in dataset.json, one past the last label; named there if it is not."""
    description = read_description(root)
    if description.ignore is not None:
        return description.ignore
    value = max(description.labels.values()) + 1
    raw = {**description.raw, "labels": {**description.raw["labels"], IGNORE: value}}
    atomic.write_json(root / "dataset.json", raw)
    return value


def _write_counted(root: Path, raw: dict[str, Any], ending: str) -> None:
    cases = find_cases(root, "imagesTr", "labelsTr", ending)
    labeled = [case for case in cases.values() if case.label is not None]
    counted = {**raw, "numTraining": len(labeled)}
    if len(labeled) < len(cases):
        counted["dataset"] = {
            case.name: {
                "images": [f"imagesTr/{image.name}" for image in case.images],
                "label": f"labelsTr/{case.name}{ending}",
            }
            for case in labeled
        }
    atomic.write_json(root / "dataset.json", counted)


def _read_json(root: Path, path: Path) -> dict[str, Any]:
    if not root.is_dir():
        raise DatasetError(f"{root}: there is no such folder. Check the path.")
    try:
        raw: Any = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise DatasetError(
            f"{root}: has no dataset.json. Make a dataset folder with 'twoslice import'."
        ) from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DatasetError(f"{path}: not readable as JSON ({error}). Mend it.") from None
    if not isinstance(raw, dict):
        raise DatasetError(f"{path}: holds a {type(raw).__name__}, expected an object. Mend it.")
    if "file_ending" not in raw and "labels" in raw and "modality" in raw:
        raise DatasetError(
            f"{path}: is in the Decathlon's form, expected nnU-Net's raw format. Turn the folder "
            f"into a dataset with 'twoslice import'."
        )
    for key in ("labels", "file_ending"):
        if key not in raw:
            raise DatasetError(f"{path}: lacks '{key}'. Add it as nnU-Net's raw format asks.")
    return raw


def _channel_names(path: Path, raw: Mapping[str, Any]) -> tuple[str, ...]:
    names = raw.get("channel_names") or raw.get("modality")
    if not isinstance(names, dict) or sorted(names) != sorted(map(str, range(len(names)))):
        raise DatasetError(
            f'{path}: channel_names must number the channels from "0", got {names!r}. Mend it.'
        )
    return tuple(str(names[str(index)]) for index in range(len(names)))


def _labels(path: Path, raw: Any) -> tuple[dict[str, int], int | None]:
    """Names to values, and the ignore value. Regions (lists) become the values they are made of."""
    if not isinstance(raw, dict) or not raw:
        raise DatasetError(f"{path}: labels must map names to whole numbers, got {raw!r}. Mend it.")
    regions = {name: _values(path, name, value) for name, value in raw.items() if name != IGNORE}
    by_value: dict[int, str] = {}
    for name, values in regions.items():
        if len(values) == 1:
            # nnU-Net lets two names share a value; they are then one label with both names.
            shared = by_value.get(values[0])
            by_value[values[0]] = f"{shared} / {name}" if shared else name
    for value in sorted({value for values in regions.values() for value in values}):
        by_value.setdefault(value, f"label {value}")
    found = sorted(by_value)
    if found != list(range(len(found))) or len(found) < 2:
        raise DatasetError(
            f"{path}: label values are {found}, expected background 0 and then 1, 2, … without a "
            f"gap. Renumber them."
        )
    if by_value[0].split(" / ")[0] != BACKGROUND and BACKGROUND not in raw:
        raise DatasetError(f"{path}: label 0 is '{by_value[0]}', expected '{BACKGROUND}'.")
    if len(found) > MOST_LABELS:
        raise DatasetError(f"{path}: {len(found)} labels; at most {MOST_LABELS} are supported.")
    return {by_value[value]: value for value in found}, _ignore(path, raw, len(found))


def _ignore(path: Path, raw: Mapping[str, Any], expected: int) -> int | None:
    if IGNORE not in raw:
        return None
    values = _values(path, IGNORE, raw[IGNORE])
    if values != [expected]:
        raise DatasetError(
            f"{path}: ignore is {raw[IGNORE]!r}, expected {expected}, one past the last label. "
            f"Renumber it."
        )
    return expected


def _values(path: Path, name: str, value: Any) -> list[int]:
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(v, int) and not isinstance(v, bool) for v in values):
        raise DatasetError(
            f"{path}: label '{name}' is {value!r}, expected a whole number. Mend it."
        )
    return values
