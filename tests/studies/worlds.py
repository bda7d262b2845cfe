"""A small dense dataset of phantoms and studies over it, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from twoslice.demo.phantom import write_phantoms
from twoslice.io.dataset import Dataset

SHAPE = (24, 24, 16)
TINY = {
    "network": {"filters": 2},
    "training": {
        "iterations": 4,
        "patch": [16, 16, 16],
        "checkpoint_every": 2,
        "device": "cpu",
    },
}


def make_dense(folder: Path) -> Dataset:
    """Six phantoms to train on and two to hold out, all with dense labels."""
    return write_phantoms(folder / "phantoms", training=6, test=2, shape=SHAPE)


def study_tree(**more: Any) -> dict[str, Any]:
    """A study of two rows on the phantoms; `more` replaces its parts."""
    tree: dict[str, Any] = {
        "title": "tiny",
        "data": {"dense": "phantoms", "labeled": 2},
        "set": TINY,
        "rows": [
            {
                "name": "supervised",
                "setting": "Sparse",
                "method": "supervised",
                "set": {"training.setting": "sparse"},
            },
            {"name": "DeSCO", "method": "desco"},
        ],
        "seeds": [0, 1],
    }
    return tree | more


def write_study(folder: Path, **more: Any) -> Path:
    """The study as a file beside the phantoms."""
    file = folder / "study.yaml"
    file.write_text(yaml.safe_dump(study_tree(**more)), encoding="utf-8")
    return file
