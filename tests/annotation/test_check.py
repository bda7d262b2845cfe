"""`check` lists every fault in a line of its own, and passes what is sound."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from numpy.typing import NDArray

from annotation.strategies import IGNORE, layout, two_balls, write_dense
from twoslice.annotation.check import Fault, check_dataset
from twoslice.annotation.choice import SCHEMES, Scheme
from twoslice.annotation.reading import annotation_at, read_annotation
from twoslice.annotation.simulate import simulate
from twoslice.io.dataset import Dataset
from twoslice.planes import Plane

AXIAL, CORONAL, SAGITTAL = Plane.AXIAL, Plane.CORONAL, Plane.SAGITTAL
AFFINE = np.diag([1.0, 1.0, 2.5, 1.0])
Slots = list[tuple[Plane, int]]
TWO: Slots = [(AXIAL, 7), (CORONAL, 9)]


def drawn(slots: Slots, elsewhere: int = IGNORE) -> NDArray[np.uint8]:
    return annotation_at(two_balls(), slots).label_map(elsewhere=elsewhere)


def faults_of(
    tmp_path: Path, labels: dict[str, NDArray[np.uint8] | None], scheme: Scheme | None = None
) -> list[Fault]:
    root = write_dense(tmp_path / "set", labels, ignore=IGNORE, affine=AFFINE)
    return check_dataset(root, scheme=scheme)


def test_sound_slices_and_unlabelled_cases_have_no_fault(tmp_path: Path) -> None:
    labels: dict[str, NDArray[np.uint8] | None] = {
        "with ignore": drawn(TWO),
        "painted": drawn([(AXIAL, 8), (SAGITTAL, 9)], elsewhere=0),
        "nothing but ignore": np.full((20, 18, 16), IGNORE, np.uint8),
        "unlabelled": None,
    }
    assert faults_of(tmp_path, labels) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_simulate_writes_passes(tmp_path: Path, scheme: Scheme) -> None:
    labels: dict[str, NDArray[np.uint8] | None] = {
        "a": two_balls(),
        "b": np.ascontiguousarray(two_balls()[::-1]),
    }
    dense = Dataset.open(write_dense(tmp_path / "dense", labels))
    simulate(dense, tmp_path / "out", labeled=2, scheme=scheme)
    assert check_dataset(tmp_path / "out") == []


def test_every_fault_of_every_case_is_listed(tmp_path: Path) -> None:
    labels: dict[str, NDArray[np.uint8] | None] = {
        "a": drawn([(AXIAL, 7), (AXIAL, 9)]),
        "b": drawn([(AXIAL, 7), (CORONAL, 0)]),
        "c": two_balls(),
        "d": drawn(TWO),
        "e": drawn([(AXIAL, 8), (CORONAL, 9)]),
        "f": np.zeros((20, 18, 16), np.uint8),
    }
    root = write_dense(tmp_path / "set", labels, ignore=IGNORE, affine=AFFINE)
    constant = nib.Nifti1Image(np.ones((20, 18, 16), np.float32), AFFINE)
    nib.save(constant, root / "imagesTr" / "d_0000.nii.gz")
    (root / "imagesTr" / "e_0000.nii.gz").write_bytes(b"")
    found = [(fault.case, fault.message) for fault in check_dataset(root)]
    assert [case for case, _ in found] == ["a", "b", "c", "d", "e", "f"]
    said = [
        "both drawn slices are axial (7, 9). Orthogonal annotation needs two planes: draw a "
        "coronal or sagittal slice, or set annotation.scheme=parallel.",
        "coronal slice 0 is drawn without any target",
        "looks like a dense label",
        "every voxel has the same value, 1",
        "e_0000.nii.gz",
        "nothing is drawn",
    ]
    for (_, message), words in zip(found, said, strict=True):
        assert words in message
        assert "\n" not in message


def test_one_slice_alone_is_a_fault_unless_the_scheme_is_single(tmp_path: Path) -> None:
    labels: dict[str, NDArray[np.uint8] | None] = {"a": drawn([(CORONAL, 9)])}
    root = write_dense(tmp_path / "set", labels, ignore=IGNORE)
    (fault,) = check_dataset(root)
    assert "the only drawn slice is coronal" in fault.message
    assert "scheme=single" in fault.message
    assert check_dataset(root, scheme="single") == []


def test_a_class_that_shows_nowhere_is_named(tmp_path: Path) -> None:
    label = drawn(TWO)
    label[label == 2] = 0
    (fault,) = faults_of(tmp_path, {"a": label})
    assert "label 2 (right) shows on none of the 2 drawn slices" in str(fault)


def test_label_files_without_any_slice_are_a_fault(tmp_path: Path) -> None:
    nothing = np.full_like(drawn(TWO), IGNORE)
    (fault,) = faults_of(tmp_path, {"a": nothing, "b": None})
    assert "no slice is drawn in any of the 2 scans" in fault.message


def test_a_dataset_in_which_nothing_is_drawn_yet_is_sound(tmp_path: Path) -> None:
    assert faults_of(tmp_path, {"a": None, "b": None}) == []


def test_dense_labels_are_sound_until_they_stand_among_drawn_slices(tmp_path: Path) -> None:
    dense = drawn([(AXIAL, index) for index in range(2, 12)], elsewhere=0)
    assert faults_of(tmp_path / "dense", {"a": dense, "b": None}) == []
    (fault,) = faults_of(tmp_path / "mixed", {"a": dense, "b": drawn(TWO)})
    assert fault.case == "a"
    assert "looks like a dense label" in fault.message


def test_a_drawing_saved_for_two_cases_is_a_fault(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, {"a": drawn(TWO), "b": drawn(TWO)})
    assert fault.case == "b"
    assert "exactly the drawing of case a (axial 7 and coronal" in fault.message


def test_a_slice_copied_to_another_index_is_a_fault(tmp_path: Path) -> None:
    label = drawn([*TWO, (CORONAL, 3)])
    label[:, 3] = label[:, 9]
    label[:, 3, 7] = label[:, 9, 7]
    found = faults_of(tmp_path, {"a": label})
    words = [f"coronal slices {a} and {b} carry the same" for a, b in ((3, 9), (8, 14))]
    assert any(words[n] in fault.message for fault in found for n in (0, 1))


def test_a_folder_that_is_no_dataset_is_one_fault(tmp_path: Path) -> None:
    (fault,) = check_dataset(tmp_path)
    assert "dataset.json" in str(fault)


def write_parts(root: Path, coronal: NDArray[np.uint8]) -> Dataset:
    """A case whose axial and coronal slices lie in separate, plainly painted files."""
    write_dense(root, {"a": None}, affine=AFFINE)
    axial = drawn([(AXIAL, 7)], elsewhere=0)
    for name, label in (("axial", axial), ("coronal", coronal)):
        nib.save(nib.Nifti1Image(label, AFFINE), root / "labelsTr" / f"a_{name}.nii.gz")
    return Dataset.open(root)


def test_slices_drawn_in_separate_files_are_read_as_one_annotation(tmp_path: Path) -> None:
    dataset = write_parts(tmp_path / "set", drawn([(CORONAL, 9)], elsewhere=0))
    assert dataset.labeled == ("a",)
    assert layout(read_annotation(dataset, "a")) == TWO  # axial first, as from one file
    assert check_dataset(tmp_path / "set") == []


def test_separate_files_that_differ_where_they_cross_are_a_fault(tmp_path: Path) -> None:
    flipped = np.ascontiguousarray(drawn([(CORONAL, 9)], elsewhere=0)[::-1])
    write_parts(tmp_path / "set", flipped)
    (fault,) = check_dataset(tmp_path / "set")
    assert "flipped left-right" in fault.message
    assert "a_coronal.nii.gz" in fault.message
