"""Checkpoints: `checkpoints/step-000600/` with the weights as safetensors, the optimizer's state
beside them and a `meta.json` to read. Whole or absent; the last two are kept; loading one reads
numbers and never runs code.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from twoslice.errors import InputError
from twoslice.io import atomic

KEPT = 2
_NAME = re.compile(r"^step-(\d+)$")
_FILES = {"weights": "weights.safetensors", "averaged": "averaged.safetensors"}
_OPTIMIZER = "optimizer.safetensors"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """All that a training needs to go on: tensors by name, and plain numbers in `meta`."""

    step: int
    weights: Mapping[str, Tensor]
    averaged: Mapping[str, Tensor] | None
    optimizer: Mapping[str, Any]
    meta: Mapping[str, Any]


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write it as `folder/step-NNNNNN`, then let all but the last two go."""
    target = folder / f"step-{checkpoint.step:06d}"
    if target.exists():
        return target
    tensors, plain = _split_optimizer(checkpoint.optimizer)
    with atomic.whole_folder(target) as scratch:
        _write(scratch / _FILES["weights"], checkpoint.weights)
        if checkpoint.averaged is not None:
            _write(scratch / _FILES["averaged"], checkpoint.averaged)
        _write(scratch / _OPTIMIZER, tensors)
        meta = {"step": checkpoint.step, **checkpoint.meta, "optimizer": plain}
        (scratch / "meta.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")
    for old in list_checkpoints(folder)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return target


def clear_leftovers(folder: Path) -> None:
    """Remove what a training that was killed while saving left half written."""
    for half in folder.glob(".writing-*") if folder.is_dir() else ():
        shutil.rmtree(half, ignore_errors=True)


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in `folder`, the earliest first."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if _NAME.match(path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def load_checkpoint(path: Path) -> Checkpoint:
    """Read one checkpoint whole, or say which file of it is damaged."""
    meta = _read_meta(path)
    averaged = path / _FILES["averaged"]
    return Checkpoint(
        step=int(meta["step"]),
        weights=_read(path / _FILES["weights"]),
        averaged=_read(averaged) if averaged.is_file() else None,
        optimizer=_join_optimizer(_read(path / _OPTIMIZER), meta.pop("optimizer")),
        meta=meta,
    )


def load_predicting_weights(path: Path) -> dict[str, Tensor]:
    """The weights that predict: the averaged ones where the recipe averages."""
    return _read(predicting_file(path))


def predicting_file(path: Path) -> Path:
    """The file of a checkpoint that holds the weights that predict."""
    averaged = path / _FILES["averaged"]
    return averaged if averaged.is_file() else path / _FILES["weights"]


def fingerprint(path: Path) -> str:
    """Tells the weights that predict from any others, also from those of a run trained anew."""
    file = predicting_file(path)
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()[:16]
    except OSError as error:
        raise damaged(path, file.name, error) from None


def _write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    path.write_bytes(save(plain))


def _read(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise damaged(path.parent, path.name, error) from None


class _Plain(BaseModel):
    """What of an optimizer is no tensor."""

    scalars: dict[str, dict[str, Any]]
    groups: list[dict[str, Any]]


class _Meta(BaseModel):
    """What `meta.json` must hold; it may hold more."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    step: int
    seconds: float = 0.0
    notes: dict[str, list[float]] = {}
    optimizer: _Plain


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        tree = json.loads((path / "meta.json").read_text(encoding="utf-8"))
        return _Meta.model_validate(tree).model_dump()
    except (OSError, ValueError) as error:
        raise damaged(path, "meta.json", _detail(error)) from None


def _detail(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")


def damaged(checkpoint: Path, file: str, detail: object) -> InputError:
    """The error for a checkpoint that cannot be used."""
    return InputError(
        f"{checkpoint / file}: not a readable checkpoint ({detail}). Remove the folder "
        f"{checkpoint.name}: the one before it is used then."
    )


def _split_optimizer(state: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """A state dict of PyTorch's as tensors by name and plain values; `lr` is a schedule's."""
    tensors: dict[str, Tensor] = {}
    scalars: dict[str, dict[str, Any]] = {}
    for index, entry in state["state"].items():
        for name, value in entry.items():
            if isinstance(value, Tensor):
                tensors[f"{index}.{name}"] = value
            else:
                scalars.setdefault(str(index), {})[name] = value
    return tensors, {"scalars": scalars, "groups": state["param_groups"]}


def _join_optimizer(tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `_split_optimizer`."""
    state: dict[int, dict[str, Any]] = {}
    for key, tensor in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = tensor
    for index, entry in plain["scalars"].items():
        state.setdefault(int(index), {}).update(entry)
    return {"state": state, "param_groups": plain["groups"]}
