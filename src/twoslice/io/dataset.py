"""Dataset: a folder in nnU-Net's raw layout.

dataset.json                 name, channel_names, labels (with `ignore`), file_ending
imagesTr/CASE_0000.nii.gz    one file a channel
labelsTr/CASE.nii.gz         a case without one is unlabelled
imagesTs/                    scans to predict, never to train on (optional)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twoslice.errors import AnnotationError, DatasetError, InputError
from twoslice.io import atomic
from twoslice.io.scans import read_channels, read_label_map
from twoslice.io.volume import LabelMap, Volume

IGNORE = "ignore"
_CHANNEL = re.compile(r"^(?P<case>.+)_(?P<channel>\d{4})$")


@dataclass(frozen=True)
class Case:
    """One scan of a dataset: its image files, a channel each, and its label file if it has one."""

    name: str
    images: tuple[Path, ...]
    label: Path | None


@dataclass(frozen=True)
class Dataset:
    """An opened dataset folder. Opening lists files; scans are read one at a time when asked."""

    root: Path
    name: str
    channel_names: tuple[str, ...]
    labels: Mapping[str, int]
    ignore: int | None
    file_ending: str
    cases: Mapping[str, Case]
    test_cases: Mapping[str, Case]

    @classmethod
    def open(cls, root: Path) -> Dataset:
        """Read `dataset.json` and list the cases, or say what is missing."""
        description = _read_description(root)
        ending = description["file_ending"]
        channels = _channel_names(root, description)
        labels, ignore = _labels(root, description)
        cases = _find_cases(root, "imagesTr", "labelsTr", ending, description.get("dataset"))
        if not cases:
            raise DatasetError(
                f"{root / 'imagesTr'}: no scan ends in '_0000{ending}'. "
                f"Put the scans there, or make the folder with 'twoslice import'."
            )
        _refuse_missing_channels(root, [*cases.values()], len(channels))
        test = _find_cases(root, "imagesTs", "labelsTs", ending, None)
        return cls(
            root=root,
            name=str(description.get("name") or root.name),
            channel_names=channels,
            labels=labels,
            ignore=ignore,
            file_ending=ending,
            cases=cases,
            test_cases=test,
        )

    @property
    def classes(self) -> int:
        """How many classes a voxel can have, background included, `ignore` not."""
        return max(self.labels.values()) + 1

    @property
    def class_names(self) -> tuple[str, ...]:
        """The label names in the order of their values."""
        by_value = {value: name for name, value in self.labels.items()}
        return tuple(by_value.get(value, f"label {value}") for value in range(self.classes))

    @property
    def labeled(self) -> tuple[str, ...]:
        """The cases that have a label file."""
        return tuple(name for name, case in self.cases.items() if case.label is not None)

    @property
    def unlabeled(self) -> tuple[str, ...]:
        """The cases that have none."""
        return tuple(name for name, case in self.cases.items() if case.label is None)

    def case(self, name: str) -> Case:
        """The case called `name`, training or test."""
        found = self.cases.get(name) or self.test_cases.get(name)
        if found is None:
            raise DatasetError(f"{self.root}: no case is called '{name}'. See imagesTr.")
        return found

    def read_image(self, name: str) -> Volume:
        """All channels of one case; finite, on one grid."""
        return read_channels(self.case(name).images)

    def read_labels(self, name: str) -> LabelMap:
        """The label file of one case; on the image's grid, with known values only."""
        case = self.case(name)
        if case.label is None:
            raise AnnotationError(f"case {name}: has no label file in {self.root / 'labelsTr'}.")
        labels = read_label_map(case.label)
        image = read_channels(case.images[:1]).grid
        if not labels.grid.same_as(image):
            raise AnnotationError(
                f"{case.label}: lies on another grid ({labels.grid.shape}, "
                f"{labels.grid.orientation}) than its image ({image.shape}, {image.orientation}). "
                f"Export the label on the image's own grid."
            )
        known = {*self.labels.values()} | ({self.ignore} if self.ignore is not None else set())
        strange = sorted(set(np.unique(labels.data).tolist()) - known)
        if strange:
            raise AnnotationError(
                f"{case.label}: holds label values {strange}, but dataset.json knows "
                f"{sorted(known)}. Name them in dataset.json or repaint them."
            )
        return labels


