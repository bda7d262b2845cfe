"""What was drawn is read back, from files with `ignore` and from plainly painted ones."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from annotation.strategies import (
    IGNORE,
    affines,
    annotations,
    ball,
    equal,
    layout,
    two_balls,
    write_dense,
)
from twoslice.annotation.reading import (
    DenseLabelError,
    annotation_at,
    annotation_from_labels,
    read_annotation,
)
from twoslice.annotation.types import SparseAnnotation
from twoslice.errors import AnnotationError
from twoslice.io.dataset import Dataset
from twoslice.io.grid import Grid
from twoslice.io.scans import read_label_map, write_labels
from twoslice.planes import Plane

AXIAL, CORONAL, SAGITTAL = Plane.AXIAL, Plane.CORONAL, Plane.SAGITTAL
SHAPE = (20, 18, 16)


@given(annotation=annotations())
def test_any_drawn_slices_are_read_back_from_a_map_with_ignore(
    annotation: SparseAnnotation,
) -> None:
    labels = annotation.label_map(elsewhere=IGNORE)
    assert equal(annotation_from_labels(labels, ignore=IGNORE), annotation)


@given(annotation=annotations(), affine=affines())
def test_drawn_slices_survive_a_file_in_any_orientation(
    annotation: SparseAnnotation, affine: NDArray[np.float64]
) -> None:
    order = np.argsort(np.abs(affine[:3, :3]).argmax(axis=0))
    stored = [0, 0, 0]
    for side, axis in zip(annotation.shape, order, strict=True):
        stored[axis] = side
    grid = Grid((stored[0], stored[1], stored[2]), affine)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.nii.gz"
        write_labels(path, annotation.label_map(elsewhere=IGNORE), grid)
        read = annotation_from_labels(read_label_map(path).data, ignore=IGNORE)
    assert equal(read, annotation)


@pytest.mark.parametrize(
    "slots",
    [
        [(AXIAL, 7)],
        [(AXIAL, 5), (AXIAL, 9)],
        [(AXIAL, 7), (CORONAL, 9)],
        [(SAGITTAL, 9), (CORONAL, 9)],
        [(AXIAL, 7), (CORONAL, 9), (SAGITTAL, 8)],
        [(AXIAL, 6), (AXIAL, 9), (CORONAL, 7), (CORONAL, 10), (SAGITTAL, 6), (SAGITTAL, 12)],
    ],
    ids=str,
)
def test_slices_painted_without_ignore_are_found(slots: list[tuple[Plane, int]]) -> None:
    drawn = annotation_at(two_balls(), slots)
    painted = drawn.label_map(elsewhere=0)
    assert equal(annotation_from_labels(painted, ignore=None), drawn)
    # The dataset may name an ignore label that the painting tool knew nothing of.
    assert equal(annotation_from_labels(painted, ignore=IGNORE), drawn)


def test_a_map_that_is_all_ignore_or_all_zero_holds_no_slice() -> None:
    assert annotation_from_labels(np.full(SHAPE, IGNORE), ignore=IGNORE).slices == ()
    assert annotation_from_labels(np.zeros(SHAPE, int), ignore=None).slices == ()


def test_a_scan_of_one_slice_is_drawn_on_that_slice() -> None:
    labels = np.zeros((9, 8, 1), dtype=np.uint8)
    labels[4, 2:5, 0] = 1  # A line: it would also lie on a sagittal slice.
    assert layout(annotation_from_labels(labels, ignore=None)) == [(AXIAL, 0)]


def test_a_slice_with_nothing_but_background_is_kept_when_ignore_marks_the_rest() -> None:
    labels = np.full(SHAPE, IGNORE)
    labels[:, 4, :] = 0
    assert layout(annotation_from_labels(labels, ignore=IGNORE)) == [(CORONAL, 4)]


def test_voxels_off_every_full_slice_are_refused_with_their_number_and_place() -> None:
    labels = np.full(SHAPE, IGNORE)
    labels[:, :, 7] = 0
    labels[3:5, 2, 11] = 1
    with pytest.raises(AnnotationError, match=r"2 labelled voxel.*\(3, 2, 11\).*full.*axial 7"):
        annotation_from_labels(labels, ignore=IGNORE)


def test_an_almost_full_slice_is_named_as_the_one_that_was_meant() -> None:
    labels = np.full(SHAPE, IGNORE)
    labels[:, 9, :] = 0
    labels[0, 9, 0] = IGNORE
    with pytest.raises(AnnotationError, match=r"no slice is full.*the 1 left on coronal 9"):
        annotation_from_labels(labels, ignore=IGNORE)


@pytest.mark.parametrize(
    ("where", "ways"),
    [
        (np.s_[3, 4, 5], r"axial 5, or as coronal 4, or as sagittal 3"),
        (np.s_[3, 4:9, 5], r"axial 5, or as sagittal 3"),
        (np.s_[3, 4, 5:7], r"coronal 4, or as sagittal 3"),
    ],
    ids=["a voxel", "a line", "two voxels"],
)
def test_paint_that_lies_in_several_planes_is_refused_with_the_readings(
    where: tuple[slice | int, ...], ways: str
) -> None:
    labels = np.zeros(SHAPE, dtype=np.uint8)
    labels[where] = 1
    with pytest.raises(AnnotationError, match=ways):
        annotation_from_labels(labels, ignore=None)


def test_a_speck_beside_a_drawn_slice_makes_it_ambiguous() -> None:
    labels = annotation_at(two_balls(), [(AXIAL, 7)]).label_map(elsewhere=0)
    labels[2, 3, 12] = 1
    with pytest.raises(AnnotationError, match="axial 7, 12, or as axial 7 and coronal 3"):
        annotation_from_labels(labels, ignore=None)


def test_the_plane_in_a_file_name_settles_what_is_ambiguous() -> None:
    labels = np.zeros(SHAPE, dtype=np.uint8)
    labels[3, 4:9, 5] = 1
    read = annotation_from_labels(labels, ignore=None, planes=[Plane.AXIAL])
    assert layout(read) == [(AXIAL, 5)]


@pytest.mark.parametrize(
    "dense",
    [two_balls(), ball(SHAPE, (9, 9, 9), 2.1).astype(np.uint8)],
    ids=["large", "five slices high"],
)
def test_a_dense_label_is_refused_by_name(dense: NDArray[np.uint8]) -> None:
    voxels = int((dense > 0).sum())
    with pytest.raises(AnnotationError, match=f"dense label: {voxels} painted.*twoslice simulate"):
        annotation_from_labels(dense, ignore=None)


def test_the_file_stands_in_the_line_that_refuses_it(tmp_path: Path) -> None:
    dataset = Dataset.open(write_dense(tmp_path / "set", {"anna": two_balls()}))
    with pytest.raises(AnnotationError, match=r"anna\.nii\.gz: looks like a dense label") as caught:
        read_annotation(dataset, "anna")
    assert re.search(r"\n", str(caught.value)) is None


def test_ignore_that_was_painted_as_a_class_is_told_apart() -> None:
    labels = annotation_at(two_balls(), [(AXIAL, 7), (CORONAL, 9)]).label_map(elsewhere=0)
    assert (labels == 2).any()
    with pytest.raises(AnnotationError, match="painted as a class, name all classes"):
        annotation_from_labels(labels, ignore=2)


def test_a_dense_label_with_a_few_ignored_voxels_is_dense() -> None:
    labels = two_balls()
    labels[0, 0, :3] = IGNORE
    with pytest.raises(DenseLabelError, match="only 3 of 5760 voxels carry 'ignore'"):
        annotation_from_labels(labels, ignore=IGNORE)
