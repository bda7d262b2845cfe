"""Mixed precision: chosen by the device, and a step in it that is close to one in 32 bits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from training import tiny
from twoslice.progress import Silent
from twoslice.settings import parse_settings
from twoslice.training.devices import choose_precision
from twoslice.training.loop import Trainer
from twoslice.training.planner import make_plan
from twoslice.training.run import Run


@pytest.mark.parametrize(
    ("capability", "recipe", "device", "expected"),
    [
        ((9, 0), "modern", "auto", "bf16-mixed"),
        ((8, 6), "modern", "cuda", "bf16-mixed"),
        ((7, 5), "modern", "auto", "16-mixed"),
        ((6, 1), "modern", "auto", "32-true"),
        ((9, 0), "paper", "auto", "32-true"),
        ((9, 0), "modern", "cpu", "32-true"),
        (None, "modern", "auto", "32-true"),
    ],
)
def test_mixed_precision_is_chosen_on_cuda_devices_that_have_it(
    monkeypatch: pytest.MonkeyPatch,
    capability: tuple[int, int] | None,
    recipe: str,
    device: str,
    expected: str,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: capability is not None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr("twoslice.training.devices.cpu_has_bfloat16", lambda: False)
    settings = parse_settings({"training": {"recipe": recipe, "device": device}})
    assert choose_precision(settings.training) == expected


@pytest.mark.parametrize(
    ("recipe", "device", "has", "expected"),
    [
        ("modern", "auto", True, "bf16-mixed"),
        ("modern", "cpu", True, "bf16-mixed"),
        ("modern", "cpu", False, "32-true"),
        ("paper", "cpu", True, "32-true"),
        ("modern", "mps", True, "32-true"),
        ("modern", "cuda", True, "32-true"),
    ],
)
def test_a_cpu_trains_in_16_bits_where_it_has_them(
    monkeypatch: pytest.MonkeyPatch, recipe: str, device: str, has: bool, expected: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr("twoslice.training.devices.cpu_has_bfloat16", lambda: has)
    settings = parse_settings({"training": {"recipe": recipe, "device": device}})
    assert choose_precision(settings.training) == expected


def test_a_precision_that_is_asked_for_is_taken() -> None:
    settings = parse_settings({"training": {"precision": "bf16-mixed", "device": "cpu"}})
    assert choose_precision(settings.training) == "bf16-mixed"


@pytest.mark.parametrize("recipe", ["paper", "modern"])
def test_a_mixed_step_on_the_cpu_is_close_to_one_in_32_bits(tmp_path: Path, recipe: str) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    totals = {}
    for precision in ("32-true", "bf16-mixed"):
        settings = tiny.settings(recipe=recipe, precision=precision, patch=(20, 18, 14))
        run = Run.create(tmp_path / precision, settings, make_plan(dataset, settings), dataset)
        trainer = Trainer(run, dataset, Silent())
        losses = trainer.train_step()
        assert losses.total.dtype == torch.float32
        totals[precision] = float(losses.total.detach())
        assert all(weight.dtype == torch.float32 for weight in trainer.method.parameters())
        assert all(bool(weight.isfinite().all()) for weight in trainer.method.parameters())
    assert totals["bf16-mixed"] == pytest.approx(totals["32-true"], rel=0.05)
    assert totals["bf16-mixed"] != totals["32-true"]
