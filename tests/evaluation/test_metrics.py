"""Metrics against MedPy and MONAI on random blobs, and in closed form where one exists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from medpy.metric import binary as medpy
from numpy.typing import NDArray
from scipy import ndimage

from twoslice.evaluation.metrics import compare, surface

SPACINGS = [(1.0, 1.0, 1.0), (0.625, 0.625, 0.625), (0.7, 1.3, 2.5), (3.0, 0.5, 0.9)]


def blob(seed: int, shape: tuple[int, int, int] = (24, 20, 17)) -> NDArray[np.bool_]:
    """Smoothed noise above a threshold: ragged, several parts, may touch the border."""
    noise = np.random.default_rng(seed).normal(size=shape)
    smooth = ndimage.gaussian_filter(noise, 2.0)
    return np.asarray(smooth > np.quantile(smooth, 0.8))


@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("seed", range(5))
def test_every_shared_metric_agrees_with_medpy_on_random_blobs(
    seed: int, spacing: tuple[float, float, float]
) -> None:
    ours, theirs = blob(seed), blob(seed + 100)
    found = compare(ours, theirs, spacing=spacing)
    assert found.dice == pytest.approx(medpy.dc(ours, theirs), abs=1e-6)
    assert found.jaccard == pytest.approx(medpy.jc(ours, theirs), abs=1e-6)
    assert found.hd95_mm == pytest.approx(medpy.hd95(ours, theirs, spacing), abs=1e-6)
    assert found.hd95_voxel == pytest.approx(medpy.hd95(ours, theirs), abs=1e-6)
    assert found.asd_mm == pytest.approx(medpy.asd(ours, theirs, spacing), abs=1e-6)
    assert found.asd_voxel == pytest.approx(medpy.asd(ours, theirs), abs=1e-6)
    assert found.assd_mm == pytest.approx(medpy.assd(ours, theirs, spacing), abs=1e-6)


@pytest.mark.data
def test_metrics_agree_with_medpy_on_real_atria(real_data: Path) -> None:
    import nibabel as nib

    files = sorted((real_data / "LA_half" / "labelsTr").glob("*.nii.gz"))[:2]
    masks = [np.asanyarray(nib.load(path).dataobj) > 0 for path in files]
    box = tuple(slice(0, min(sides)) for sides in zip(*(m.shape for m in masks), strict=True))
    ours, theirs = masks[0][box], masks[1][box]
    found = compare(ours, theirs, spacing=(1.25, 1.25, 1.25))
    assert found.dice == pytest.approx(medpy.dc(ours, theirs), abs=1e-6)
    assert found.hd95_mm == pytest.approx(medpy.hd95(ours, theirs, (1.25,) * 3), abs=1e-6)
    assert found.asd_voxel == pytest.approx(medpy.asd(ours, theirs), abs=1e-6)


# MONAI passes itself an argument that it has deprecated.
@pytest.mark.filterwarnings("ignore:.*always_return_as_numpy.*:FutureWarning")
@pytest.mark.parametrize("tolerance", [0.5, 1.0, 3.0])
def test_surface_dice_agrees_with_monai(tolerance: float) -> None:
    import torch
    from monai.metrics import compute_surface_dice

    ours, theirs = blob(3), blob(4)
    found = compare(ours, theirs, spacing=(1.0, 1.5, 2.0), tolerance_mm=tolerance)
    monai = compute_surface_dice(
        torch.from_numpy(ours)[None, None],
        torch.from_numpy(theirs)[None, None],
        class_thresholds=[tolerance],
        include_background=True,
        spacing=(1.0, 1.5, 2.0),
    )
    assert found.nsd == pytest.approx(float(monai), abs=1e-6)


def test_a_box_moved_by_two_slices_has_the_closed_form_scores() -> None:
    reference = np.zeros((20, 20, 20), dtype=bool)
    reference[4:14, 4:14, 4:14] = True
    moved = np.roll(reference, 2, axis=2)
    found = compare(moved, reference, spacing=(1.0, 1.0, 2.5))
    assert found.dice == pytest.approx(0.8)
    assert found.jaccard == pytest.approx(8 / 12)
    assert found.hd95_mm == pytest.approx(5.0)
    assert found.hd95_voxel == pytest.approx(2.0)
    assert found.volume_ml == pytest.approx(2.5)
    assert found.volume_difference_ml == 0.0


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), margin=st.integers(0, 6))
def test_empty_space_around_the_masks_changes_no_metric(seed: int, margin: int) -> None:
    ours, theirs = (np.pad(blob(s, (9, 8, 7)), 1) for s in (seed, seed + 1))
    wider = [np.pad(mask, margin) for mask in (ours, theirs)]
    assert compare(ours, theirs, spacing=(1.0, 2.0, 3.0)) == compare(
        wider[0], wider[1], spacing=(1.0, 2.0, 3.0)
    )


def test_a_missed_target_scores_the_scans_diagonal_and_says_so() -> None:
    empty, full = np.zeros((3, 4, 12), dtype=bool), np.ones((3, 4, 12), dtype=bool)
    missed = compare(empty, full, spacing=(1.0, 1.0, 2.0))
    assert (missed.dice, missed.nsd, missed.hd95_voxel) == (0.0, 0.0, 13.0)
    assert missed.asd_mm == pytest.approx(np.sqrt(9 + 16 + 576))
    assert missed.flag == "prediction is empty"
    assert compare(full, empty, spacing=(1.0, 1.0, 2.0)).flag == "label is empty"


def test_two_empty_masks_agree_and_say_so() -> None:
    empty = np.zeros((3, 4, 5), dtype=bool)
    found = compare(empty, empty, spacing=(1.0, 1.0, 1.0))
    assert (found.dice, found.jaccard, found.hd95_mm, found.nsd) == (1.0, 1.0, 0.0, 1.0)
    assert found.flag == "both are empty"


def test_the_surface_is_what_an_erosion_takes_away() -> None:
    mask = blob(11)
    assert np.array_equal(surface(mask), mask ^ ndimage.binary_erosion(mask))
