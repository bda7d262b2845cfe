"""Splits: which cases train and which test, and the folds, seeded and stored as `splits.json`.

The test cases are the same in every fold. A fold says whose labels are to be had: the training
cases are parted into five, and fold k begins with part k, so that "the first five cases are
labelled" names other cases in each fold and none twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twoslice.errors import DatasetError
from twoslice.io import atomic

NAME = "splits.json"
FOLDS = 5


@dataclass(frozen=True)
class Splits:
    """Training and test cases, and the training cases in the order of each fold."""

    train: tuple[str, ...]
    test: tuple[str, ...]
    folds: tuple[tuple[str, ...], ...]
    seed: int


def rotated(names: Sequence[str], fold: int) -> tuple[str, ...]:
    """The cases in the order of one of the five folds: fold 0 leaves them as they are."""
    start = fold * len(names) // FOLDS
    return (*names[start:], *names[:start])


def split(names: Sequence[str], *, test: int, seed: int) -> Splits:
    """`test` cases at random, the others to train on, in random order; the same for one seed."""
    if not 0 < test < len(names):
        raise ValueError(f"{test} test cases of {len(names)}")
    order = [names[index] for index in np.random.default_rng(seed).permutation(len(names))]
    return listed(order[test:], sorted(order[:test]), seed=seed)


def listed(train: Sequence[str], test: Sequence[str], *, seed: int) -> Splits:
    """The splits of given lists."""
    folds = tuple(rotated(train, fold) for fold in range(FOLDS))
    return Splits(tuple(train), tuple(test), folds, seed)


def write_splits(root: Path, splits: Splits, **more: Any) -> None:
    """Write `splits.json` into a dataset folder; `more` is for a person to read."""
    atomic.write_json(root / NAME, asdict(splits) | more)


def read_splits(root: Path) -> Splits | None:
    """The splits of a dataset folder; None if it has none."""
    path = root / NAME
    if not path.is_file():
        return None
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        folds = tuple(tuple(map(str, fold)) for fold in tree["folds"])
        return Splits(
            tuple(map(str, tree["train"])), tuple(map(str, tree["test"])), folds, int(tree["seed"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        raise DatasetError(
            f"{path}: not the splits that 'twoslice import --dataset' writes. Import again, or "
            f"remove the file: the cases then go by their names."
        ) from None
