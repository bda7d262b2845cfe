"""Probes: changes that are undone exactly, and answers that fit together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from training import tiny
from twoslice.inference.probes import PROBES, moved, probe
from twoslice.inference.volume import Predictor
from twoslice.settings import load_settings
from twoslice.training.loop import train


@pytest.mark.parametrize("kind", PROBES, ids=lambda kind: kind.name)
def test_a_probe_undone_gives_the_inside_of_the_image_back(kind) -> None:  # type: ignore[no-untyped-def]
    image = torch.rand(1, 2, 9, 8, 7)
    back = kind.undo(kind.change(image))
    assert not torch.equal(kind.change(image), image)
    inside = (slice(None), slice(None), slice(2, -2), slice(2, -2), slice(2, -2))
    assert torch.equal(back[inside], image[inside])


def test_moving_repeats_the_border() -> None:
    image = torch.arange(5.0).expand(1, 1, 5, 5, 5)
    assert moved(image, 2)[0, 0, 0, 0].tolist() == [0, 0, 0, 1, 2]
    assert moved(image, -2)[0, 0, 0, 0].tolist() == [2, 3, 4, 4, 4]


def test_answers_cover_the_scan_once_and_their_mean_is_the_prediction(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    run = train(dataset, tmp_path / "run", tiny.settings(iterations=2, pictures=False))
    options = load_settings(assignments=["inference.window=whole"]).inference
    predictor = Predictor(run, options=options)
    volume = dataset.read_image("tiny_3")
    slabs = list(probe(predictor, volume))
    members = torch.cat([slab.members for slab in slabs], dim=slabs[0].axis + 2)
    probes = torch.cat([slab.probes for slab in slabs], dim=slabs[0].axis + 2)
    assert members.shape == (2, 3, *volume.shape)
    assert probes.shape == (len(PROBES), 3, *volume.shape)
    assert [slab.start for slab in slabs] == sorted(slab.start for slab in slabs)
    expected = predictor(volume).probabilities
    np.testing.assert_allclose(members.mean(dim=0).numpy(), expected, atol=1e-5)
