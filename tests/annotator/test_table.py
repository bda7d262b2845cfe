"""One case on the desk: what the file holds after each edit, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from annotation.strategies import ball
from annotator.made import CLIENT, GRIDS, IGNORE, SHAPE, write_dataset
from twoslice.annotation.check import check_dataset
from twoslice.annotation.reading import read_annotation
from twoslice.annotator import edits as e
from twoslice.annotator.desk import Desk
from twoslice.annotator.errors import (
    ChangedOnDiskError,
    HeldError,
    LockedError,
    RequestError,
    StaleError,
    UnsavedError,
)
from twoslice.annotator.plan import Plan
from twoslice.io import atomic
from twoslice.io.dataset import Dataset
from twoslice.planes import Plane

CASE = "case_0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "data")


@pytest.fixture
def desk(root: Path) -> Desk:
    desk = Desk(Dataset.open(root))
    desk._readying = True  # torch is not needed here
    return desk


def version(desk: Desk, case: str = CASE) -> str:
    return str(desk.table(case).state()["version"])


def do(desk: Desk, *edits: dict[str, object], client: str = CLIENT, case: str = CASE) -> None:
    request = {"client": client, "base": version(desk, case), "edits": list(edits)}
    desk.edit(case, e.EditRequest.model_validate(request))


def label(root: Path, case: str = CASE) -> np.ndarray:
    """The label file as nibabel sees it, in RAS order."""
    image = nib.as_closest_canonical(nib.load(root / "labelsTr" / f"{case}.nii.gz"))
    return np.asarray(image.dataobj)


def paint(slot: tuple[str, int], runs: list[int]) -> dict[str, object]:
    return {"kind": "paint", "plane": slot[0], "index": slot[1], "runs": runs}


def opened(desk: Desk, case: str = CASE) -> list[tuple[str, int]]:
    state = desk.open(case, CLIENT)["drawing"]
    return [(each["plane"], each["index"]) for each in state["slices"]]


@pytest.mark.parametrize("grid", GRIDS)
def test_a_stroke_lies_in_the_file_where_it_was_drawn_on_the_screen(
    tmp_path: Path, grid: str
) -> None:
    """The pixel at column x and row y of the screen is voxel (I - 1 - x, J - 1 - y) in RAS."""
    root = write_dataset(tmp_path / "data", affine=GRIDS[grid])
    desk = Desk(Dataset.open(root))
    desk._readying = True
    slots = opened(desk)
    scan = desk.picture(CASE)
    width, height = scan.shape[0], scan.shape[1]
    (plane, index) = slots[0]
    assert plane == "axial"
    do(desk, paint(slots[0], [3 * width + 4, 5, 2]))
    found = label(root)
    expected = np.full(scan.shape, IGNORE)
    expected[:, :, index] = 0
    for x in range(4, 9):
        expected[width - 1 - x, height - 1 - 3, index] = 2
    assert np.array_equal(found, expected)
    image = nib.load(root / "imagesTr" / f"{CASE}_0000.nii.gz")
    written = nib.load(root / "labelsTr" / f"{CASE}.nii.gz")
    assert written.shape == image.shape
    assert np.array_equal(written.affine, image.affine)


def test_check_and_the_reader_see_what_was_drawn(desk: Desk, root: Path) -> None:
    slots = opened(desk)
    shape = desk.picture(CASE).shape
    centre = [index for _, index in reversed(slots)]
    labels = np.zeros(shape, np.uint8)
    labels[ball(shape, (shape[0] // 2, centre[0], centre[1]), 6.4)] = 1
    labels[ball(shape, (shape[0] // 2 + 8, centre[0], centre[1]), 3.4)] = 2
    for plane, index in slots:
        rows = Plane(plane).take(labels, index).T[::-1, ::-1].reshape(-1)
        runs = [n for at in np.flatnonzero(rows) for n in (int(at), 1, int(rows[at]))]
        do(desk, paint((plane, index), runs))
    dataset = Dataset.open(root)
    assert dataset.labeled == (CASE,)
    drawn = read_annotation(dataset, CASE)
    assert [(d.plane.value, d.index) for d in drawn.slices] == slots
    for each in drawn.slices:
        assert np.array_equal(each.mask, each.plane.take(labels, each.index))
    content = json.loads((root / "dataset.json").read_text())
    assert list(content["dataset"]) == [CASE]
    assert content["numTraining"] == 1
    assert check_dataset(root) == []
    assert desk.faults(CASE) == []


def test_a_slice_that_shows_nothing_survives(desk: Desk, root: Path) -> None:
    slots = opened(desk)
    do(desk, paint(slots[0], [400, 9, 1]))
    do(desk, paint(slots[1], []))
    again = Desk(Dataset.open(root))
    assert set(again.table(CASE).annotation().planes) == {Plane.AXIAL, Plane.CORONAL}


def test_the_first_undo_leaves_no_file(desk: Desk, root: Path) -> None:
    slots = opened(desk)
    do(desk, paint(slots[0], [400, 9, 1]))
    assert (root / "labelsTr" / f"{CASE}.nii.gz").exists()
    do(desk, {"kind": "undo"})
    assert not (root / "labelsTr" / f"{CASE}.nii.gz").exists()
    assert json.loads((root / "dataset.json").read_text())["numTraining"] == 0
    do(desk, {"kind": "redo"})
    assert (label(root) == 1).sum() == 9


def test_a_dataset_without_an_ignore_label_gets_one(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "data", ignore=False)
    desk = Desk(Dataset.open(root))
    desk._readying = True
    do(desk, paint(opened(desk)[0], [400, 9, 1]))
    assert json.loads((root / "dataset.json").read_text())["labels"]["ignore"] == IGNORE
    assert (label(root) == IGNORE).any()
    assert len(read_annotation(Dataset.open(root), CASE).slices) == 1


def test_an_edit_on_an_older_drawing_is_refused(desk: Desk) -> None:
    slots = opened(desk)
    old = version(desk)
    do(desk, paint(slots[0], [400, 9, 1]))
    late = {"client": CLIENT, "base": old, "edits": [paint(slots[0], [0, 1, 2])]}
    with pytest.raises(StaleError):
        desk.edit(CASE, e.EditRequest.model_validate(late))


def test_a_second_tab_cannot_draw_until_it_takes_the_pen(desk: Desk) -> None:
    slots = opened(desk)
    table = desk.table(CASE)
    assert not table.hold("other-tab-1")
    with pytest.raises(HeldError):
        do(desk, paint(slots[0], [0, 1, 1]), client="other-tab-1")
    assert table.hold("other-tab-1", take=True)
    do(desk, paint(slots[0], [0, 1, 1]), client="other-tab-1")
    with pytest.raises(HeldError):
        do(desk, paint(slots[0], [0, 1, 2]))
    table.release("other-tab-1")
    do(desk, paint(slots[0], [0, 1, 2]))


def test_a_pen_that_is_not_asked_for_any_more_falls_free(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = desk.table(CASE)
    assert table.hold(CLIENT)
    now = __import__("time").monotonic()
    monkeypatch.setattr("twoslice.annotator.table.time.monotonic", lambda: now + 60)
    assert table.hold("other-tab-1")


def test_a_file_that_another_program_wrote_is_not_overwritten(desk: Desk, root: Path) -> None:
    slots = opened(desk)
    do(desk, paint(slots[0], [400, 9, 1]))
    path = root / "labelsTr" / f"{CASE}.nii.gz"
    foreign = nib.load(path)
    data = np.asarray(foreign.dataobj).copy()
    data[data == 1] = 2
    nib.save(nib.Nifti1Image(data, foreign.affine), path)
    before = path.read_bytes()
    with pytest.raises(ChangedOnDiskError):
        do(desk, paint(slots[0], [500, 9, 1]))
    assert path.read_bytes() == before
    desk.table(CASE).reload()
    do(desk, paint(slots[0], [500, 9, 1]))
    assert (label(root) == 2).sum() == 9
    assert (label(root) == 1).sum() == 9


def test_a_full_disk_takes_the_edit_back_and_keeps_the_file(
    desk: Desk, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = opened(desk)
    do(desk, paint(slots[0], [400, 9, 1]))
    path, before = root / "labelsTr" / f"{CASE}.nii.gz", version(desk)
    content = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patched:
        patched.setattr(atomic, "_sync", full)
        with pytest.raises(UnsavedError, match="disk is full"):
            do(desk, paint(slots[0], [500, 9, 1]))
    assert path.read_bytes() == content
    assert version(desk) == before
    do(desk, paint(slots[0], [500, 9, 1]))


def test_several_edits_are_done_together_or_not_at_all(desk: Desk, root: Path) -> None:
    slots = opened(desk)
    before = version(desk)
    with pytest.raises(RequestError):
        do(desk, paint(slots[0], [400, 9, 1]), paint(slots[0], [10**6 - 1, 9, 1]))
    assert version(desk) == before
    assert not (root / "labelsTr" / f"{CASE}.nii.gz").exists()


def test_a_dense_label_is_shown_and_not_drawn_on(root: Path) -> None:
    dense = np.zeros(SHAPE, np.uint8)
    dense[8:28, 8:22, 5:15] = 1
    (root / "labelsTr").mkdir()
    affine = nib.load(root / "imagesTr" / f"{CASE}_0000.nii.gz").affine
    path = root / "labelsTr" / f"{CASE}.nii.gz"
    nib.save(nib.Nifti1Image(dense, affine), path)
    before = path.read_bytes()
    desk = Desk(Dataset.open(root))
    assert "dense" in desk.open(CASE, CLIENT)["drawing"]["locked"]
    with pytest.raises(LockedError):
        do(desk, paint(("axial", 3), []))
    assert path.read_bytes() == before


def test_slices_in_files_of_their_own_become_one_file_and_are_kept(root: Path) -> None:
    affine = nib.load(root / "imagesTr" / f"{CASE}_0000.nii.gz").affine
    (root / "labelsTr").mkdir()
    part = np.zeros(SHAPE, np.uint8)
    part[10:20, 10:20, 9] = 1
    path = root / "labelsTr" / f"{CASE}_axial.nii.gz"
    nib.save(nib.Nifti1Image(part, affine), path)
    desk = Desk(Dataset.open(root))
    desk._readying = True
    slot, _ = opened(desk)
    assert slot == ("axial", 9)
    do(desk, paint(slot, [0, 1, 2]))
    assert not path.exists()
    assert (root / "annotator" / "before" / path.name).exists()
    assert (label(root) == 1).sum() == 100
    assert (label(root) == 2).sum() == 1


def test_beside_a_slice_drawn_elsewhere_the_missing_plane_is_asked_for(root: Path) -> None:
    affine = nib.load(root / "imagesTr" / f"{CASE}_0000.nii.gz").affine
    (root / "labelsTr").mkdir()
    label = np.full(SHAPE, IGNORE, np.uint8)
    label[..., 9] = 0
    label[10:20, 10:20, 9] = 1
    nib.save(nib.Nifti1Image(label, affine), root / "labelsTr" / f"{CASE}.nii.gz")
    desk = Desk(Dataset.open(root))
    desk._readying = True
    desk.read_all()
    assert desk.table(CASE).status == "started"
    axial, coronal = opened(desk)
    assert axial == ("axial", 9)
    assert coronal[0] == "coronal"
    do(desk, paint(coronal, [200, 30, 1]))
    assert desk.table(CASE).status == "drawn"


def test_what_a_person_had_before_is_kept_once(desk: Desk, root: Path) -> None:
    slots = opened(desk)
    do(desk, paint(slots[0], [400, 9, 1]))
    path = root / "labelsTr" / f"{CASE}.nii.gz"
    first = path.read_bytes()
    again = Desk(Dataset.open(root))
    again._readying = True
    do(again, paint(slots[0], [500, 9, 1]))
    do(again, paint(slots[0], [600, 9, 1]))
    assert (root / "annotator" / "before" / path.name).read_bytes() == first


def test_flags_finishing_and_chosen_slices_survive_a_restart(desk: Desk, root: Path) -> None:
    slots = opened(desk)
    do(desk, {"kind": "move", "plane": "axial", "index": slots[0][1], "to": 4, "carry": False})
    table = desk.table(CASE)
    table.note(e.NoteRequest(client=CLIENT, flag="moved during the scan"))
    do(desk, paint(("axial", 4), [400, 9, 1]))
    table.note(e.NoteRequest(client=CLIENT, finished=True))
    again = Desk(Dataset.open(root))
    again.read_all()
    assert again.table(CASE).notes.flag == "moved during the scan"
    assert again.table(CASE).status == "done"
    assert opened(again) == [("axial", 4), slots[1]]
    assert again.next_case()[0] == "case_1"


@pytest.mark.parametrize(
    ("plan", "planes"),
    [
        (Plan("single", (Plane.SAGITTAL,)), ["sagittal"]),
        (Plan("parallel", (Plane.AXIAL,)), ["axial", "axial"]),
        (Plan("orthogonal", tuple(Plane)), ["sagittal", "coronal", "axial"]),
    ],
)
def test_other_schemes_ask_for_their_slices(root: Path, plan: Plan, planes: list[str]) -> None:
    desk = Desk(Dataset.open(root), plan)
    desk._readying = True
    slots = opened(desk)
    assert [plane for plane, _ in slots] == planes
    assert len(set(slots)) == len(slots)
    for slot in slots:
        do(desk, paint(slot, [200, 30, 1]))
    assert len(read_annotation(Dataset.open(root), CASE).slices) == len(slots)


def test_folders_of_one_name_are_told_apart_on_the_page(tmp_path: Path) -> None:
    """Under the folder's id a browser keeps unsaved strokes: they must not turn up elsewhere."""
    first, second = (Desk(Dataset.open(write_dataset(tmp_path / name))).overview() for name in "ab")
    again = Desk(Dataset.open(tmp_path / "a")).overview()
    assert first["name"] == second["name"]
    assert first["id"] == again["id"] != second["id"]
