"""Labels for nnU-Net: what is not trusted is ignored, what was drawn never is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from training import tiny
from twoslice.errors import InputError
from twoslice.export.formats import LabelOptions, export
from twoslice.export.nnunet import propagated
from twoslice.io.dataset import Dataset
from twoslice.io.scans import write_image, write_labels

DRAWN = np.zeros(tiny.SHAPE, bool)
DRAWN[:, :, 7] = DRAWN[:, 9, :] = True


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return tiny.make_dataset(tmp_path / "data")


def predictions(dataset: Dataset, folder: Path, *, entropy: float = 0.9) -> Path:
    """Background everywhere, uncertain in the first half of the first axis."""
    for case in ("tiny_0", "tiny_3"):
        grid = dataset.read_grid(case)
        uncertain = np.zeros(tiny.SHAPE, np.float32)
        uncertain[:10] = entropy
        write_labels(folder / f"{case}.nii.gz", np.zeros(tiny.SHAPE, np.uint8), grid)
        write_image(folder / "uncertainty" / f"{case}_entropy.nii.gz", uncertain, grid)
    return folder


def test_far_voxels_on_which_the_planes_disagree_are_ignored(
    dataset: Dataset, tmp_path: Path
) -> None:
    export(dataset.root, tmp_path / "out", to="nnunet", options=LabelOptions(trust=0.9))
    made = Dataset.open(tmp_path / "out")
    assert tuple(made.cases) == made.labeled == ("tiny_0", "tiny_1")
    assert made.ignore == 3
    _, dense = tiny.scan(0)
    axial, coronal = (np.broadcast_to(s, tiny.SHAPE) for s in (dense[:, :, 7:8], dense[:, 9:10]))
    labels = made.read_labels("tiny_0").data
    np.testing.assert_array_equal(labels[DRAWN], dense[DRAWN])
    k, j = np.arange(14)[None, None, :], np.arange(18)[None, :, None]
    away = np.broadcast_to(np.minimum(abs(k - 7), abs(j - 9)), tiny.SHAPE)
    doubted = (axial != coronal) & (1 - 0.95**away > 0.1)
    np.testing.assert_array_equal(labels == 3, doubted & ~DRAWN)
    assert doubted.sum() > 100
    original = dataset.root / "imagesTr" / "tiny_0_0000.nii.gz"
    copied = tmp_path / "out" / "imagesTr" / "tiny_0_0000.nii.gz"
    assert copied.read_bytes() == original.read_bytes()


def test_every_voxel_is_taken_at_trust_0(dataset: Dataset, tmp_path: Path) -> None:
    export(dataset.root, tmp_path / "out", to="nnunet", options=LabelOptions(trust=0.0))
    made = Dataset.open(tmp_path / "out")
    assert made.ignore is None
    np.testing.assert_array_equal(made.read_labels("tiny_1").data, propagated(dataset, "tiny_1")[0])


def test_uncertain_predictions_are_ignored_and_drawn_slices_stay(
    dataset: Dataset, tmp_path: Path
) -> None:
    options = LabelOptions(predictions=predictions(dataset, tmp_path / "p"))
    export(dataset.root, tmp_path / "out", to="nnunet", options=options)
    made = Dataset.open(tmp_path / "out")
    assert made.labeled == ("tiny_0", "tiny_3")
    unlabeled = made.read_labels("tiny_3").data
    assert (unlabeled[:10] == 3).all()
    assert (unlabeled[10:] == 0).all()
    labels, (_, dense) = made.read_labels("tiny_0").data, tiny.scan(0)
    np.testing.assert_array_equal(labels[DRAWN], dense[DRAWN])
    assert (labels[:10][~DRAWN[:10]] == 3).all()


def test_predictions_without_uncertainty_or_scan_are_refused(
    dataset: Dataset, tmp_path: Path
) -> None:
    folder = predictions(dataset, tmp_path / "p")
    (folder / "uncertainty" / "tiny_3_entropy.nii.gz").unlink()
    with pytest.raises(InputError, match=r"tiny_3_entropy.*--uncertainty.*--trust 0"):
        export(dataset.root, tmp_path / "out", to="nnunet", options=LabelOptions(folder))
    assert not (tmp_path / "out").exists()
    export(dataset.root, tmp_path / "all", to="nnunet", options=LabelOptions(folder, trust=0.0))
    (folder / "tiny_3.nii.gz").rename(folder / "other.nii.gz")
    with pytest.raises(InputError, match=r"no scan of other.*--scans"):
        export(dataset.root, tmp_path / "out", to="nnunet", options=LabelOptions(folder))
    assert not (tmp_path / "out").exists()


def test_a_fully_drawn_volume_stays_whole(dataset: Dataset, tmp_path: Path) -> None:
    _, dense = tiny.scan(0)
    write_labels(dataset.root / "labelsTr" / "tiny_0.nii.gz", dense, dataset.read_grid("tiny_0"))
    options = LabelOptions(predictions=predictions(dataset, tmp_path / "p"))
    export(dataset.root, tmp_path / "out", to="nnunet", options=options)
    np.testing.assert_array_equal(Dataset.open(tmp_path / "out").read_labels("tiny_0").data, dense)
