"""The example method of docs/extending.md: short, under the contracts, and it does what it says."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from contracts import test_methods as contracts
from methods.toys import batch, build
from training import tiny
from twoslice.methods.base import View
from twoslice.methods.registry import METHODS
from twoslice.objectives.weights import NEVER

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "entropy.py"


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The example as a user's script loads it; the registry is as before afterwards."""
    spec = importlib.util.spec_from_file_location("entropy_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    yield
    del METHODS["entropy"]


def test_the_example_is_under_sixty_lines_and_stands_whole_in_the_docs() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 60
    assert text.strip() in (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


def test_the_example_obeys_the_contracts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contracts.test_the_unlabelled_loss_reaches_every_trained_network("entropy")
    contracts.test_labels_under_zero_weight_cannot_change_the_loss("entropy", 0.5)
    contracts.test_non_cubic_patches_and_several_classes_work("entropy", 3, "vnet")
    contracts.test_every_trained_network_gets_a_gradient("entropy")
    contracts.test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
        "entropy", "modern", tmp_path, monkeypatch
    )


def test_steps_on_unlabelled_patches_alone_make_it_surer() -> None:
    built, given = build("entropy"), batch()
    views = tuple(View(v.label, torch.full_like(v.distance, NEVER)) for v in given.views)
    blank = given._replace(views=views)
    optimizer = torch.optim.SGD(built.parameters(), lr=1.0)
    doubts = []
    for _ in range(6):
        losses = built.losses(blank, 1.0)
        doubts.append(losses.figures["doubt"])
        optimizer.zero_grad()
        losses.total.backward()
        optimizer.step()
    assert doubts[-1] < doubts[0]


@pytest.mark.slow
def test_the_example_trains_as_a_script(tmp_path: Path) -> None:
    tiny.make_dataset(tmp_path / "data")
    script = EXAMPLE.read_text(encoding="utf-8").replace(
        'load_settings(method="entropy")',
        'load_settings(method="entropy", assignments=["training.iterations=2", '
        '"training.patch=[8, 8, 8]", "network.filters=2"])',
    )
    (tmp_path / "entropy.py").write_text(script, encoding="utf-8")
    command = [sys.executable, "entropy.py", "data", "run"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    assert (tmp_path / "run" / "checkpoints" / "step-000002").is_dir()
