"""Checkpoints that cannot be used: damaged ones are named, and none of them runs code."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import pytest
import torch

from training import tiny
from twoslice.errors import InputError
from twoslice.io.dataset import Dataset
from twoslice.training.loop import train
from twoslice.training.run import Run


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return tiny.make_dataset(tmp_path / "data")


def test_a_damaged_checkpoint_is_named(dataset: Dataset, tmp_path: Path) -> None:
    run = train(dataset, tmp_path / "run", tiny.settings(iterations=2))
    (run.latest / "averaged.safetensors").write_bytes(b"no tensors here")
    with pytest.raises(InputError, match=r"averaged.safetensors.*step-000002"):
        run.load_method()
    with pytest.raises(InputError, match="not a run folder"):
        Run.open(tmp_path)


def test_weights_of_another_network_than_the_plan_are_told(
    dataset: Dataset, tmp_path: Path
) -> None:
    run = train(dataset, tmp_path / "run", tiny.settings("supervised", iterations=1))
    plan = run.folder / "plan.json"
    plan.write_text(plan.read_text().replace('"filters": 4', '"filters": 8'))
    with pytest.raises(InputError, match="of another network than"):
        Run.open(run.folder).load_method()


@pytest.mark.parametrize("file", ["weights", "averaged", "optimizer"])
def test_loading_a_checkpoint_never_executes_what_is_in_it(
    dataset: Dataset, tmp_path: Path, file: str
) -> None:
    run = train(dataset, tmp_path / "run", tiny.settings(iterations=2))
    trap = tmp_path / "sprung"

    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (trap,)

    for dangerous in (pickle.dumps(Bomb()), _torch_file(Bomb())):
        (run.latest / f"{file}.safetensors").write_bytes(dangerous)
        with pytest.raises(InputError, match=f"{file}.safetensors: not a readable checkpoint"):
            train(dataset, tmp_path / "run", resume=True)
    assert not trap.exists()
    pickle.loads(pickle.dumps(Bomb()))  # the bomb itself is a good one
    assert trap.exists()


def _torch_file(content: object) -> bytes:
    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    "content",
    ["{}", "[]", "no json", '{"step": "two", "optimizer": {"scalars": {}, "groups": []}}'],
)
def test_a_checkpoint_with_damaged_figures_is_named_when_resuming(
    dataset: Dataset, tmp_path: Path, content: str
) -> None:
    run = train(dataset, tmp_path / "run", tiny.settings(iterations=2))
    (run.latest / "meta.json").write_text(content)
    with pytest.raises(InputError, match=r"meta.json: .*Remove the folder step-000002"):
        train(dataset, tmp_path / "run", resume=True)


def test_a_checkpoint_of_another_optimizer_is_named_when_resuming(
    dataset: Dataset, tmp_path: Path
) -> None:
    run = train(dataset, tmp_path / "run", tiny.settings(iterations=2))
    (run.latest / "meta.json").write_text('{"step": 2, "optimizer": {"scalars": {}, "groups": []}}')
    with pytest.raises(InputError, match=r"step-000002: .*Remove the folder step-000002"):
        train(dataset, tmp_path / "run", resume=True)
