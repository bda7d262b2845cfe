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


@pytest.mark.parametrize("spacing", SPACINGS)
def test_masks_that_are_alike_agree_with_medpy_too(spacing: tuple[float, float, float]) -> None:
    """Other means find the distances where masks are alike: a blob, and itself moved and dented."""
    theirs = blob(7, (40, 34, 29))
    ours = np.roll(theirs, 1, axis=1) & ~blob(8, (40, 34, 29)) | theirs
    found = compare(ours, theirs, spacing=spacing)
    assert found.dice > 0.8
    assert found.hd95_mm == pytest.approx(medpy.hd95(ours, theirs, spacing), abs=1e-6)
    assert found.hd95_voxel == pytest.approx(medpy.hd95(ours, theirs), abs=1e-6)
    assert found.asd_mm == pytest.approx(medpy.asd(ours, theirs, spacing), abs=1e-6)
    assert found.assd_voxel == pytest.approx(medpy.assd(ours, theirs), abs=1e-6)


@pytest.mark.data
@pytest.mark.parametrize("kind", ["another scan", "dilated"])
def test_metrics_agree_with_medpy_on_real_atria(real_data: Path, kind: str) -> None:
    import nibabel as nib

    files = sorted((real_data / "LA_half" / "labelsTr").glob("*.nii.gz"))[:2]
    masks = [np.asanyarray(nib.load(path).dataobj) > 0 for path in files]
    box = tuple(slice(0, min(sides)) for sides in zip(*(m.shape for m in masks), strict=True))
    theirs = masks[1][box]
    ours = masks[0][box] if kind == "another scan" else ndimage.binary_dilation(theirs)
    found = compare(ours, theirs, spacing=(1.25, 1.25, 1.25))
    assert found.dice == pytest.approx(medpy.dc(ours, theirs), abs=1e-6)
    assert found.jaccard == pytest.approx(medpy.jc(ours, theirs), abs=1e-6)
    assert found.hd95_mm == pytest.approx(medpy.hd95(ours, theirs, (1.25,) * 3), abs=1e-6)
    assert found.hd95_voxel == pytest.approx(medpy.hd95(ours, theirs), abs=1e-6)
    assert found.asd_mm == pytest.approx(medpy.asd(ours, theirs, (1.25,) * 3), abs=1e-6)
    assert found.asd_voxel == pytest.approx(medpy.asd(ours, theirs), abs=1e-6)


@pytest.mark.filterwarnings("ignore:.*always_return_as_numpy.*:FutureWarning")
@pytest.mark.parametrize("symmetric", [False, True])
def test_surface_distances_agree_with_monai(symmetric: bool) -> None:
    import torch
    from monai.metrics import compute_average_surface_distance, compute_dice, compute_iou

    ours, theirs = blob(5), blob(6)
    found = compare(ours, theirs, spacing=(0.7, 1.3, 2.5))
    pair = [torch.from_numpy(each)[None, None] for each in (ours, theirs)]
    distance = compute_average_surface_distance(
        *pair, include_background=True, symmetric=symmetric, spacing=(0.7, 1.3, 2.5)
    )
    mine = found.assd_mm if symmetric else found.asd_mm
    assert mine == pytest.approx(float(distance), abs=1e-5)
    assert found.dice == pytest.approx(float(compute_dice(*pair)), abs=1e-6)
    assert found.jaccard == pytest.approx(float(compute_iou(*pair)), abs=1e-6)


@pytest.mark.filterwarnings("ignore:.*always_return_as_numpy.*:FutureWarning")
def test_hd95_differs_from_monais_as_documented() -> None:
    """MONAI takes the larger of the two directions' percentiles, MedPy and we one over both."""
    import torch
    from monai.metrics import compute_hausdorff_distance

    reference = np.zeros((40, 12, 12), dtype=bool)
    reference[2:10, 2:10, 2:10] = True
    spur = reference.copy()
    spur[10:38, 5, 5] = True  # in the prediction alone: 28 voxels long, one voxel thick
    pair = [torch.from_numpy(each)[None, None] for each in (spur, reference)]
    monai = float(compute_hausdorff_distance(*pair, include_background=True, percentile=95))
    found = compare(spur, reference, spacing=(1.0, 1.0, 1.0))
    steps = np.array([0.0] * (int(surface(spur).sum()) - 28) + list(range(1, 29)))
    assert monai == pytest.approx(np.percentile(steps, 95), abs=1.0)
    assert found.hd95_voxel == pytest.approx(medpy.hd95(spur, reference), abs=1e-6)
    assert found.hd95_voxel < monai


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
