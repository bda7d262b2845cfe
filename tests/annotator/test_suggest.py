"""Suggested slices: in the body, at the same place as before, where doubt is."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from annotator.made import CLIENT, LPS, SHAPE, write_dataset
from twoslice.annotation.reading import annotation_at
from twoslice.annotator import edits as e
from twoslice.annotator.desk import Desk
from twoslice.annotator.plan import Plan
from twoslice.annotator.suggest import (
    Example,
    Wanted,
    areas_across,
    body_extent,
    from_examples,
)
from twoslice.demo.phantom import make_phantom
from twoslice.io import atomic
from twoslice.io.dataset import Dataset
from twoslice.io.scans import write_image, write_labels
from twoslice.planes import Plane


def shifted(root: Path, case: str, by: int) -> None:
    """Move the body of a case `by` voxels along the last axis."""
    path = root / "imagesTr" / f"{case}_0000.nii.gz"
    image = nib.load(path)
    data = np.zeros((*SHAPE[:2], SHAPE[2] + 2 * abs(by)), np.int16)
    data[..., abs(by) + by : abs(by) + by + SHAPE[2]] = np.asarray(image.dataobj)
    nib.save(nib.Nifti1Image(data, image.affine), path)


def draw(desk: Desk, case: str, plane: str, index: int) -> None:
    opened = desk.open(case, CLIENT)["drawing"]
    slot = next(each for each in opened["slices"] if each["plane"] == plane)
    move = {"kind": "move", "plane": plane, "index": slot["index"], "to": index, "carry": False}
    stroke = {"kind": "paint", "plane": plane, "index": index, "runs": [200, 20, 1]}
    edits = [move, stroke] if slot["index"] != index else [stroke]
    request = {"client": CLIENT, "base": opened["version"], "edits": edits}
    desk.edit(case, e.EditRequest.model_validate(request))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    root = write_dataset(tmp_path / "data")
    shifted(root, "case_1", 8)
    desk = Desk(Dataset.open(root))
    desk._readying = True
    return desk


def test_the_first_scan_is_cut_through_the_middle_of_the_body(desk: Desk) -> None:
    found = {each.plane: each for each in desk.suggestions("case_1")}
    body = desk.picture("case_1").channels[0].codes > 60
    for plane, suggestion in found.items():
        shown = np.flatnonzero(plane.stack_first(body).any(axis=(1, 2)))
        middle = (shown[0] + shown[-1]) / 2
        assert abs(suggestion.index - middle) <= 2
        assert "middle" in suggestion.why


def test_later_scans_are_cut_at_the_same_place_in_the_body(desk: Desk) -> None:
    draw(desk, "case_0", "axial", 5)
    axial = next(each for each in desk.suggestions("case_1") if each.plane == Plane.AXIAL)
    low = body_extent(desk.picture("case_0"))[2][0]
    moved = body_extent(desk.picture("case_1"))[2][0]
    assert abs((axial.index - moved) - (5 - low)) <= 2
    assert "drawn before" in axial.why


def painted(labels: np.ndarray, *slots: tuple[Plane, int]) -> Example:
    extent = tuple((0, side - 1) for side in labels.shape)
    assert len(extent) == 3
    return Example(annotation_at(labels, slots), extent)


def test_the_next_scan_is_cut_where_those_before_show_least() -> None:
    labels = np.zeros((60, 60, 60), np.uint8)
    labels[10:50, 20:50, 5:45] = 1
    wanted = Wanted()
    extent = ((0, 119), (0, 119), (0, 119))  # a body of twice the size
    example = painted(labels, (Plane.AXIAL, 15), (Plane.CORONAL, 35))
    found = from_examples(extent, wanted, [example], classes=2)
    assert found is not None
    axial, coronal = found
    assert 2 * 25 < axial.index < 2 * 45  # 15 is low in 5 to 45: above it
    assert not 2 * 30 <= coronal.index <= 2 * 40
    assert 2 * 20 <= coronal.index < 2 * 50
    assert "the scan drawn before" in axial.why
    more = [example, painted(labels, (Plane.AXIAL, 35), (Plane.CORONAL, 24))]
    again = from_examples(extent, wanted, more, classes=2)
    assert again is not None
    assert again[1].index > 2 * 38


def test_where_slices_do_not_cross_they_do_not_tell_how_far_a_target_reaches() -> None:
    labels = np.ones((20, 20, 20), np.uint8)
    example = painted(labels, (Plane.AXIAL, 9))
    assert from_examples(example.extent, Wanted(), [example], classes=2) is None
    assert from_examples(example.extent, Wanted(), [], classes=2) is None


def test_areas_across_are_those_of_the_drawn_slices() -> None:
    labels = np.random.default_rng(1).integers(0, 3, (7, 8, 9)).astype(np.uint8)
    drawn = painted(labels, (Plane.SAGITTAL, 3), (Plane.CORONAL, 5)).annotation
    areas = areas_across(drawn, Plane.AXIAL, 3)
    for k in range(9):
        for value in (1, 2):
            both = (labels[3, :, k] == value).sum() + (labels[:, 5, k] == value).sum()
            assert areas[value, k] == both


def test_after_a_training_the_least_sure_place_is_suggested(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "data")
    folder = tmp_path / "predictions" / "uncertainty"
    for number, height in (("case_1", 0.2), ("case_2", 0.9)):
        doubt = np.full(SHAPE, 0.01, np.float32)
        doubt[20:24, 6:9, 12:15] = height
        grid = Dataset.open(root).read_grid(number)
        write_image(folder / f"{number}_entropy.nii.gz", grid.to_ras(doubt), grid)
    desk = Desk(Dataset.open(root), Plan(uncertainty=tmp_path / "predictions"))
    desk.read_all()
    assert desk.next_case()[0] == "case_2"
    assert "least sure" in desk.next_case()[1]
    found = {each.plane: each for each in desk.suggestions("case_2")}
    assert 12 <= found[Plane.AXIAL].index <= 15
    # LPS: the second axis is flipped on the way to RAS.
    assert SHAPE[1] - 10 <= found[Plane.CORONAL].index <= SHAPE[1] - 6
    assert "least sure" in found[Plane.AXIAL].why


def test_a_doubtful_propagation_asks_for_one_slice_more(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "data")
    desk = Desk(Dataset.open(root))
    desk._readying = True
    draw(desk, "case_0", "axial", 4)
    grid = desk.dataset.read_grid("case_0")
    apart = np.zeros(grid.ras.shape, np.uint8)
    apart[:, :, 15] = 90
    write_labels(root / "propagated" / "case_0_disagreement.nii.gz", apart, grid)
    record = {"slices": [], "views": {}, "quality": {"expected_dice": 0.41}}
    atomic.write_json(root / "propagated" / "case_0.json", record)
    (more,) = desk.suggestions("case_0")
    assert more.plane == Plane.AXIAL
    assert abs(more.index - 15) <= 1
    assert "0.41" in more.why


def test_the_phantoms_targets_show_on_the_suggested_slices(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "data", cases=1, affine=LPS)
    phantom = make_phantom(3)
    write_image(root / "imagesTr" / "case_0_0000.nii.gz", phantom.image, phantom.grid)
    desk = Desk(Dataset.open(root))
    for suggestion in desk.suggestions("case_0"):
        assert (suggestion.plane.take(phantom.labels, suggestion.index) > 0).sum() > 50
