"""Phantoms: the same every time, different from each other, and hard in the ways they claim."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from numpy.typing import NDArray

from twoslice.demo.phantom import LABELS, Phantom, make_phantom, write_phantoms


@pytest.fixture(scope="module")
def phantoms() -> list[Phantom]:
    return [make_phantom((0, index)) for index in range(4)]


def dice(ours: NDArray[np.bool_], theirs: NDArray[np.bool_]) -> float:
    return float(2 * (ours & theirs).sum() / (ours.sum() + theirs.sum()))


def test_the_same_seed_gives_the_same_scan_and_another_seed_another(
    phantoms: list[Phantom],
) -> None:
    again = make_phantom((0, 1))
    assert np.array_equal(again.image, phantoms[1].image)
    assert np.array_equal(again.labels, phantoms[1].labels)
    assert not np.array_equal(make_phantom((1, 1)).labels, phantoms[1].labels)


def test_every_scan_shows_both_targets_in_one_piece_each(phantoms: list[Phantom]) -> None:
    from scipy import ndimage

    for phantom in phantoms:
        for value in (1, 2):
            parts, count = ndimage.label(phantom.labels == value)
            sizes = np.bincount(parts.ravel())[1:]
            assert count >= 1
            assert sizes.max() > 0.95 * sizes.sum()
            assert sizes.sum() > 200


def test_no_window_of_intensity_finds_a_target(phantoms: list[Phantom]) -> None:
    """Neighbours of like intensity: the best of all windows stays far below 80 Dice."""
    for phantom in phantoms:
        for value in (1, 2):
            target = phantom.labels == value
            edges = np.quantile(phantom.image, np.linspace(0, 1, 60))
            best = max(
                dice((phantom.image >= low) & (phantom.image <= high), target)
                for index, low in enumerate(edges)
                for high in edges[index + 1 :]
            )
            assert best < 0.75


def test_another_scans_label_does_not_fit(phantoms: list[Phantom]) -> None:
    """Shapes differ between scans: copying a dense label across scores low."""
    for value in (1, 2):
        scores = [
            dice(phantoms[0].labels == value, other.labels == value) for other in phantoms[1:]
        ]
        assert np.mean(scores) < 0.75


def test_copying_the_drawn_slice_through_the_scan_does_not_reach_80(
    phantoms: list[Phantom],
) -> None:
    for phantom in phantoms:
        sizes = [(phantom.labels[:, :, k] > 0).sum() for k in range(phantom.labels.shape[2])]
        drawn = phantom.labels[:, :, int(np.argmax(sizes))]
        copied = np.repeat(drawn[:, :, None], phantom.labels.shape[2], axis=2)
        scores = [dice(copied == value, phantom.labels == value) for value in (1, 2)]
        assert np.mean(scores) < 0.8


def test_the_dataset_is_dense_lps_anisotropic_and_split_into_training_and_test(
    tmp_path: Path,
) -> None:
    dataset = write_phantoms(tmp_path / "phantoms", seed=3, training=2, test=1, shape=(20, 18, 9))
    assert dataset.labeled == ("scan_00", "scan_01")
    assert tuple(dataset.test_cases) == ("test_00",)
    assert dict(dataset.labels) == LABELS
    image = nib.load(dataset.cases["scan_00"].images[0])
    assert nib.aff2axcodes(image.affine) == ("L", "P", "S")
    assert len({round(float(side), 3) for side in image.header.get_zooms()}) > 1
    volume = dataset.read_image("scan_00")
    assert np.allclose(volume.data[0], make_phantom((3, 0), shape=(20, 18, 9)).image)
