"""Labels by setting: drawn slices, label views, fully drawn volumes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from training import tiny
from twoslice.annotation.simulate import simulate
from twoslice.errors import AnnotationError
from twoslice.io.dataset import Dataset, write_description
from twoslice.io.grid import Grid
from twoslice.io.scans import write_image, write_labels
from twoslice.objectives.weights import NEVER
from twoslice.training.loop import train
from twoslice.training.sources import read_volume
from twoslice.training.volumes import resample_view


def dense_dataset(root: Path, *, ignored: bool = False) -> Dataset:
    grid = Grid(tiny.SHAPE, np.diag([1.0, 1.0, 1.5, 1.0]))
    for index in range(3):
        image, labels = tiny.scan(index)
        labels = labels.copy()
        if ignored:
            labels[:2] = tiny.IGNORE
        write_image(root / "imagesTr" / f"tiny_{index}_0000.nii.gz", image, grid)
        write_labels(root / "labelsTr" / f"tiny_{index}.nii.gz", labels, grid)
    ignore = tiny.IGNORE if ignored else None
    write_description(root, name="dense", channel_names=("MR",), labels=tiny.LABELS, ignore=ignore)
    return Dataset.open(root)


@pytest.mark.parametrize("method", ["mean_teacher", "supervised", "desco"])
def test_fully_drawn_volumes_train(method: str, tmp_path: Path) -> None:
    """Two of three scans keep their labels whole: nothing is propagated, nothing in dense/ read."""
    simulate(dense_dataset(tmp_path / "dense"), tmp_path / "data", labeled=2, whole=True)
    dataset = Dataset.open(tmp_path / "data")
    assert dataset.labeled == ("tiny_0", "tiny_1")
    for hidden in (tmp_path / "data" / "dense").iterdir():
        hidden.write_bytes(b"not to be read")
    run = train(dataset, tmp_path / "run", tiny.settings(method, setting="full", iterations=2))
    assert run.step == 2


def test_every_voxel_of_a_volume_is_known_but_the_ignored_ones(tmp_path: Path) -> None:
    dataset = dense_dataset(tmp_path / "dense", ignored=True)
    ((label, distance),) = read_volume(dataset, "tiny_1")
    _, truth = tiny.scan(1)
    assert (distance[:2] == NEVER).all()
    assert (distance[2:] == 0).all()
    np.testing.assert_array_equal(label[2:], truth[2:])


def test_a_few_drawn_slices_are_no_volume(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    with pytest.raises(AnnotationError, match=r"tiny_0: .* 2 drawn slice.*training.setting=full"):
        train(dataset, tmp_path / "run", tiny.settings("mean_teacher", setting="full"))
    assert not (tmp_path / "run").exists()


def test_a_volume_on_coarser_voxels_takes_the_nearest_label() -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, (12, 9, 6)).astype(np.uint8)
    coarse, distance = resample_view(label, np.zeros(label.shape, np.int16), (4, 3, 2))
    np.testing.assert_array_equal(coarse, label[1::3, 1::3, 1::3])
    assert (distance == 0).all()
