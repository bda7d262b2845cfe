"""Dataset folders: what nnU-Net accepts is accepted, what is broken is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

from scan_files import blocks
from twoslice.errors import AnnotationError, DatasetError, TwosliceError
from twoslice.io import nifti
from twoslice.io.dataset import Dataset, refresh_description, write_description
from twoslice.io.grid import Grid
from twoslice.io.scans import write_image, write_labels

SHAPE = (4, 5, 6)
GRID = Grid(SHAPE, np.diag([-1.0, -1.0, 2.5, 1.0]))
PLAIN = {
    "channel_names": {"0": "MRI"},
    "labels": {"background": 0, "organ": 1, "ignore": 2},
    "numTraining": 1,
    "file_ending": ".nii.gz",
}


def labels_of(value: int = 0) -> np.ndarray:
    labels = np.full(SHAPE, value, np.uint8)
    labels[1] = 1
    return labels


def make(
    root: Path, images: int = 3, labels: int = 1, ending: str = ".nii.gz", **changes: Any
) -> Path:
    """A dataset of a few scans, the first ones labelled."""
    for number in range(images):
        write_image(root / "imagesTr" / f"scan {number}_0000{ending}", blocks(SHAPE), GRID)
    for number in range(labels):
        write_labels(root / "labelsTr" / f"scan {number}{ending}", labels_of(2), GRID)
    description = {**PLAIN, "file_ending": ending, **changes}
    kept = {key: value for key, value in description.items() if value is not None}
    (root / "dataset.json").write_text(json.dumps(kept))
    return root


def test_cases_and_their_labels_are_found(tmp_path: Path) -> None:
    dataset = Dataset.open(make(tmp_path, images=3, labels=2))
    assert list(dataset.cases) == ["scan 0", "scan 1", "scan 2"]
    assert dataset.labeled == ("scan 0", "scan 1")
    assert dataset.unlabeled == ("scan 2",)
    assert dataset.class_names == ("background", "organ")
    assert (dataset.classes, dataset.ignore) == (2, 2)
    assert dataset.read_image("scan 2").data.shape == (1, *SHAPE)
    assert set(np.unique(dataset.read_labels("scan 0").data)) == {1, 2}


@pytest.mark.parametrize("ending", [".nii.gz", ".nii", ".nrrd", ".mha"])
def test_every_file_ending_that_nnunet_reads_in_3d(tmp_path: Path, ending: str) -> None:
    dataset = Dataset.open(make(tmp_path, ending=ending))
    assert dataset.file_ending == ending
    assert dataset.read_labels("scan 0").grid.same_as(GRID)


def test_old_style_modality_and_extra_keys_are_taken(tmp_path: Path) -> None:
    root = make(tmp_path, channel_names=None, modality={"0": "CT"}, licence="CC0", numTraining=None)
    dataset = Dataset.open(root)
    assert dataset.channel_names == ("CT",)
    assert dataset.name == tmp_path.name


def test_a_dataset_of_listed_files_lying_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_image(tmp_path / "elsewhere" / "one.nii.gz", blocks(SHAPE), GRID)
    write_labels(tmp_path / "elsewhere" / "one-label.nii.gz", labels_of(), GRID)
    monkeypatch.setenv("SCANS", str(tmp_path / "elsewhere"))
    listed = {
        "relative": {
            "images": ["../elsewhere/one.nii.gz"],
            "label": "../elsewhere/one-label.nii.gz",
        },
        "expanded": {"images": ["$SCANS/one.nii.gz"], "label": "$SCANS/one-label.nii.gz"},
    }
    (tmp_path / "set").mkdir()
    dataset = Dataset.open(make(tmp_path / "set", images=0, labels=0, dataset=listed))
    assert dataset.labeled == ("expanded", "relative")
    assert dataset.read_labels("expanded").data.max() == 1


def test_listed_cases_and_all_others_in_images_tr(tmp_path: Path) -> None:
    entry = {"images": ["imagesTr/scan 0_0000.nii.gz"], "label": "labelsTr/scan 0.nii.gz"}
    dataset = Dataset.open(make(tmp_path, labels=2, dataset={"scan 0": entry}))
    assert dataset.labeled == ("scan 0", "scan 1")
    assert dataset.unlabeled == ("scan 2",)


def test_a_listed_case_of_another_name_is_not_found_twice(tmp_path: Path) -> None:
    entry = {"images": ["imagesTr/scan 0_0000.nii.gz"], "label": "labelsTr/scan 0.nii.gz"}
    dataset = Dataset.open(make(tmp_path, images=2, dataset={"first": entry}))
    assert list(dataset.cases) == ["first", "scan 1"]


def test_regions_become_the_values_they_are_made_of(tmp_path: Path) -> None:
    regions = {"background": 0, "whole": [1, 2, 3], "core": [2, 3], "enhancing": 3, "ignore": 4}
    root = make(tmp_path, labels=0)
    description = json.loads((root / "dataset.json").read_text())
    description |= {"labels": regions, "regions_class_order": [1, 2, 3]}
    (root / "dataset.json").write_text(json.dumps(description))
    dataset = Dataset.open(root)
    assert dataset.class_names == ("background", "label 1", "label 2", "enhancing")
    assert dataset.ignore == 4


def test_test_scans_are_listed_apart(tmp_path: Path) -> None:
    root = make(tmp_path)
    write_image(root / "imagesTs" / "new_0000.nii.gz", blocks(SHAPE), GRID)
    dataset = Dataset.open(root)
    assert list(dataset.test_cases) == ["new"]
    assert "new" not in dataset.cases
    assert dataset.read_image("new").shape == SHAPE


def test_a_label_of_nothing_but_ignore_is_no_label(tmp_path: Path) -> None:
    root = make(tmp_path, labels=2)
    write_labels(root / "labelsTr" / "scan 1.nii.gz", np.full(SHAPE, 2), GRID)
    dataset = Dataset.open(root)
    assert dataset.labeled == ("scan 0",)
    assert dataset.unlabeled == ("scan 1", "scan 2")


def test_a_broken_label_still_counts_so_that_its_fault_is_told(tmp_path: Path) -> None:
    root = make(tmp_path)
    (root / "labelsTr" / "scan 0.nii.gz").write_bytes(b"broken")
    dataset = Dataset.open(root)
    assert dataset.labeled == ("scan 0",)
    with pytest.raises(TwosliceError, match=r"scan 0\.nii\.gz"):
        dataset.read_labels("scan 0")


def test_unfinished_and_foreign_files_are_passed(tmp_path: Path) -> None:
    root = make(tmp_path)
    (root / "imagesTr" / ".writing-x").mkdir()
    (root / "imagesTr" / ".writing-x" / "scan 9_0000.nii.gz").write_bytes(b"half")
    (root / "imagesTr" / "._scan 0_0000.nii.gz").write_bytes(b"mac")
    (root / "imagesTr" / "notes.txt").write_text("none")
    assert len(Dataset.open(root).cases) == 3


def test_reading_labels_reads_no_image_voxels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = Dataset.open(make(tmp_path))
    read: list[Path] = []
    whole = nifti.read

    def watched(path: Path) -> object:
        read.append(path)
        return whole(path)

    monkeypatch.setattr(nifti, "read", watched)
    dataset.read_labels("scan 0")
    assert read == [dataset.cases["scan 0"].label]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": None}, "lacks 'labels'"),
        ({"file_ending": None}, "lacks 'file_ending'"),
        ({"file_ending": "nii.gz"}, "file_ending is 'nii.gz'"),
        ({"labels": {"background": 0, "organ": 2}}, "label values are [0, 2]"),
        ({"labels": {"organ": 0, "other": 1}}, "label 0 is 'organ', expected 'background'"),
        ({"labels": {"background": 0}}, "label values are [0]"),
        ({"labels": {"background": 0, "organ": 1.5}}, "label 'organ' is 1.5"),
        ({"labels": {"background": 0, "organ": "1"}}, "label 'organ' is '1'"),
        ({"labels": ["background", "organ"]}, "labels must map names"),
        ({"labels": {"background": 0, "organ": 1, "ignore": 9}}, "ignore is 9, expected 2"),
        ({"channel_names": {"1": "MRI"}}, "channel_names must number"),
        ({"channel_names": {"0": "T1", "1": "T2"}}, "names 2 channel(s)"),
        ({"dataset": ["a"]}, "dataset is list"),
        ({"dataset": {"a": {"images": "x"}}}, "expected images (a list) and label"),
        ({"dataset": {"a": {"images": ["x.nii.gz"]}}}, "which is not there"),
    ],
)
def test_a_broken_description_is_one_line(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    root = make(tmp_path)
    description = {**PLAIN, **changes}
    kept = {key: value for key, value in description.items() if value is not None}
    (root / "dataset.json").write_text(json.dumps(kept))
    with pytest.raises(DatasetError) as refused:
        Dataset.open(root)
    assert words in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def test_the_decathlons_form_is_told_to_be_imported(tmp_path: Path) -> None:
    root = make(tmp_path)
    old = {"modality": {"0": "MRI"}, "labels": {"0": "background", "1": "organ"}}
    (root / "dataset.json").write_text(json.dumps(old))
    with pytest.raises(DatasetError, match=r"Decathlon's form.*twoslice import"):
        Dataset.open(root)


def test_a_gap_in_the_channels_is_refused(tmp_path: Path) -> None:
    root = make(tmp_path, channel_names={"0": "T1", "1": "T2"})
    write_image(root / "imagesTr" / "scan 0_0002.nii.gz", blocks(SHAPE), GRID)
    with pytest.raises(DatasetError, match=r"scan 0 has channels \[0, 2\]"):
        Dataset.open(root)


def test_a_label_on_another_grid_or_with_unknown_values_is_refused(tmp_path: Path) -> None:
    root = make(tmp_path)
    dataset = Dataset.open(root)
    label = root / "labelsTr" / "scan 0.nii.gz"
    write_labels(label, labels_of(), Grid(SHAPE, np.eye(4)))
    with pytest.raises(AnnotationError, match=r"scan 0\.nii\.gz: lies on another grid"):
        dataset.read_labels("scan 0")
    write_labels(label, np.full(SHAPE, 7), GRID)
    with pytest.raises(AnnotationError, match=r"holds label values \[7\].*knows \[0, 1, 2\]"):
        dataset.read_labels("scan 0")
    with pytest.raises(AnnotationError, match="case scan 1: has no label file"):
        dataset.read_labels("scan 1")
    with pytest.raises(DatasetError, match="no case is called 'scan 9'"):
        dataset.read_image("scan 9")


def test_what_is_written_lists_the_labelled_cases_for_nnunet(tmp_path: Path) -> None:
    root = make(tmp_path, images=3, labels=1)
    write_description(
        root, name="x", channel_names=["MRI"], labels={"organ": 1, "background": 0}, ignore=2
    )
    raw = json.loads((root / "dataset.json").read_text())
    assert raw["numTraining"] == 1
    assert list(raw["labels"].items()) == [("background", 0), ("organ", 1), ("ignore", 2)]
    assert raw["dataset"] == {
        "scan 0": {"images": ["imagesTr/scan 0_0000.nii.gz"], "label": "labelsTr/scan 0.nii.gz"}
    }
    assert Dataset.open(root).unlabeled == ("scan 1", "scan 2")


def test_a_dataset_labelled_throughout_needs_no_list(tmp_path: Path) -> None:
    root = make(tmp_path, images=2, labels=2, licence="CC0")
    refresh_description(root)
    raw = json.loads((root / "dataset.json").read_text())
    assert "dataset" not in raw
    assert raw["numTraining"] == 2
    assert raw["licence"] == "CC0"


def test_refreshing_follows_a_label_that_was_drawn_later(tmp_path: Path) -> None:
    root = make(tmp_path, images=3, labels=1)
    refresh_description(root)
    write_labels(root / "labelsTr" / "scan 1.nii.gz", labels_of(2), GRID)
    assert Dataset.open(root).labeled == ("scan 0", "scan 1")
    refresh_description(root)
    raw = json.loads((root / "dataset.json").read_text())
    assert raw["numTraining"] == 2
    assert sorted(raw["dataset"]) == ["scan 0", "scan 1"]


def test_labels_that_nnunet_would_refuse_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="without a gap"):
        write_description(
            tmp_path, name="x", channel_names=["a"], labels={"background": 0, "b": 3}, ignore=None
        )
    assert not (tmp_path / "dataset.json").exists()


@pytest.mark.data
@pytest.mark.parametrize("name", ["BTCV_ct", "Hippocampus", "LA_half"])
def test_the_real_datasets_are_accepted_as_they_are(real_data: Path, name: str) -> None:
    dataset = Dataset.open(real_data / name)
    case = dataset.labeled[0]
    volume = dataset.read_image(case)
    stored = nib.load(dataset.cases[case].images[0])
    np.testing.assert_array_equal(volume.grid.affine, stored.affine)
    assert dataset.read_labels(case).shape == volume.shape
