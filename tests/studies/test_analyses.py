"""The two analyses on phantoms, and the pieces that they are made of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from studies.worlds import make_dense, write_study
from twoslice.engines.here import Here
from twoslice.io.dataset import Dataset
from twoslice.studies.contours import panels_of
from twoslice.studies.features import FeatureReader
from twoslice.studies.files import load_study
from twoslice.studies.grid import plan_runs
from twoslice.studies.study import run_study
from twoslice.studies.tsne_study import consistency

SPARSE = {"training.setting": "sparse"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("analyses")
    make_dense(folder)
    return folder


@pytest.mark.slow
def test_an_hsic_study_compares_slices_of_image_and_features(world: Path, tmp_path: Path) -> None:
    row = {"name": "net", "method": "supervised", "set": {"training.setting": "full"}}
    file = write_study(
        world,
        kind="hsic",
        rows=[row],
        seeds=[0],
        data={"dense": "phantoms", "labeled": 3, "whole": True},
        analysis={"draws": 2},
    )
    result = run_study(file, tmp_path, engine=Here())
    found = json.loads((tmp_path / "hsic.json").read_text())
    assert found["cases"] == 8
    for reading in ("rows", "scans"):
        for level in ("image", "feature"):
            assert found[reading][level]["parallel"]["hsic"] > 0
    assert (tmp_path / "hsic.png").is_file()
    run = result.folder(result.finished[0][0]) / "run"
    reader = FeatureReader(run)
    image = reader.image(Dataset.open(world / "phantoms"), "test_00")
    features = reader.features(image)
    assert features.shape[1:] == image.shape[1:]
    # The features are what the scores are made of: the last layer on them gives the scores.
    import torch

    with torch.no_grad():
        scores = reader.network(torch.from_numpy(image)[None])[0].numpy()
        weight = reader.layer.weight.flatten(1).numpy()  # type: ignore[operator,union-attr]
        bias = reader.layer.bias.numpy()  # type: ignore[union-attr]
    again = np.einsum("oc,cijk->oijk", weight, features) + bias[:, None, None, None]
    np.testing.assert_allclose(again, scores, atol=1e-4)


@pytest.mark.slow
def test_a_tsne_study_compares_models_of_parallel_and_orthogonal_slices(
    world: Path, tmp_path: Path
) -> None:
    slices = {"t1": "axial 7", "t2": "axial 9", "c": "coronal 12"}
    rows = [
        {"name": name, "method": "supervised", "set": SPARSE, "data": {"slices": [place]}}
        for name, place in slices.items()
    ]
    file = write_study(
        world,
        kind="tsne",
        rows=rows,
        seeds=[0],
        data={"dense": "phantoms", "labeled": 3, "scheme": "single", "labels": ["organ"]},
        analysis={"voxels": 40, "perplexity": 5},
    )
    run_study(file, tmp_path, engine=Here())
    found = json.loads((tmp_path / "tsne.json").read_text())
    assert set(found["pairs"]) == {"t1 and t2", "t1 and c"}
    assert found["voxels"] == 80
    assert (tmp_path / "tsne.png").is_file()


def test_models_that_agree_have_a_ratio_of_zero_and_strangers_a_large_one() -> None:
    rng = np.random.default_rng(0)
    target = np.arange(200) < 100
    features = rng.standard_normal((200, 4)).astype(np.float32) + 10 * target[:, None]
    assert consistency(features, features, target)["ratio"] == 0.0
    shifted = consistency(features, features + 20, target)
    assert shifted["within"] == pytest.approx(40, rel=1e-5)  # 20 along each of four axes
    assert shifted["ratio"] == pytest.approx(2.0, rel=0.05)


def test_pictures_have_a_panel_a_recipe_and_setting() -> None:
    runs = plan_runs(load_study(Path("table-la-half-small")))
    panels = panels_of(runs)
    assert [panel.title for panel in panels] == [
        f"{recipe}, {setting}"
        for recipe in ("paper", "modern")
        for setting in ("Dense", "Sparse", "Full")
    ]
    for panel in panels:
        assert "DeSCO" in [run.row.name for run in panel.runs]  # it has no setting: it is in each
