"""The MONAI bundle: run by MONAI's own commands, without twoslice, it gives the same labels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch
from monai.data import MetaTensor

from training import tiny
from twoslice.export.bundle import write_bundle
from twoslice.export.inferer import WholeScan, find_cases, name_output
from twoslice.export.trained import load_ensemble
from twoslice.export.vendor import foreign_packages, modules_needed
from twoslice.inference.predict import predict
from twoslice.inference.volume import Predictor
from twoslice.io.scans import read_scan
from twoslice.settings import Settings, parse_settings
from twoslice.training.loop import train
from twoslice.training.run import Run

OBLIQUE = np.array(
    [[0.0, -1.2, 0.1, 5.0], [0.9, 0.0, 0.0, -7.0], [0.0, 0.1, 2.0, 3.0], [0, 0, 0, 1]]
)


def settings(inference: dict[str, object], **training: object) -> Settings:
    tree = tiny.settings(iterations=3, **training).model_dump()
    return parse_settings(tree | {"inference": inference})


def trained(folder: Path, asked: Settings) -> Run:
    return train(tiny.make_dataset(folder / "data"), folder / "run", asked)


def write_scans(folder: Path) -> Path:
    """The same scan in two axis orders, one of them oblique."""
    folder.mkdir()
    for name, affine in (("one", np.diag([-1.0, -1.0, 1.5, 1.0])), ("two", OBLIQUE)):
        nib.save(nib.Nifti1Image(tiny.scan(7)[0], affine), folder / f"{name}_0000.nii.gz")
    return folder


def monai_bundle(bundle: Path, tmp_path: Path, verb: str, **options: object) -> str:
    """`python -m monai.bundle`, where importing twoslice fails."""
    blocked = tmp_path / "blocked" / "twoslice"
    blocked.mkdir(parents=True, exist_ok=True)
    (blocked / "__init__.py").write_text("raise ImportError('a bundle must do without')")
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    done = subprocess.run(
        [sys.executable, "-m", "monai.bundle", verb, *words],
        cwd=bundle,
        env=os.environ | {"PYTHONPATH": str(blocked.parent), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "inference"),
    [("modern", {"flips": True, "window": "patch"}), ("paper", {"largest_component": True})],
)
def test_monai_runs_the_bundle_and_gives_the_labels_that_predict_gives(
    recipe: str, inference: dict[str, object], tmp_path: Path
) -> None:
    run = trained(tmp_path, settings(inference, recipe=recipe, spacing=(1.3, 0.9, 1.2)))
    scans = write_scans(tmp_path / "scans")
    predict(run.folder, [scans], tmp_path / "ours")
    write_bundle(run, tmp_path / "bundle")
    monai_bundle(
        tmp_path / "bundle", tmp_path, "run",
        config_file="configs/inference.json", meta_file="configs/metadata.json",
        dataset_dir=scans, output_dir=tmp_path / "theirs",
    )  # fmt: skip
    for name in ("one", "two"):
        ours, theirs = (nib.load(tmp_path / who / f"{name}.nii.gz") for who in ("ours", "theirs"))
        np.testing.assert_allclose(ours.affine, theirs.affine, atol=1e-5)
        found = np.asarray(ours.dataobj)
        np.testing.assert_array_equal(found, np.asarray(theirs.dataobj))
        assert len(np.unique(found)) > 1


@pytest.mark.slow
def test_monai_finds_the_network_as_the_metadata_says(tmp_path: Path) -> None:
    run = trained(tmp_path, settings({}))
    write_bundle(run, tmp_path / "bundle")
    said = monai_bundle(
        tmp_path / "bundle", tmp_path, "verify_net_in_out", net_id="network_def",
        config_file="configs/inference.json", meta_file="configs/metadata.json", any=9,
    )  # fmt: skip
    assert "verified with no error" in said


@pytest.mark.parametrize("recipe", ["modern", "paper"])
def test_the_inferer_equals_the_predictor(recipe: str, tmp_path: Path) -> None:
    run = trained(tmp_path, settings({"flips": True}, recipe=recipe, spacing=(1.0, 1.0, 1.1)))
    volume = read_scan(tmp_path / "data" / "imagesTr" / "tiny_3_0000.nii.gz")
    network = load_ensemble(run)
    inferer = WholeScan(run.plan.network.model_dump(), run.plan.spacing, run.plan.patch, flips=True)
    image = MetaTensor(
        torch.from_numpy(volume.data), affine=torch.from_numpy(volume.grid.ras.affine)
    )
    found = inferer(image[None], network)[0].numpy()
    expected = Predictor(run, device=torch.device("cpu"))(volume).probabilities
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_bundle_needs_few_packages() -> None:
    needed = modules_needed(["twoslice.export.ensemble", "twoslice.export.inferer"])
    others = foreign_packages(needed) - set(sys.stdlib_module_names)
    assert others <= {"torch", "monai", "numpy", "nibabel", "pydantic", "scipy"}


def test_the_weights_are_tensors_alone_and_one_network_can_be_chosen(tmp_path: Path) -> None:
    run = trained(tmp_path, settings({"network": 2}))
    write_bundle(run, tmp_path / "bundle")
    weights = torch.load(tmp_path / "bundle" / "models" / "model.pt", weights_only=True)
    second = run.load_method().networks[1].state_dict()
    assert {f"networks.0.{name}" for name in second} == set(weights)
    assert all(torch.equal(weights[f"networks.0.{name}"], value) for name, value in second.items())
    about = json.loads((tmp_path / "bundle" / "configs" / "metadata.json").read_text())
    names = about["network_data_format"]["outputs"]["pred"]["channel_def"]
    assert names == {"0": "background", "1": "ball", "2": "pebble"}


def test_scans_of_several_channels_are_one_case(tmp_path: Path) -> None:
    for name in ("a_0000.nii.gz", "a_0001.nii.gz", "b_0000.nii.gz", "b_0001.nii.gz", "notes.txt"):
        (tmp_path / name).touch()
    pairs = [[str(tmp_path / f"{case}_000{index}.nii.gz") for index in (0, 1)] for case in "ab"]
    assert [case["image"] for case in find_cases(str(tmp_path), 2)] == pairs
    assert name_output({"filename_or_obj": pairs[0][0]}, None)["subject"] == "a"
