"""Pictures of the networks: on the drawn slice, cheap, and without a trace in the training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from training import tiny
from twoslice.io.dataset import Dataset
from twoslice.methods.registry import METHODS
from twoslice.planes import Plane
from twoslice.progress import Silent
from twoslice.training.checkpoints import load_checkpoint
from twoslice.training.loop import Trainer, train
from twoslice.training.patches import LabeledScan
from twoslice.training.pictures import COLOURS, Pictures, drawn_slice, outline, overlay
from twoslice.training.planner import make_plan
from twoslice.training.run import Run


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return tiny.make_dataset(tmp_path / "data")


@pytest.mark.parametrize("recipe", ["paper", "modern"])
def test_a_run_with_pictures_has_the_weights_of_one_without(
    dataset: Dataset, tmp_path: Path, recipe: str
) -> None:
    weights = []
    for pictures in (True, False):
        settings = tiny.settings(recipe=recipe, pictures=pictures, checkpoint_every=1, iterations=3)
        run = train(dataset, tmp_path / f"run {pictures}", settings)
        weights.append(load_checkpoint(run.latest).weights)
        assert (run.folder / "pictures").is_dir() == pictures
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_every_checkpoint_leaves_a_picture_in_the_folder_and_in_tensorboard(
    dataset: Dataset, tmp_path: Path
) -> None:
    run = train(dataset, tmp_path / "run", tiny.settings(iterations=4, checkpoint_every=2))
    names = sorted(path.name for path in (run.folder / "pictures").iterdir())
    assert names == ["step-000002.png", "step-000004.png"]
    events = EventAccumulator(str(run.folder)).Reload()
    assert [image.step for image in events.Images("networks")] == [2, 4]
    logged = events.Images("networks")[-1]
    with Image.open(run.folder / "pictures" / names[-1]) as picture:
        assert picture.size == (logged.width, logged.height)


@pytest.mark.parametrize("method", METHODS)
def test_drawing_leaves_random_state_mode_and_buffers_alone(
    method: str, dataset: Dataset, tmp_path: Path
) -> None:
    settings = tiny.settings(method, recipe="paper")
    run = Run.create(tmp_path / "run", settings, make_plan(dataset, settings), dataset)
    trainer = Trainer(run, dataset, Silent())
    trainer.method.train()
    before = {name: value.clone() for name, value in trainer.method.state_dict().items()}
    state = torch.get_rng_state()
    first = Pictures(trainer.source).draw(trainer.method)
    assert torch.equal(state, torch.get_rng_state())
    assert trainer.method.training
    assert all(torch.equal(before[k], v) for k, v in trainer.method.state_dict().items())
    assert np.array_equal(first, Pictures(trainer.source).draw(trainer.method))


def test_the_window_is_a_patch_deep_and_bounded_and_holds_the_drawn_slice(
    dataset: Dataset, tmp_path: Path
) -> None:
    settings = tiny.settings(patch=(4, 4, 4))
    run = Run.create(tmp_path / "run", settings, make_plan(dataset, settings), dataset)
    labeled, unlabeled = Pictures(Trainer(run, dataset, Silent()).source).windows
    for window in (labeled, unlabeled):
        assert window.image.shape == (1, 8, 8, 4)
        assert window.image.flags.owndata
    assert labeled.plane is Plane.AXIAL
    assert labeled.drawn is not None
    assert unlabeled.drawn is None
    # The brightest voxels of the tiny scans are the pebble's: the drawing lies on the image.
    shown = labeled.plane.facing(labeled.image[0], labeled.index)
    assert shown[labeled.drawn == 2].mean() > shown[labeled.drawn == 1].mean() + 0.5
    assert shown[labeled.drawn == 1].mean() > shown[labeled.drawn == 0].mean() + 0.5


def test_the_drawn_slice_is_found_in_whatever_plane_it_is() -> None:
    views = np.ones((2, 5, 6, 7), np.int16)
    views[1, :, 4, :] = 0
    assert drawn_slice(LabeledScan("a", views, ())) == (Plane.CORONAL, 4)
    views[1, :, :, (1, 2, 5)] = 0
    assert drawn_slice(LabeledScan("a", views, ())) == (Plane.AXIAL, 2)


def test_labels_are_tinted_and_outlined_where_they_are() -> None:
    labels = np.zeros((10, 10), np.uint8)
    labels[2:8, 2:8] = 1
    picture = np.asarray(overlay(np.zeros((10, 10), np.float32), labels, size=(100, 100)))
    colour = [int(COLOURS[0][at : at + 2], 16) for at in (1, 3, 5)]
    assert picture[20, 50].tolist() == colour  # the border
    assert np.allclose(picture[50, 50], [0.28 * c for c in colour], atol=1)  # inside
    assert picture[5, 5].tolist() == [0, 0, 0]
    assert outline(labels == 1, 1).sum() == 36 - 16
