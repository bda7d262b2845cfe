"""Which slices are chosen, against what a plain look at every slice says."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from annotation.strategies import ball, two_balls
from twoslice.annotation.choice import CHOICES, SCHEMES, Choice, Scheme, choose_slices, wishes
from twoslice.errors import AnnotationError, SettingsError
from twoslice.planes import Plane

AXIAL, CORONAL, SAGITTAL = Plane.AXIAL, Plane.CORONAL, Plane.SAGITTAL
ORTHOGONAL = wishes("orthogonal", (AXIAL, CORONAL))


@st.composite
def dense_labels(draw: st.DrawFn) -> NDArray[np.uint8]:
    """One to three classes strewn over a small volume, at least one voxel of each."""
    shape = tuple(draw(st.integers(3, 8)) for _ in range(3))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    share = draw(st.floats(0.01, 0.5))
    labels = np.where(generator.random(shape) < share, generator.integers(1, 4, shape), 0)
    labels.flat[generator.choice(labels.size, 3, replace=False)] = (1, 2, 3)
    return labels.astype(np.uint8)


def classes_on(labels: NDArray[np.uint8], plane: Plane, index: int) -> set[int]:
    return set(np.unique(np.take(labels, index, axis=plane.axis)).tolist()) - {0}


@given(labels=dense_labels())
def test_middle_is_the_nearest_to_the_middle_of_those_that_show_most(
    labels: NDArray[np.uint8],
) -> None:
    ((plane, index),) = choose_slices(labels, classes=4, wanted=wishes("single", (CORONAL,)))
    shows = [len(classes_on(labels, plane, j)) for j in range(labels.shape[1])]
    extent = [j for j, count in enumerate(shows) if count]
    middle = (extent[0] + extent[-1]) / 2
    gaps = [abs(j - middle) for j, count in enumerate(shows) if count == max(shows)]
    assert shows[index] == max(shows)
    assert abs(index - middle) == min(gaps)


@given(labels=dense_labels())
def test_largest_has_the_most_foreground_of_those_that_show_most(
    labels: NDArray[np.uint8],
) -> None:
    ((_, index),) = choose_slices(
        labels, classes=4, wanted=wishes("single", (AXIAL,)), choice="largest"
    )
    shows = [len(classes_on(labels, AXIAL, k)) for k in range(labels.shape[2])]
    pixels = [(labels[:, :, k] > 0).sum() for k in range(labels.shape[2])]
    assert pixels[index] == max(p for p, s in zip(pixels, shows, strict=True) if s == max(shows))


@given(labels=dense_labels(), choice=st.sampled_from(CHOICES), seed=st.integers(0, 9))
def test_every_choice_shows_the_target_in_each_plane_and_repeats(
    labels: NDArray[np.uint8], choice: Choice, seed: int
) -> None:
    wanted = wishes("orthogonal", (SAGITTAL, AXIAL, CORONAL))
    slots = choose_slices(labels, classes=4, wanted=wanted, choice=choice, seed=(seed,))
    assert [plane for plane, _ in slots] == [SAGITTAL, AXIAL, CORONAL]
    assert all(classes_on(labels, plane, index) for plane, index in slots)
    again = choose_slices(labels, classes=4, wanted=wanted, choice=choice, seed=(seed,))
    assert slots == again


def test_random_reaches_every_slice_that_shows_the_target() -> None:
    labels = ball((12, 12, 12), (5, 5, 5), 3.2).astype(np.uint8)
    wanted = wishes("single", (AXIAL,))
    found = {
        choose_slices(labels, classes=2, wanted=wanted, choice="random", seed=(seed,))[0][1]
        for seed in range(200)
    }
    assert found == {2, 3, 4, 5, 6, 7, 8}


def test_parallel_slices_lie_at_a_third_and_two_thirds_of_the_target() -> None:
    labels = np.zeros((8, 8, 40), dtype=np.uint8)
    labels[2:6, 2:6, 5:36] = 1  # from 5 to 35: a third is 15, two thirds 25
    wanted = wishes("parallel", (AXIAL, CORONAL))
    assert choose_slices(labels, classes=2, wanted=wanted) == ((AXIAL, 15), (AXIAL, 25))


@pytest.mark.parametrize("choice", CHOICES)
def test_parallel_slices_are_two_different_ones_in_either_half(choice: Choice) -> None:
    wanted = wishes("parallel", (AXIAL,))
    (_, low), (_, high) = choose_slices(two_balls(), classes=3, wanted=wanted, choice=choice)
    assert low < high
    extent = np.flatnonzero((two_balls() > 0).any(axis=(0, 1)))
    assert low <= extent.mean() <= high


def test_the_second_plane_looks_for_the_classes_that_the_first_does_not_show() -> None:
    labels = np.zeros((20, 20, 20), dtype=np.uint8)
    labels[5:8, 5:15, 4:8] = 1
    labels[10:13, 5:15, 4:8] = 2
    labels[15:18, 16:18, 12:16] = 3  # in no axial slice together with the others
    (_, axial), (_, coronal) = choose_slices(labels, classes=4, wanted=ORTHOGONAL)
    assert classes_on(labels, AXIAL, axial) == {1, 2}
    assert classes_on(labels, CORONAL, coronal) == {3}


def test_a_preferred_class_comes_before_all_others() -> None:
    labels = two_balls()
    labels[1:3, 1:3, 14] = 3
    for choice in CHOICES:
        slots = choose_slices(
            labels, classes=4, wanted=ORTHOGONAL, choice=choice, prefer=frozenset({3})
        )
        assert slots[0] == (AXIAL, 14)


def test_no_slice_with_an_ignored_voxel_is_taken() -> None:
    labels = ball((11, 11, 11), (5, 5, 5), 4.1).astype(np.uint8)
    labels[0, 0, 5] = 2
    ((_, axial),) = choose_slices(labels, classes=2, wanted=wishes("single", (AXIAL,)))
    assert axial in (4, 6)
    labels[0, 0, :] = 2
    with pytest.raises(AnnotationError, match=r"each of the 9 axial slices.*ignored voxels"):
        choose_slices(labels, classes=2, wanted=wishes("single", (AXIAL,)))


def test_targets_too_small_for_the_scheme_are_refused() -> None:
    labels = np.zeros((8, 8, 8), dtype=np.uint8)
    with pytest.raises(AnnotationError, match="empty"):
        choose_slices(labels, classes=2, wanted=ORTHOGONAL)
    labels[3:5, 3:5, 3] = 1
    with pytest.raises(AnnotationError, match=r"1 axial slice.*too few for two parallel"):
        choose_slices(labels, classes=2, wanted=wishes("parallel", (AXIAL,)))


@pytest.mark.parametrize("planes", [(), (AXIAL, AXIAL), (AXIAL,)], ids=str)
def test_orthogonal_slices_need_different_planes(planes: tuple[Plane, ...]) -> None:
    with pytest.raises(SettingsError, match="plane"):
        wishes("orthogonal", planes)


def test_the_listed_choices_and_schemes_are_those_of_the_types() -> None:
    assert get_args(Choice) == CHOICES
    assert get_args(Scheme) == SCHEMES
