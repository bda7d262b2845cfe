"""nnU-Net's own tool on what twoslice writes.

Its environment is made by `make peers`, or here if it is missing.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from numpy.typing import NDArray

from annotation.strategies import two_balls, write_dense
from training import tiny
from twoslice.annotation.choice import Scheme
from twoslice.annotation.simulate import simulate
from twoslice.export.formats import LabelOptions, export
from twoslice.io.dataset import Dataset
from twoslice.io.scans import write_image, write_labels

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".peers" / "nnunet"
VERIFY = """
import sys
from nnunetv2.experiment_planning.verify_dataset_integrity import verify_dataset_integrity
if __name__ == "__main__":
    verify_dataset_integrity(sys.argv[1], num_processes=1)
"""
PLAN = """
import sys
from nnunetv2.experiment_planning.plan_and_preprocess_api import (
    extract_fingerprint_dataset, plan_experiment_dataset,
)
if __name__ == "__main__":
    extract_fingerprint_dataset(int(sys.argv[1]), num_processes=1, check_dataset_integrity=True)
    plan_experiment_dataset(int(sys.argv[1]))
"""
ACCEPTED = "verify_dataset_integrity Done"

pytestmark = [pytest.mark.peers, pytest.mark.slow]


@pytest.fixture(scope="session")
def nnunet() -> Path:
    """The Python of nnU-Net's environment, made if it is missing, or a skip that says why not."""
    ENVIRONMENT.parent.mkdir(exist_ok=True)
    with (ENVIRONMENT.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Test workers share the environment: one makes it.
        if not (ENVIRONMENT / "installed").is_file():
            _make_environment()
    return ENVIRONMENT / "bin" / "python"


def _make_environment() -> None:
    made = subprocess.run(
        ["sh", str(ROOT / "tests" / "peers" / "make_environment.sh"), str(ENVIRONMENT)],
        env=os.environ | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        reason = made.stderr.strip().splitlines()[-1:] or ["no reason given"]
        pytest.skip(f"nnU-Net cannot be installed ({reason[0]}): run 'make peers' and look")


def run_nnunet(nnunet: Path, code: str, argument: str, tmp_path: Path) -> str:
    """Run a script in nnU-Net's environment, each worker on one thread; gives back what it says."""
    script = tmp_path / "script.py"
    script.write_text(code, encoding="utf-8")
    names = ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results")
    folders = {name: str(tmp_path / name) for name in names}
    done = subprocess.run(
        [str(nnunet), str(script), argument],
        env=os.environ | folders | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def verify(nnunet: Path, dataset: Path, tmp_path: Path) -> str:
    """What `verify_dataset_integrity` says."""
    return run_nnunet(nnunet, VERIFY, str(dataset), tmp_path)


@pytest.mark.parametrize("scheme", ["orthogonal", "single"])
def test_nnunet_accepts_what_simulate_writes(nnunet: Path, tmp_path: Path, scheme: Scheme) -> None:
    oblique = np.diag([-0.8, -0.8, 2.5, 1.0])
    oblique[:3, :3] = oblique[:3, :3] @ _turn(0.3)
    labels: dict[str, NDArray[np.uint8] | None] = {
        f"scan {number}": np.ascontiguousarray(np.roll(two_balls(), number, 0))
        for number in range(4)
    }
    dense = Dataset.open(write_dense(tmp_path / "dense", labels, affine=oblique))
    simulate(dense, tmp_path / "Dataset501_Sparse", labeled=2, scheme=scheme)
    said = verify(nnunet, tmp_path / "Dataset501_Sparse", tmp_path)
    assert ACCEPTED in said, said
    for complaint in ("Error", "Warning", "WARNING", "mismatch"):
        assert complaint not in said, said


def test_the_same_tool_refuses_a_label_that_is_not_in_dataset_json(
    nnunet: Path, tmp_path: Path
) -> None:
    dense = Dataset.open(write_dense(tmp_path / "dense", {"a": two_balls(), "b": two_balls()}))
    simulate(dense, tmp_path / "sparse", labeled=1)
    path = tmp_path / "sparse" / "labelsTr" / "a.nii.gz"
    written = nib.load(path)
    strange = np.asarray(written.dataobj).copy()
    strange[0, 0, 0] = 9
    nib.save(nib.Nifti1Image(strange, written.affine), path)
    said = verify(nnunet, tmp_path / "sparse", tmp_path)
    assert ACCEPTED not in said
    assert "Unexpected labels" in said


def _turn(angle: float) -> NDArray[np.float64]:
    """A turn about the third axis."""
    turn = np.eye(3)
    turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return turn


def test_nnunet_plans_with_the_labels_that_export_writes(nnunet: Path, tmp_path: Path) -> None:
    """Verification, fingerprint and planning on predicted labels with ignored voxels."""
    dataset = tiny.make_dataset(tmp_path / "data", cases=4)
    for case in dataset.cases:
        grid, (_, labels) = dataset.read_grid(case), tiny.scan(int(case[-1]))
        doubt = np.zeros(tiny.SHAPE, np.float32)
        doubt[:4] = 0.9
        write_labels(tmp_path / "predicted" / f"{case}.nii.gz", labels, grid)
        write_image(tmp_path / "predicted" / "uncertainty" / f"{case}_entropy.nii.gz", doubt, grid)
    out = tmp_path / "nnUNet_raw" / "Dataset502_Tiny"
    export(dataset.root, out, to="nnunet", options=LabelOptions(tmp_path / "predicted"))
    said = run_nnunet(nnunet, PLAN, "502", tmp_path)
    assert ACCEPTED in said, said
    plans = tmp_path / "nnUNet_preprocessed" / "Dataset502_Tiny" / "nnUNetPlans.json"
    assert plans.is_file(), said
    assert "3d_fullres" in json.loads(plans.read_text())["configurations"]
