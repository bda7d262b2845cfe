"""Run: the folder of one training.

settings.yaml       the resolved settings
plan.json           what the planner chose, and why
data.json           what the run was trained on: name, labels, channels
checkpoints/        step-NNNNNN/, the last two
metrics.csv         a row a logged step
events.out.*        the same for TensorBoard
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from twoslice.errors import InputError, OutputError
from twoslice.io import atomic
from twoslice.settings import Settings, load_settings
from twoslice.training.checkpoints import (
    fingerprint,
    list_checkpoints,
    load_predicting_weights,
)
from twoslice.training.planner import Plan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from twoslice.io.dataset import Dataset
    from twoslice.methods.base import Method


M = TypeVar("M", bound=BaseModel)


class DataDescription(BaseModel):
    """What must be known of the training data to predict, report and resume."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    root: str
    labels: Mapping[str, int]
    channel_names: tuple[str, ...]
    labeled: tuple[str, ...]
    unlabeled: int
    single: tuple[int, ...] = ()
    """Labels that are one piece each, by the drawn slices; empty where the method does not ask."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """The label names in the order of their values."""
        return tuple(sorted(self.labels, key=lambda name: self.labels[name]))


class Run:
    """An opened run folder."""

    def __init__(self, folder: Path, settings: Settings, plan: Plan, data: DataDescription) -> None:
        self.folder, self.settings, self.plan, self.data = folder, settings, plan, data

    @classmethod
    def create(
        cls,
        folder: Path,
        settings: Settings,
        plan: Plan,
        dataset: Dataset,
        *,
        single: tuple[int, ...] = (),
    ) -> Run:
        """A new run, in memory until `save`; a folder with anybody's work in it is refused."""
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"{folder}: is a file, and a run is a folder. Name another --out.")
        if folder.exists() and _holds_work(folder):
            raise OutputError(
                f"{folder}: already there and not empty. Name another --out, or go on with "
                f"--resume if it is a run that was interrupted."
            )
        data = DataDescription(
            name=dataset.name,
            root=str(dataset.root.resolve()),
            labels=dict(dataset.labels),
            channel_names=dataset.channel_names,
            labeled=tuple(dataset.labeled),
            unlabeled=len(dataset.unlabeled),
            single=single,
        )
        return cls(folder, settings, plan, data)

    def save(self) -> None:
        """Write what the run is; settings.yaml last: a folder that has it has the others too."""
        atomic.write_json(self.folder / "plan.json", self.plan.model_dump(mode="json"))
        atomic.write_json(self.folder / "data.json", self.data.model_dump(mode="json"))
        atomic.write_text(self.folder / "settings.yaml", self.settings.to_yaml())

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Open a run folder, or say what it lacks."""
        if not (folder / "settings.yaml").is_file():
            raise InputError(
                f"{folder}: is not a run folder (it has no settings.yaml). Name the folder given "
                f"to 'twoslice train --out'."
            )
        settings = load_settings(file=folder / "settings.yaml")
        plan = _read_model(folder / "plan.json", Plan)
        data = _read_model(folder / "data.json", DataDescription)
        return cls(folder, settings, plan, data)

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.folder / "checkpoints"

    @property
    def has_checkpoint(self) -> bool:
        """Whether any checkpoint was written."""
        return bool(list_checkpoints(self.checkpoints))

    @property
    def latest(self) -> Path:
        """The last checkpoint."""
        found = list_checkpoints(self.checkpoints)
        if not found:
            raise InputError(
                f"{self.folder}: has no checkpoint yet. Train it with "
                f"'twoslice train {self.data.root} --out {self.folder} --resume'."
            )
        return found[-1]

    @property
    def step(self) -> int:
        """How many iterations the last checkpoint has seen."""
        return int(self.latest.name.removeprefix("step-"))

    @property
    def fingerprint(self) -> str:
        """Tells these weights from others at the same step: the folder may be trained anew."""
        return fingerprint(self.latest)

    def thinned(self, largest: bool | None) -> tuple[int, ...]:
        """The labels of which the largest piece alone is handed out: all of them, none, or, where
        nobody said, those that are one piece.
        """
        if largest is None:
            return self.data.single
        return tuple(range(1, self.plan.network.classes)) if largest else ()

    def normalise(self, data: NDArray[np.float32]) -> NDArray[np.float32]:
        """Intensities (C, I, J, K) of any scan as this run's networks take them."""
        from twoslice.training.volumes import normalise_intensity

        return normalise_intensity(data)

    def load_method(self) -> Method:
        """The trained method with the weights that predict, ready for inference."""
        import torch

        from twoslice.methods.registry import find_method

        method = find_method(self.settings.method)(self.plan.network, self.settings)
        try:
            method.load_state_dict(load_predicting_weights(self.latest))
        except RuntimeError:
            raise InputError(
                f"{self.latest}: its weights are of another network than plan.json in "
                f"{self.folder} describes. Bring back the files of one training, or train again."
            ) from None
        method.requires_grad_(False)
        ready: Method = method.eval().to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]
        return ready


def _holds_work(folder: Path) -> bool:
    """Whether anything is there but what a training that was killed while starting leaves."""
    left = {"plan.json", "data.json", "preprocessed"}
    return any(
        path.name not in left and not path.name.startswith(".writing-") for path in folder.iterdir()
    )


def _read_model(path: Path, model: type[M]) -> M:
    try:
        tree: Any = json.loads(path.read_text(encoding="utf-8"))
        return model.model_validate(tree)
    except FileNotFoundError:
        raise InputError(f"{path}: is missing. Train the run again.") from None
    except (OSError, ValueError, ValidationError) as error:
        detail = str(error).splitlines()[0]
        raise InputError(f"{path}: not readable ({detail}). Train the run again.") from None