def write_description(
    root: Path,
    *,
    name: str,
    channel_names: tuple[str, ...],
    labels: Mapping[str, int],
    ignore: int | None,
    training_cases: int,
    file_ending: str = ".nii.gz",
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Write `dataset.json` as nnU-Net reads it; `numTraining` counts the files in labelsTr."""
    named = dict(sorted(labels.items(), key=lambda item: item[1]))
    if ignore is not None:
        named[IGNORE] = ignore
    atomic.write_json(
        root / "dataset.json",
        {
            "name": name,
            "channel_names": {str(index): text for index, text in enumerate(channel_names)},
            "labels": named,
            "numTraining": training_cases,
            "file_ending": file_ending,
            **(extra or {}),
        },
    )


def _read_description(root: Path) -> dict[str, Any]:
    path = root / "dataset.json"
    if not root.is_dir():
        raise DatasetError(f"{root}: there is no such folder. Check the path.")
    try:
        description: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DatasetError(
            f"{root}: has no dataset.json. Make a dataset folder with 'twoslice import'."
        ) from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DatasetError(f"{path}: not readable as JSON ({error}). Mend it.") from None
    if not isinstance(description, dict):
        raise DatasetError(f"{path}: holds a {type(description).__name__}, expected an object.")
    for key in ("labels", "file_ending"):
        if key not in description:
            raise DatasetError(f"{path}: lacks '{key}'. Add it as nnU-Net's raw format asks.")
    return description


def _channel_names(root: Path, description: Mapping[str, Any]) -> tuple[str, ...]:
    names = description.get("channel_names") or description.get("modality")
    if not isinstance(names, dict) or sorted(names) != sorted(map(str, range(len(names)))):
        raise DatasetError(
            f'{root / "dataset.json"}: channel_names must number the channels from "0", '
            f"got {names!r}."
        )
    return tuple(str(names[str(index)]) for index in range(len(names)))


def _labels(root: Path, description: Mapping[str, Any]) -> tuple[dict[str, int], int | None]:
    """Names to values, and the ignore value. Regions (lists) become their single values."""
    path = root / "dataset.json"
    raw = description["labels"]
    if not isinstance(raw, dict) or not raw:
        raise DatasetError(f"{path}: labels must map names to whole numbers, got {raw!r}.")
    labels: dict[str, int] = {}
    for name, value in raw.items():
        values = value if isinstance(value, list) else [value]
        if not values or not all(isinstance(v, int) and not isinstance(v, bool) for v in values):
            raise DatasetError(f"{path}: label '{name}' is {value!r}, expected a whole number.")
        if len(values) == 1:
            labels[name] = values[0]
        else:
            for single in values:
                if single not in labels.values():
                    labels.setdefault(f"label {single}", single)
    ignore = labels.pop(IGNORE, None)
    if len(set(labels.values())) != len(labels):
        raise DatasetError(f"{path}: two labels have the same value: {raw!r}. Give each its own.")
    if sorted(labels.values()) != list(range(len(labels))) or len(labels) < 2:
        raise DatasetError(
            f"{path}: label values are {sorted(labels.values())}, expected background 0 and then "
            f"1, 2, … without a gap. Renumber them."
        )
    if ignore is not None and ignore != len(labels):
        raise DatasetError(
            f"{path}: ignore is {ignore}, expected {len(labels)}, one past the last label."
        )
    if len(labels) > 254:
        raise DatasetError(f"{path}: {len(labels)} labels; at most 254 are supported.")
    return labels, ignore


def _find_cases(root: Path, images: str, labels: str, ending: str, listed: Any) -> dict[str, Case]:
    """Group `CASE_0000`, `CASE_0001` … into cases; or take them from dataset.json's own list."""
    if isinstance(listed, dict) and listed:
        return {
            name: Case(
                name,
                tuple(root / image for image in entry["images"]),
                root / entry["label"] if entry.get("label") else None,
            )
            for name, entry in sorted(listed.items())
        }
    folder = root / images
    found: dict[str, dict[int, Path]] = {}
    try:
        files = sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}. Make the folder readable.") from None
    for path in files:
        if path.name.startswith(".") or not path.name.endswith(ending):
            continue
        match = _CHANNEL.match(path.name[: -len(ending)])
        if match:
            found.setdefault(match["case"], {})[int(match["channel"])] = path
    cases = {}
    for name, channels in sorted(found.items()):
        label = root / labels / f"{name}{ending}"
        ordered = tuple(channels[index] for index in sorted(channels))
        cases[name] = Case(name, ordered, label if label.is_file() else None)
    return cases


def _refuse_missing_channels(root: Path, cases: list[Case], channels: int) -> None:
    for case in cases:
        if len(case.images) != channels:
            raise DatasetError(
                f"{root}: case {case.name} has {len(case.images)} image file(s), but dataset.json "
                f"names {channels} channel(s). Add the missing files or mend channel_names."
            )
