"""Relabeling: keep some labels of a dataset and number them anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoslice.errors import SettingsError
from twoslice.io.dataset import Dataset
from twoslice.io.grid import Grid


@dataclass(frozen=True)
class Relabeling:
    """Which labels are kept and what they are called and numbered afterwards."""

    labels: Mapping[str, int]
    table: NDArray[np.uint8]
    keeps_all: bool

    @classmethod
    def keeping(cls, dense: Dataset, names: Sequence[str] | None) -> Relabeling:
        """Keep the labels `names`, numbered from 1 in that order; all of them when None."""
        background = next(name for name, value in dense.labels.items() if value == 0)
        kept = list(dense.class_names[1:]) if names is None else list(names)
        for name in kept:
            if name not in dense.labels or name == background or kept.count(name) > 1:
                known = ", ".join(dense.class_names[1:])
                raise SettingsError(f"cannot keep the label '{name}'. Name each once, of: {known}.")
        if not kept:
            raise SettingsError("no label is left to keep. Name at least one.")
        table = np.zeros(256, dtype=np.uint8)
        for value, name in enumerate(kept, start=1):
            table[dense.labels[name]] = value
        if dense.ignore is not None:
            table[dense.ignore] = len(kept) + 1
        numbered = {background: 0} | {name: value for value, name in enumerate(kept, start=1)}
        return cls(numbered, table, keeps_all=numbered == dict(dense.labels))

    @property
    def ignore(self) -> int:
        """One past the last label."""
        return len(self.labels)

    def read(self, dense: Dataset, case: str) -> tuple[NDArray[np.uint8], Grid]:
        """The dense label of one case, renumbered, and its grid."""
        found = dense.read_labels(case)
        renumbered: NDArray[np.uint8] = self.table[found.data]
        return renumbered, found.grid
