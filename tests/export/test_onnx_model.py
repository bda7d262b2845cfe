"""The ONNX model: onnxruntime and PyTorch give the same probabilities at any size."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from training import tiny
from twoslice.errors import SettingsError
from twoslice.export.onnx_model import write_onnx
from twoslice.training.loop import train


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["modern", "paper"])
def test_onnxruntime_agrees_at_several_sizes(recipe: str, tmp_path: Path) -> None:
    import onnxruntime

    dataset = tiny.make_dataset(tmp_path / "data")
    run = train(dataset, tmp_path / "run", tiny.settings(iterations=2, recipe=recipe))
    write_onnx(run, tmp_path / "onnx")
    session = onnxruntime.InferenceSession(tmp_path / "onnx" / "model.onnx")
    method = run.load_method()
    for sides in ((16, 32, 16), (21, 18, 14), (5, 3, 7), (33, 16, 9)):
        image = torch.randn(1, 1, *sides)
        with torch.inference_mode():
            expected = method.probabilities(image).numpy()
        found = session.run(["probabilities"], {"image": image.numpy()})[0]
        np.testing.assert_allclose(found, expected, atol=1e-4)
        assert np.ptp(expected[:, 0]) > 1e-3
    about = json.loads((tmp_path / "onnx" / "model.json").read_text())
    assert about["labels"] == tiny.LABELS
    assert about["largest_difference"] < 1e-4
    assert about["patch"] == list(run.plan.patch)


def test_missing_packages_are_told_in_one_line_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    run = train(dataset, tmp_path / "run", tiny.settings(iterations=1))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"needs onnx, onnxscript.*pip install twoslice.export"):
        write_onnx(run, tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()
