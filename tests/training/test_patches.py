"""Patches: cut exactly, turned as a rotation of the whole scan would turn them, without state."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from twoslice.objectives.weights import NEVER
from twoslice.training.augment import Augmentation, quarter_turns, rich
from twoslice.training.patches import LabeledScan, PatchSource, label_scan
from twoslice.training.poses import Pose, cut_image, cut_labels, extent

SHAPE = (14, 11, 9)


def volume(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((2, *SHAPE)).astype(np.float32)


@given(st.integers(0, 3), st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_a_quarter_turned_patch_is_a_part_of_the_quarter_turned_scan(
    quarters: int, flips: tuple[bool, bool, bool]
) -> None:
    patch = (6, 4, 5)
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    signs = np.where(flips, -1.0, 1.0)
    matrix = np.linalg.matrix_power(turn, quarters) * signs[None, :]
    size = extent(matrix, patch)
    start = np.array([2, 1, 3])
    array = volume()
    found = cut_image(array, Pose(start + (size - 1) / 2, matrix), patch).numpy()
    box = array[:, 2 : 2 + size[0], 1 : 1 + size[1], 3 : 3 + size[2]]
    # The patch voxel p shows the scan at matrix @ p: undo the turn on the box, then the flips.
    expected = np.rot90(box, -quarters, axes=(1, 2))
    expected = np.flip(expected, [1 + axis for axis in range(3) if flips[axis]])
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000))
def test_a_turned_patch_agrees_with_scipys_affine_transform(seed: int) -> None:
    rng = np.random.default_rng(seed)
    varied = Augmentation(angle=20, scale=0.2, turned_share=1.0, flips=(True, True, True))
    matrix = varied.matrix(rng, (1.0, 1.0, 2.0))
    patch, array = (5, 4, 3), volume(seed)
    centre = np.array(SHAPE) / 2 + rng.uniform(-1, 1, 3)
    found = cut_image(array, Pose(centre, matrix), patch)
    offset = centre - matrix @ ((np.array(patch) - 1) / 2)
    for channel, mine in zip(array, found.numpy(), strict=True):
        theirs = ndimage.affine_transform(
            channel, matrix, offset, output_shape=patch, order=1, mode="nearest"
        )
        np.testing.assert_allclose(mine, theirs, atol=2e-4)


def test_a_bent_patch_agrees_with_scipys_map_coordinates() -> None:
    rng, patch, array = np.random.default_rng(2), (5, 6, 4), volume(3)
    varied = Augmentation(angle=15, scale=0.2, bend=0.1, turned_share=1.0)
    matrix, bend = varied.matrix(rng, (1.0, 1.0, 1.0)), varied.lattice(rng, patch)
    assert bend is not None
    centre = (np.array(SHAPE) - 1) / 2
    found = cut_image(array, Pose(centre, matrix, bend), patch).numpy()
    p = np.stack(np.meshgrid(*[np.arange(side) for side in patch], indexing="ij"))
    middle = (np.array(patch) - 1) / 2
    at = np.einsum("ab,bijk->aijk", matrix, p - middle[:, None, None, None])
    at += centre[:, None, None, None]
    on_lattice = p * ((bend.shape[1] - 1) / (np.array(patch) - 1))[:, None, None, None]
    at += np.stack([ndimage.map_coordinates(each, on_lattice, order=1) for each in bend])
    for channel, mine in zip(array, found, strict=True):
        theirs = ndimage.map_coordinates(channel, at, order=1, mode="nearest")
        np.testing.assert_allclose(mine, theirs, atol=1e-3)


def test_labels_beyond_the_scan_are_never_known_and_inside_stay_whole() -> None:
    labels = np.arange(np.prod(SHAPE), dtype=np.int16).reshape(1, *SHAPE) % 3
    matrix = Augmentation(angle=20, scale=0.2, turned_share=1.0).matrix(
        np.random.default_rng(0), (1, 1, 1)
    )
    for pose in (Pose(np.zeros(3), np.eye(3)), Pose(np.zeros(3), matrix)):
        cut = cut_labels(labels, pose, (8, 8, 8), outside=NEVER)
        assert set(np.unique(cut.numpy()).tolist()) == {0, 1, 2, NEVER}
        assert float((cut == NEVER).float().mean()) > 0.5


def test_the_image_repeats_its_border_outside() -> None:
    array = volume()
    cut = cut_image(array, Pose(np.array([-0.5, 3.5, 3.5]), np.eye(3)), (4, 2, 2))
    torch.testing.assert_close(cut[:, 0], cut[:, 2])
    np.testing.assert_array_equal(cut[:, 2].numpy(), array[:, 0, 3:5, 3:5])


def source(seed: int = 0, **changes: object) -> PatchSource:
    names = ["a", "b", "c"]
    images = {name: volume(index)[:1] for index, name in enumerate([*names, "u", "v"])}
    scans = []
    for name in names:
        label = (images[name][0] > 1).astype(np.uint8)
        distance = np.full(SHAPE, 3, np.int16)
        distance[:, :, 4] = 0
        scans.append(label_scan(name, [(label, distance), (label, distance + 1)]))
    options: dict[str, object] = {
        "labeled": scans, "unlabeled": ["u", "v"], "open_image": images.__getitem__,
        "patch": (8, 6, 4), "voxel": (1.0, 1.0, 2.0), "augmentation": rich(flips=True),
        "sizes": (2, 1), "foreground_share": 0.5, "seed": seed, **changes,
    }  # fmt: skip
    return PatchSource(**options)  # type: ignore[arg-type]


def same(one: object, two: object) -> bool:
    return all(
        torch.equal(a, b)
        for a, b in zip(torch.utils._pytree.tree_leaves(one), torch.utils._pytree.tree_leaves(two),
                        strict=True)
        if isinstance(a, torch.Tensor)
    )  # fmt: skip


def test_a_batch_depends_on_seed_and_iteration_alone() -> None:
    one, two = source(), source()
    for iteration in (7, 3, 0):
        assert same(one.batch(iteration), two.batch(iteration))
    assert not same(one.batch(3), one.batch(4))
    assert not same(one.batch(3), source(seed=1).batch(3))


def test_every_scan_has_its_turn_in_every_round() -> None:
    found = [case for step in range(3) for case in source().batch(step).cases[:2]]
    assert sorted(found) == ["a", "a", "b", "b", "c", "c"]
    assert sorted(found[:3]) == ["a", "b", "c"]


def test_a_batch_has_the_shapes_the_methods_expect() -> None:
    batch = source().batch(0)
    assert batch.labeled.shape == (2, 1, 8, 6, 4)
    assert batch.unlabeled.shape == (1, 1, 8, 6, 4)
    assert [view.label.shape for view in batch.views] == [(2, 8, 6, 4)] * 2
    for view in batch.views:
        assert view.label.dtype == view.distance.dtype == torch.int64
        assert int(view.label.max()) <= 1
    assert source(unlabeled=[], sizes=(2, 0)).batch(0).unlabeled.shape[0] == 0


def test_label_and_image_stay_together_under_every_augmentation() -> None:
    """The label is image > 1 by construction; without interpolation it must stay so."""
    plain = source(augmentation=quarter_turns(), foreground_share=1.0)
    for step in range(12):
        batch = plain.batch(step)
        inside = batch.views[0].distance != NEVER
        assert torch.equal((batch.labeled[:, 0] > 1)[inside], batch.views[0].label.bool()[inside])


def test_a_scan_smaller_than_the_patch_is_centred_and_padded() -> None:
    big = source(patch=(20, 16, 12), augmentation=Augmentation())
    view = big.batch(0).views[0]
    known = view.distance[0] != NEVER
    assert int(known.sum()) == np.prod(SHAPE)
    middle = [float(np.mean(axis)) for axis in np.nonzero(known.numpy())]
    assert np.allclose(middle, [9.5, 7.5, 5.5], atol=1.01)


def test_foreground_centred_patches_hold_drawn_target() -> None:
    label = np.zeros(SHAPE, np.uint8)
    label[12, 9, 7] = 1
    scan = label_scan("a", [(label, np.zeros(SHAPE, np.int16))])
    assert isinstance(scan, LabeledScan)
    centred = source(
        labeled=[scan], foreground_share=1.0, patch=(4, 4, 4), augmentation=Augmentation()
    )
    assert all(int(centred.batch(step).views[0].label.sum()) == 2 for step in range(6))


def test_turns_keep_lengths_in_millimetres() -> None:
    voxel = np.array([1.0, 1.0, 2.0])
    rng = np.random.default_rng(0)
    matrix = Augmentation(angle=25, turned_share=1.0).matrix(rng, voxel)
    in_mm = matrix * voxel[:, None] / voxel[None, :]
    np.testing.assert_allclose(in_mm @ in_mm.T, np.eye(3), atol=1e-12)
    assert np.abs(matrix - np.eye(3)).max() > 0.05


def test_a_thick_axis_is_never_turned_into_the_plane() -> None:
    for seed in range(5):
        matrix = Augmentation(angle=25, turned_share=1.0).matrix(
            np.random.default_rng(seed), (1.0, 1.0, 5.0)
        )
        np.testing.assert_allclose(matrix[2], [0, 0, 1], atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_intensities_vary_but_order_of_voxels_stays_under_gamma_and_contrast(seed: int) -> None:
    vary = Augmentation(brightness=0.3, contrast=0.25, gamma=0.3)
    image = torch.linspace(-2, 2, 64).view(1, 4, 4, 4)
    changed = vary.intensity(np.random.default_rng(seed), image)
    assert not torch.equal(changed, image)
    assert all(one < two for one, two in pairwise(changed.flatten().tolist()))
