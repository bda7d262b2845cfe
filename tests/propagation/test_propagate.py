"""One scan, from drawn slices to views."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotation.strategies import slots_within
from propagation.scenes import Image, Label, dice, drawn, moving_disc, texture, two_blobs
from twoslice.annotation.cover import Slot
from twoslice.annotation.reading import annotation_at
from twoslice.annotation.types import AnnotatedSlice, SparseAnnotation
from twoslice.errors import AnnotationError, ScanError
from twoslice.planes import Plane
from twoslice.propagation.propagate import Propagated, propagate_scan
from twoslice.propagation.views import distance_map, mix
from twoslice.settings import PropagationSettings

QUICK = PropagationSettings(cycle=False)


def propagate(
    image: Image,
    annotation: SparseAnnotation,
    *,
    classes: int = 2,
    settings: PropagationSettings = QUICK,
) -> Propagated:
    full = image if image.ndim == 4 else image[None]
    return propagate_scan(
        full, annotation, classes=classes, spacing=(1.0, 1.0, 1.0), settings=settings
    )


@pytest.mark.parametrize("carry", ["filtered", "paper"])
@pytest.mark.parametrize(
    "motion",
    [{"shift": (0.9, -0.6)}, {"scale": 1.03}, {"scale": 0.97}, {"turn": 3.0}],
    ids=["shifted", "growing", "shrinking", "turning"],
)
def test_a_moving_shape_is_followed_from_one_slice(motion: dict, carry: str) -> None:
    image, label = moving_disc(**motion)
    settings = PropagationSettings(cycle=False, carry=carry)
    view = propagate(image, drawn(label, axial=10), settings=settings).views["axial"]
    assert dice(view.label, label) > 0.93
    assert min(dice(view.label[..., k], label[..., k]) for k in range(21)) > 0.85


def test_a_label_stays_in_place_where_all_slices_are_alike() -> None:
    image = np.repeat(moving_disc(slices=3)[0][..., 1:2], 15, axis=2)
    label = np.repeat(moving_disc(slices=3)[1][..., 1:2], 15, axis=2)
    view = propagate(image, drawn(label, axial=7)).views["axial"]
    assert min(dice(view.label[..., k], label[..., k]) for k in range(15)) > 0.97


def test_the_drawn_slices_are_never_altered() -> None:
    image, label = two_blobs()
    annotation = drawn(label, axial=15, coronal=(14, 20), sagittal=22)
    result = propagate(image, annotation, classes=3)
    assert list(result.views) == ["axial", "coronal", "sagittal", "fused"]
    for view in result.views.values():
        for each in annotation.slices:
            np.testing.assert_array_equal(each.plane.take(view.label, each.index), each.mask)
            assert not each.plane.take(view.distance, each.index).any()


def test_the_fused_view_is_better_than_either_plane_and_the_other_plane_helps() -> None:
    image, label = two_blobs()
    both = propagate(image, drawn(label, axial=15, coronal=17), classes=3).views
    alone = propagate(image, drawn(label, axial=15), classes=3).views
    for value in (1, 2):
        assert dice(both["fused"].label, label, value) > 0.85
        assert dice(both["axial"].label, label, value) > dice(alone["axial"].label, label, value)


def test_one_plane_alone_is_its_own_fused_view_with_nothing_to_check() -> None:
    image, label = two_blobs()
    result = propagate(image, drawn(label, coronal=17), classes=3)
    assert list(result.views) == ["coronal", "fused"]
    np.testing.assert_array_equal(result.views["fused"].label, result.views["coronal"].label)
    np.testing.assert_array_equal(result.views["fused"].distance, result.views["coronal"].distance)
    assert result.quality.expected is None
    assert result.disagreement is None


def test_two_parallel_slices_meet_in_the_middle() -> None:
    image, label = moving_disc(scale=1.05, slices=25)
    one = propagate(image, drawn(label, axial=3)).views["axial"].label
    two = propagate(image, drawn(label, axial=(3, 21))).views["axial"].label
    assert dice(two, label) > dice(one, label)
    assert dice(two[..., 12], label[..., 12]) > 0.9


def test_several_channels_are_used() -> None:
    image, label = two_blobs(channels=2)
    image[0] = texture(label.shape, seed=9)  # one channel shows nothing of the object
    view = propagate(image, drawn(label, axial=15, coronal=17), classes=3).views["fused"]
    assert dice(view.label, label) > 0.8


def test_an_object_ends_where_the_other_plane_says_so() -> None:
    image, label = moving_disc(slices=33)
    label[..., :8], label[..., 25:] = 0, 0
    image[..., :8], image[..., 25:] = image[:1, :1, :8], image[:1, :1, 25:]
    image += 0.05 * texture(image.shape, seed=3)
    view = propagate(image, drawn(label, axial=16, coronal=32)).views["axial"].label
    assert view[..., 16].any()
    assert not view[..., :6].any()
    assert not view[..., 27:].any()


def test_a_sliver_does_not_survive_forty_slices() -> None:
    image = 0.3 * texture((48, 48, 1)).repeat(45, axis=2)
    image += 0.05 * texture((48, 48, 45), seed=1)
    label = np.zeros(image.shape, np.uint8)
    label[10:38, 20:22] = 1
    view = propagate(image, drawn(label, axial=2)).views["axial"].label
    assert view[..., 2].any()
    assert not view[..., 42:].any()


@settings(max_examples=6)
@given(flips=st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_a_flipped_scan_gives_the_flipped_views(flips: tuple[bool, bool, bool]) -> None:
    image, label = two_blobs((33, 30, 28))
    turn = tuple(slice(None, None, -1 if flip else 1) for flip in flips)
    places = {"axial": 15, "coronal": 17}
    turned = {
        name: label.shape[Plane(name).axis] - 1 - at if flips[Plane(name).axis] else at
        for name, at in places.items()
    }
    plain = propagate(image, drawn(label, **places), classes=3)
    image_turned = np.ascontiguousarray(image[(slice(None), *turn)])
    other = propagate(image_turned, drawn(label[turn], **turned), classes=3)
    for name, view in plain.views.items():
        # Sums run in another order, so a voxel at even odds may fall to either side.
        assert (view.label == other.views[name].label[turn]).mean() > 0.999
        np.testing.assert_array_equal(view.distance, other.views[name].distance[turn])


@given(slots=slots_within((5, 6, 7), most=3))
def test_the_distance_map_agrees_with_brute_force(slots: list[Slot]) -> None:
    shape = (5, 6, 7)
    for planes in ([slots[0][0]], list({plane for plane, _ in slots})):
        found = distance_map(shape, slots, planes)
        for voxel in np.ndindex(shape):
            on_slice = any(voxel[plane.axis] == index for plane, index in slots)
            ways = [abs(voxel[p.axis] - index) for p, index in slots if p in planes]
            assert found[voxel] == (0 if on_slice else min(ways))


def test_mixing_puts_every_drawn_slice_in_place_of_the_dense_label() -> None:
    label = two_blobs()[1]
    annotation = drawn(label, axial=15, coronal=17)
    mixed = mix(np.zeros_like(label), annotation)
    np.testing.assert_array_equal(mixed, np.where(annotation.drawn(), label, 0))


def test_cycle_error_and_disagreement_are_small_where_all_is_clear() -> None:
    image, label = moving_disc(shift=(0.5, 0.3), slices=15)
    result = propagate(image, drawn(label, axial=7, coronal=32), settings=PropagationSettings())
    assert result.cycle["axial"].shape == label.shape
    assert not result.cycle["axial"][..., 7].any()
    assert np.median(result.cycle["axial"]) < 5  # tenths of a pixel
    assert result.disagreement is not None
    assert result.disagreement.max() <= 100
    assert result.disagreement[32, 32, 7] < 50


def bad(label: Label, image: Image) -> dict[str, tuple[Image, SparseAnnotation, type, str]]:
    good = drawn(label, axial=15)
    empty = drawn(np.zeros_like(label), axial=15)
    flat = drawn(label[..., 15:16], axial=0)
    holes = image.copy()
    holes[0, 3, 3, 3] = np.nan
    return {
        "nothing drawn": (image, SparseAnnotation(label.shape, ()), AnnotationError, "no slice"),
        "no foreground": (image, empty, AnnotationError, "shows no target"),
        "one slice": (image[..., 15:16], flat, AnnotationError, "only axial slice"),
        "class beyond": (image, drawn(label + 5, axial=15), AnnotationError, "expected 0 to 2"),
        "constant": (np.ones_like(image), good, ScanError, "constant"),
        "nan": (holes, good, ScanError, "not finite"),
        "other shape": (image[:, 1:], good, ScanError, "own grid"),
    }


@pytest.mark.parametrize("kind", list(bad(two_blobs()[1], two_blobs()[0])))
def test_bad_input_is_refused_in_one_line(kind: str) -> None:
    image, label = two_blobs()
    given_image, annotation, error, words = bad(label, image)[kind]
    with pytest.raises(error, match=words) as caught:
        propagate(given_image, annotation, classes=3)
    assert "\n" not in str(caught.value)


def test_a_slice_outside_the_scan_is_refused() -> None:
    with pytest.raises(AnnotationError, match="outside the scan"):
        SparseAnnotation((4, 5, 6), (AnnotatedSlice(Plane.AXIAL, 6, np.ones((4, 5), np.uint8)),))


def test_classes_never_overlap_in_any_view() -> None:
    image, label = two_blobs()
    swapped = annotation_at(label, [(Plane.AXIAL, 15), (Plane.CORONAL, 17)])
    for carry in ("filtered", "paper"):
        settings = PropagationSettings(cycle=False, carry=carry)
        for view in propagate(image, swapped, classes=3, settings=settings).views.values():
            masks = np.stack([view.label == value for value in range(3)])
            assert (masks.sum(axis=0) == 1).all()


@pytest.mark.parametrize("shape", [(3, 2, 4), (2, 9, 5), (13, 3, 3)])
def test_tiny_scans_are_carried_too(shape: tuple[int, int, int]) -> None:
    image = texture((1, *shape), sigma=1.0)
    label = np.zeros(shape, np.uint8)
    label[1:, 1:, 1:] = 1
    views = propagate(image, drawn(label, axial=1, coronal=1)).views
    assert all(view.label.shape == shape for view in views.values())


@pytest.mark.slow
def test_the_papers_own_way_runs_with_ants() -> None:
    pytest.importorskip("ants")
    image, label = moving_disc(slices=5, shift=(1.0, 0.0))
    settings = PropagationSettings(registrar="ants", carry="paper", cycle=False)
    view = propagate(image, drawn(label, axial=2), settings=settings).views["axial"]
    assert dice(view.label, label) > 0.9
