"""A published V-Net checkpoint (`.pth`) in the place of a run.

DeSCO, UA-MT and the many projects built on them publish bare state dicts. The layers' names and
shapes tell the network; what such a network expects of a scan is a z-scored image at its own
spacing, windows of 112×112×80, and one file says nothing of what its labels are called. Only
tensors are ever read: a pickle that holds anything else could run code and is refused.
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from twoslice.errors import InputError
from twoslice.methods.base import Method
from twoslice.networks.build import NetworkPlan
from twoslice.networks.norms import Normalisation
from twoslice.settings import Settings
from twoslice.training.planner import Plan
from twoslice.training.run import DataDescription, Run
from twoslice.training.volumes import moments

if TYPE_CHECKING:
    from twoslice.networks.windows import Triple

ENDINGS = (".pth", ".pt")
_PATCH: Triple = (112, 112, 80)
_WRAPPERS = ("net", "state_dict", "model", "model_state_dict")
_FIRST, _LAST = "block_one.conv.0.weight", "out_conv.weight"


class PublishedRun(Run):
    """A checkpoint file that answers as a run does."""

    def __init__(self, file: Path, weights: Mapping[str, Tensor]) -> None:
        settings = Settings(method="supervised")
        network = _network(file, weights)
        plan = Plan(
            spacing=None,
            voxel=(1.0, 1.0, 1.0),
            patch=_PATCH,
            iterations=settings.training.iterations or 1,
            network=network,
            why=f"Read from the shapes in {file.name}.",
        )
        data = DataDescription(
            name=file.stem,
            root=str(file.resolve().parent),
            labels={
                "background": 0,
                **{f"label {value}": value for value in range(1, network.classes)},
            },
            channel_names=tuple(f"channel {index}" for index in range(network.channels)),
            labeled=(),
            unlabeled=0,
        )
        super().__init__(file, settings, plan, data)
        self._weights = dict(weights)

    @property
    def step(self) -> int:
        """A number that tells one checkpoint from another of the same name: from its weights."""
        digest = hashlib.sha256()
        for name in sorted(self._weights):
            digest.update(name.encode())
            digest.update(self._weights[name].contiguous().numpy().tobytes())
        return int.from_bytes(digest.digest()[:6], "big")

    @property
    def fingerprint(self) -> str:
        """The same number: there are no steps in a file."""
        return f"{self.step:x}"

    def normalise(self, data: NDArray[np.float32]) -> NDArray[np.float32]:
        """Each channel to mean 0 and deviation 1, without clipping.

        `mri_norm2.h5` files were z-scored as whole scans and cut out afterwards, and it is these
        numbers that the networks saw: an image that looks z-scored already stays as it is.
        """
        out = np.array(data, dtype=np.float32)
        for channel in out:
            mean, deviation = moments(channel)
            if channel.min() < 0 and abs(mean) <= 2.0 and 0.25 <= deviation <= 4.0:
                continue
            channel -= mean
            channel /= deviation if deviation > 0 else 1.0
        return out

    def load_method(self) -> Method:
        """One network with the published weights, ready for inference."""
        from twoslice.methods.registry import find_method

        method = find_method(self.settings.method)(self.plan.network, self.settings)
        try:
            method.networks[0].load_state_dict(self._weights)
        except RuntimeError as error:
            detail = str(error).splitlines()[1].strip()[:200] if "\n" in str(error) else str(error)
            raise _unfit(self.folder, detail) from None
        method.requires_grad_(False)
        ready: Method = method.eval().to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]
        return ready


def open_model(path: Path) -> Run:
    """A run folder, or a published checkpoint file, ready to predict."""
    if path.is_file() and path.suffix.lower() in ENDINGS:
        return PublishedRun(path, read_state_dict(path))
    if path.is_file():
        raise InputError(
            f"{path}: is a file. Name a run folder, or a checkpoint that ends in "
            f"{' or '.join(ENDINGS)}."
        )
    run = Run.open(path)
    _ = run.latest  # a run without weights is refused before anything is written
    return run


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint by name, without wrappers and without `module.` in front."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's on pickles of another age: refused or read
            found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise InputError(
            f"{path}: holds more than tensors (or is damaged), and loading it could run code. "
            f"Save the network's state_dict() alone with torch.save and name that file."
        ) from None
    except (OSError, EOFError, RuntimeError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{path}: not readable as a PyTorch checkpoint. It may be damaged or cut short: copy "
            f"it again."
        ) from None
    while isinstance(found, Mapping) and _FIRST not in _named(found):
        inner = [found[name] for name in _WRAPPERS if isinstance(found.get(name), Mapping)]
        if not inner:
            break
        found = inner[0]
    if not isinstance(found, Mapping):
        raise _unfit(path, f"it holds a {type(found).__name__}")
    weights = _named(found)
    for name in (_FIRST, _LAST):
        if name not in weights:
            raise _unfit(path, f"it lacks {name}")
    odd = [name for name, value in weights.items() if not isinstance(value, Tensor)]
    if odd:
        raise _unfit(path, f"{odd[0]} is no tensor")
    return weights


def _named(tree: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name).removeprefix("module."): value for name, value in tree.items()}


def _network(path: Path, weights: Mapping[str, Tensor]) -> NetworkPlan:
    """Channels, classes, filters and norm, from the shapes of the first and the last layer."""
    first, last = weights[_FIRST], weights[_LAST]
    if first.ndim != 5 or last.ndim != 5 or last.shape[0] < 2:
        raise _unfit(path, f"{_FIRST} is {tuple(first.shape)} and {_LAST} {tuple(last.shape)}")
    normalisation: Normalisation = "none"
    if "block_one.conv.1.running_mean" in weights:
        normalisation = "batch"
    elif "block_one.conv.1.weight" in weights:
        normalisation = "group"
    return NetworkPlan(
        kind="vnet",
        channels=first.shape[1],
        classes=last.shape[0],
        filters=first.shape[0],
        dropout=0.5,
        normalisation=normalisation,
    )


def _unfit(path: Path, detail: str) -> InputError:
    return InputError(
        f"{path}: is not the V-Net of DeSCO and UA-MT ({detail}). Only checkpoints with its layer "
        f"names can stand in for a run."
    )
