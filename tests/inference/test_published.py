"""Published V-Net checkpoints in the place of a run; unsafe pickles refused."""

from __future__ import annotations

import pickle
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch

from twoslice.errors import InputError
from twoslice.inference.predict import predict
from twoslice.inference.published import PublishedRun, open_model
from twoslice.inference.volume import Predictor
from twoslice.io.grid import Grid
from twoslice.io.volume import Volume
from twoslice.networks.vnet import VNet

SHAPE = (40, 36, 24)


def network(channels: int = 1, classes: int = 2, filters: int = 4) -> VNet:
    torch.manual_seed(1)
    made = VNet(channels, classes, filters)
    with torch.no_grad():
        made(torch.randn(2, channels, 32, 32, 32))  # batch norm with statistics of its own
    return made.eval()


def image(seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=SHAPE)
    return noise.astype(np.float32)


@pytest.mark.parametrize(
    ("wrapper", "prefix"), [(None, ""), ("net", "module."), ("state_dict", "")]
)
def test_a_checkpoint_predicts_what_its_network_says(
    tmp_path: Path, wrapper: str | None, prefix: str
) -> None:
    made = network(classes=3, filters=3)
    weights = {f"{prefix}{name}": value for name, value in made.state_dict().items()}
    tree = weights if wrapper is None else {wrapper: weights, "opt": {"lr": 0.01}, "epoch": 3}
    torch.save(tree, tmp_path / "iter_6000.pth")
    predictor = Predictor(open_model(tmp_path / "iter_6000.pth"))
    data = image()
    volume = Volume(data[None], Grid(SHAPE, np.eye(4)))
    found = predictor(volume).probabilities
    padded = np.pad(data, [(0, 112 - 40), (0, 112 - 36), (0, 80 - 24)], mode="edge")
    with torch.no_grad():
        expected = made(torch.from_numpy(padded)[None, None]).softmax(1)[0, :, :40, :36, :24]
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)


def test_shapes_tell_channels_classes_and_filters(tmp_path: Path) -> None:
    torch.save(network(2, 4, 6).state_dict(), tmp_path / "net.pth")
    run = open_model(tmp_path / "net.pth")
    plan = run.plan.network
    assert (plan.channels, plan.classes, plan.filters) == (2, 4, 6)
    assert plan.normalisation == "batch"
    assert run.data.class_names == ("background", "label 1", "label 2", "label 3")


def test_scans_are_z_scored_and_those_that_are_stay_as_they_are(tmp_path: Path) -> None:
    run = PublishedRun(tmp_path / "net.pth", network().state_dict())
    raw = (300 + 90 * image())[None]
    scaled = run.normalise(raw)
    np.testing.assert_allclose(scaled, (raw - raw.mean()) / raw.std(), atol=1e-4)
    cut = image()[None] * 0.9 + 0.8  # a z-scored scan that was cut out, as mri_norm2.h5 are
    np.testing.assert_array_equal(run.normalise(cut), cut)
    assert raw.mean() > 200, "the scan itself must stay as it was"


def test_label_maps_come_out_as_from_a_run(tmp_path: Path) -> None:
    torch.save(network().state_dict(), tmp_path / "net.pth")
    nib.save(nib.Nifti1Image(image(), np.diag([-1.0, -1.0, 2.0, 1.0])), tmp_path / "one.nii.gz")
    first = predict(tmp_path / "net.pth", [tmp_path / "one.nii.gz"], tmp_path / "out")
    again = predict(tmp_path / "net.pth", [tmp_path / "one.nii.gz"], tmp_path / "out")
    assert (first.predicted, again.already) == (("one",), ("one",))
    assert nib.load(tmp_path / "out" / "one.nii.gz").shape == SHAPE


class Harm:
    """A pickle that would make a file when it is loaded."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.target,)


@pytest.mark.parametrize("way", ["torch", "plain"])
def test_a_pickle_that_could_run_code_is_refused_and_runs_none(tmp_path: Path, way: str) -> None:
    file, target = tmp_path / "net.pth", tmp_path / "harmed"
    if way == "torch":
        torch.save({"net": network().state_dict(), "more": Harm(target)}, file)
    else:
        file.write_bytes(pickle.dumps(Harm(target)))
    with pytest.raises(InputError, match=r"net\.pth: (holds more than tensors|not readable)"):
        open_model(file)
    assert not target.exists()


def test_files_that_are_no_such_checkpoint_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "net.pth"
    torch.save(network().state_dict(), file)
    file.write_bytes(file.read_bytes()[:2000])
    with pytest.raises(InputError, match=r"net\.pth: (not readable|holds more)"):
        open_model(file)
    file.write_bytes(b"")
    with pytest.raises(InputError, match=r"net\.pth"):
        open_model(file)
    torch.save(torch.zeros(3), file)
    with pytest.raises(InputError, match="it holds a Tensor"):
        open_model(file)
    torch.save({"encoder.weight": torch.zeros(3)}, file)
    with pytest.raises(InputError, match=r"it lacks block_one\.conv\.0\.weight"):
        open_model(file)
    torch.save({**network().state_dict(), "head.weight": torch.zeros(2)}, file)
    with pytest.raises(InputError, match=r"head\.weight"):
        Predictor(open_model(file))
    (tmp_path / "scan.nii").write_bytes(b"x")
    with pytest.raises(InputError, match="is a file"):
        open_model(tmp_path / "scan.nii")
