"""The part of a run that predicts says what its method says, whatever the method trains beside."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from training import tiny
from twoslice.errors import SettingsError
from twoslice.export.trained import load_ensemble
from twoslice.inference.volume import predict_volume
from twoslice.settings import parse_settings
from twoslice.training.loop import train


@pytest.mark.parametrize("method", ["desco", "coranet", "ctbct"])
def test_the_ensemble_predicts_as_the_method_does(method: str, tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    run = train(dataset, tmp_path / "run", tiny.settings(method, iterations=1))
    image = torch.randn(1, 1, 22, 11, 9)
    expected = run.load_method().probabilities(image)
    torch.testing.assert_close(load_ensemble(run)(image), expected)
    _, probabilities = predict_volume(run, dataset.read_image("tiny_3"))
    assert probabilities.shape == (3, *tiny.SHAPE)


def test_a_network_that_does_not_predict_cannot_be_chosen(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    asked = tiny.settings("supervised", iterations=1).model_dump() | {"inference": {"network": 2}}
    run = train(dataset, tmp_path / "run", parse_settings(asked))
    with pytest.raises(SettingsError, match=r"inference.network = 2, .* one network"):
        load_ensemble(run)
