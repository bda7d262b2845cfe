"""Dataset: a folder in nnU-Net's raw layout.

    dataset.json                 name, channel_names, labels (with `ignore`), file_ending
    imagesTr/CASE_0000.nii.gz    one file a channel
    labelsTr/CASE.nii.gz         a case without one is unlabelled
    imagesTs/                    scans to predict, never to train on (optional)

Unlabelled scans and nnU-Net. nnU-Net wants a label for each case that it trains on. It takes the
cases from `dataset` in dataset.json where there is one, and from imagesTr otherwise. So a dataset
with unlabelled scans is written with a `dataset` that lists its labelled cases alone, and
`numTraining` counts those; nnU-Net then trains on the labelled cases and never looks at the rest.
When a dataset is opened here, the cases are those listed and all others found in imagesTr, and a
label file counts whether its case is listed or not: a label drawn later needs no new
dataset.json (`refresh_description` brings it up to date for nnU-Net). A label that holds
nothing but `ignore` says as little as none: its case is unlabelled too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from twoslice.errors import AnnotationError, DatasetError, InputError
from twoslice.io.description import (
    IGNORE,
    Description,
    read_description,
    refresh_description,
    write_description,
)
from twoslice.io.grid import Grid
from twoslice.io.layout import Case, find_cases
from twoslice.io.scans import read_channels, read_grid, read_label_map
from twoslice.io.volume import LabelMap, Volume

__all__ = [
    "IGNORE",
    "Case",
    "Dataset",
    "read_description",
    "refresh_description",
    "write_description",
]


@dataclass(frozen=True)
class Dataset:
    """An opened dataset folder. Opening lists files; scans are read one at a time when asked."""

    root: Path
    description: Description
    cases: Mapping[str, Case]
    test_cases: Mapping[str, Case]

    @classmethod
    def open(cls, root: Path, *, faults: dict[str, str] | None = None) -> Dataset:
        """Read `dataset.json` and list the cases, or say what is missing.

        Where `faults` is given, a case that lacks a channel is left out and noted there, unless
        all of them do.
        """
        description = read_description(root)
        ending = description.file_ending
        cases = find_cases(root, "imagesTr", "labelsTr", ending, description.listed)
        if not cases:
            raise DatasetError(
                f"{root / 'imagesTr'}: no scan ends in '_0000{ending}'. "
                f"Put the scans there, or make the folder with 'twoslice import'."
            )
        test_cases = find_cases(root, "imagesTs", "labelsTs", ending)
        wanted = len(description.channel_names)
        odd = [
            each for each in (*cases.values(), *test_cases.values()) if len(each.images) != wanted
        ]
        if odd and (faults is None or len(odd) == len(cases) + len(test_cases)):
            raise DatasetError(f"{root}: case {odd[0].name} {_missing_channels(odd[0], wanted)}")
        for case in odd:
            assert faults is not None
            faults[case.name] = _missing_channels(case, wanted)
            for found in (cases, test_cases):
                found.pop(case.name, None)
        return cls(root, description, cases, test_cases)

    @property
    def name(self) -> str:
        """What the dataset is called."""
        return self.description.name

    @property
    def channel_names(self) -> tuple[str, ...]:
        """The channels of each image, in their order."""
        return self.description.channel_names

    @property
    def labels(self) -> Mapping[str, int]:
        """Label names to values, background included, `ignore` not."""
        return self.description.labels

    @property
    def ignore(self) -> int | None:
        """The value that marks what nobody drew; None if dataset.json names none."""
        return self.description.ignore

    @property
    def file_ending(self) -> str:
        """How the image and label files end."""
        return self.description.file_ending

    @property
    def classes(self) -> int:
        """How many classes a voxel can have, background included, `ignore` not."""
        return max(self.labels.values()) + 1

    @property
    def class_names(self) -> tuple[str, ...]:
        """The label names in the order of their values."""
        by_value = {value: name for name, value in self.labels.items()}
        return tuple(by_value[value] for value in range(self.classes))

    @cached_property
    def labeled(self) -> tuple[str, ...]:
        """The cases whose label file says something; found once, when first asked for."""
        return tuple(name for name, case in self.cases.items() if self._is_labeled(case))

    @cached_property
    def unlabeled(self) -> tuple[str, ...]:
        """The cases without a label file, or with one that holds nothing but `ignore`."""
        labeled = set(self.labeled)
        return tuple(name for name in self.cases if name not in labeled)

    def case(self, name: str) -> Case:
        """The case called `name`, training or test."""
        found = self.cases.get(name) or self.test_cases.get(name)
        if found is None:
            raise DatasetError(f"{self.root}: no case is called '{name}'. See imagesTr.")
        return found

    def read_image(self, name: str) -> Volume:
        """All channels of one case; finite, on one grid."""
        return read_channels(self.case(name).images)

    def read_grid(self, name: str) -> Grid:
        """The grid of one case's image; only the header is read."""
        return read_grid(self.case(name).images[0])

    def read_labels(self, name: str) -> LabelMap:
        """The label file of one case; on the image's grid, with known values only."""
        case = self.case(name)
        if case.label is None:
            raise AnnotationError(
                f"case {name}: has no label file in {self.root / 'labelsTr'}. Draw its slices, or "
                f"leave it unlabelled."
            )
        return self.read_label_file(name, case.label)

    def read_label_file(self, name: str, path: Path) -> LabelMap:
        """A file of labels of one case; on the image's grid, with known values only."""
        labels = read_label_map(path)
        image = self.read_grid(name)
        if not labels.grid.same_as(image):
            raise AnnotationError(
                f"{path}: lies on another grid than its image ({labels.grid.against(image)}). "
                f"Export the label on the image's own grid."
            )
        known = {*self.labels.values()} | ({self.ignore} if self.ignore is not None else set())
        strange = sorted(set(np.unique(labels.data).tolist()) - known)
        if strange:
            raise AnnotationError(
                f"{path}: holds label values {strange}, but dataset.json knows "
                f"{sorted(known)}. Name them in dataset.json or repaint them."
            )
        return labels

    def without(self, names: Collection[str]) -> Dataset:
        """The same dataset, some cases left out of it."""
        return replace(
            self,
            cases={name: case for name, case in self.cases.items() if name not in names},
            test_cases={name: case for name, case in self.test_cases.items() if name not in names},
        )

    def only(self, name: str) -> Dataset:
        """One case alone, by paths that hold in any folder: small enough to send to others."""
        case = self.case(name)
        whole = replace(
            case,
            images=tuple(path.absolute() for path in case.images),
            label=case.label.absolute() if case.label else None,
            parts={plane: path.absolute() for plane, path in case.parts.items()},
        )
        description = replace(self.description, listed=None, raw={})
        return Dataset(self.root.absolute(), description, {name: whole}, {})

    def unlabeling(self, names: Collection[str]) -> Dataset:
        """The same dataset, some cases as if nobody had drawn in them."""
        cases = {
            name: replace(case, label=None, parts={}) if name in names else case
            for name, case in self.cases.items()
        }
        return replace(self, cases=cases)

    def _is_labeled(self, case: Case) -> bool:
        if case.parts or case.label is None or self.ignore is None:
            return bool(case.parts) or case.label is not None
        try:
            return bool((read_label_map(case.label).data != self.ignore).any())
        except InputError:
            # A broken label is not the same as none: whoever reads it will hear what is wrong.
            return True


def _missing_channels(case: Case, channels: int) -> str:
    return (
        f"has {len(case.images)} image file(s), but dataset.json names {channels} channel(s). "
        f"Add the missing files or mend channel_names."
    )
