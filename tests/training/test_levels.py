"""At the end of a training, areas on the drawn slices are those that were drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from training import tiny
from twoslice.annotation.reading import read_annotation
from twoslice.inference.volume import Predictor
from twoslice.io.dataset import Dataset
from twoslice.progress import Silent
from twoslice.propagation.dataset import propagate_dataset
from twoslice.settings import Settings
from twoslice.training import levels
from twoslice.training.levels import MOST, drawn_scans, find_shifts, probabilities_at
from twoslice.training.loop import Trainer, train
from twoslice.training.run import Run


@given(bias=st.lists(st.floats(-0.4, 0.4), min_size=2, max_size=2), seed=st.integers(0, 99))
def test_a_bias_that_all_networks_share_is_found_and_undone(bias: list[float], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(1, 3, 4000, generator=generator)
    labels = scores[0].argmax(dim=0)
    off = torch.tensor([0.0, *bias])
    logs = (scores + off[:, None]).log_softmax(dim=1).repeat(2, 1, 1)
    shifts = find_shifts(logs, labels)
    assert shifts[0] == 0
    torch.testing.assert_close(shifts, -off, rtol=0, atol=0.15)


def test_no_class_is_moved_further_than_the_limit_nor_one_that_is_found_nowhere() -> None:
    scores = torch.zeros(1, 3, 100)
    scores[0, 0], scores[0, 2, :50] = 5.0, -9.0
    scores[0, 1, :10] = 7.0
    labels = torch.ones(100, dtype=torch.int64)
    labels[0] = 2
    shifts = find_shifts(scores.log_softmax(dim=1), labels)
    assert shifts[1] == pytest.approx(MOST, abs=1e-3)
    assert shifts[2] == 0


def test_of_very_many_voxels_an_even_choice_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "_ENOUGH", 10)
    few, many = np.zeros((4, 5, 6), bool), np.ones((4, 5, 6), bool)
    few[0, 0] = True
    assert (levels.thinned(few) == few).all()
    assert np.flatnonzero(levels.thinned(many)).tolist() == list(range(0, 120, 12))


def _settings(moved: bool) -> Settings:
    coarse = (1.5, 1.5, 1.5)
    settings = tiny.settings("plus", iterations=30, learning_rate=0.01, spacing=coarse)
    return settings.model_copy(update={"plus": settings.plus.model_copy(update={"levels": moved})})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Run]:
    """A training with levels and one without, on voxels that are coarser than the scans' own."""
    root = tmp_path_factory.mktemp("levels")
    dataset = tiny.make_dataset(root / "data", views=False)
    propagate_dataset(dataset)
    return {moved: train(dataset, root / str(moved), _settings(moved)) for moved in (False, True)}


def test_only_the_last_biases_differ(runs: dict[bool, Run]) -> None:
    plain, moved = (runs[each].load_method().state_dict() for each in (False, True))
    changed = {name for name in plain if not torch.equal(plain[name], moved[name])}
    assert changed == {"networks.0.out.bias", "networks.1.out.bias"}


def test_areas_come_nearer_to_what_was_drawn(runs: dict[bool, Run]) -> None:
    apart = {}
    for moved, run in runs.items():
        dataset = Dataset.open(Path(run.data.root))
        found, wanted = np.zeros(2), np.zeros(2)
        for case in dataset.labeled:
            annotation = read_annotation(dataset, case)
            drawn, label = annotation.drawn(), annotation.label_map(elsewhere=0)
            labels = Predictor(run)(dataset.read_image(case)).probabilities.argmax(axis=0)
            found += [(labels[drawn] == value).sum() for value in (1, 2)]
            wanted += [(label[drawn] == value).sum() for value in (1, 2)]
        apart[moved] = np.abs(found / wanted - 1)
    assert (apart[True] < apart[False]).all()
    assert apart[True][0] < 0.05  # the pebble would need more than the limit after so few steps


def test_what_is_asked_is_what_a_prediction_has(runs: dict[bool, Run]) -> None:
    run = runs[False]
    dataset = Dataset.open(Path(run.data.root))
    trainer = Trainer(run, dataset, Silent())
    scans = drawn_scans(dataset, trainer.source, torch.device("cpu"))
    for case, (image, (_, distance)) in zip(dataset.labeled, scans, strict=True):
        predictor = Predictor(run)
        asked = probabilities_at(distance == 0, predictor.method, run.plan, image).mean(dim=0)
        expected = predictor(dataset.read_image(case)).probabilities[:, distance == 0]
        np.testing.assert_allclose(asked.numpy(), expected, atol=1e-5)
