"""Which scans are found under a path, and what their cases are called."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest

from scan_files import blocks, write_series
from twoslice.errors import ScanError
from twoslice.io.find import find_scans, safe_name


def files(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"something")
    return folder


def cases(*inputs: Path) -> dict[str, list[str]]:
    found = find_scans(list(inputs))
    return {scan.case: [path.name for path in scan.paths] for scan in found}


def test_a_folder_of_scans_of_several_formats(tmp_path: Path) -> None:
    files(tmp_path, "b.nii.gz", "a.nrrd", "c d.mha", "notes.txt", ".hidden.nii.gz", "Ärzte.nii")
    assert cases(tmp_path) == {
        "a": ["a.nrrd"],
        "b": ["b.nii.gz"],
        "c d": ["c d.mha"],
        "Ärzte": ["Ärzte.nii"],
    }


def test_channels_are_grouped_when_every_case_has_the_same(tmp_path: Path) -> None:
    files(tmp_path, *(f"{case}_000{channel}.nii.gz" for case in "ab" for channel in range(2)))
    assert cases(tmp_path) == {
        "a": ["a_0000.nii.gz", "a_0001.nii.gz"],
        "b": ["b_0000.nii.gz", "b_0001.nii.gz"],
    }


def test_a_single_channel_file_is_named_without_its_number(tmp_path: Path) -> None:
    files(tmp_path, "scan_0000.nii.gz")
    assert cases(tmp_path / "scan_0000.nii.gz") == {"scan": ["scan_0000.nii.gz"]}


def test_numbers_that_do_not_count_from_0_belong_to_the_name(tmp_path: Path) -> None:
    files(tmp_path, "scan_0001.nii.gz", "scan_0002.nii.gz")
    assert sorted(cases(tmp_path)) == ["scan_0001", "scan_0002"]


def test_a_case_without_its_last_channel_comes_with_what_it_has(tmp_path: Path) -> None:
    files(tmp_path, "A_0000.nii.gz", "A_0001.nii.gz", "B_0000.nii.gz")
    assert cases(tmp_path) == {"A": ["A_0000.nii.gz", "A_0001.nii.gz"], "B": ["B_0000.nii.gz"]}


def test_a_case_without_a_channel_before_another_is_refused(tmp_path: Path) -> None:
    files(tmp_path, "A_0000.nii.gz", "A_0001.nii.gz", "B_0001.nii.gz")
    with pytest.raises(ScanError, match=r"B_0001\.nii\.gz: case B lacks channel 0000"):
        find_scans(tmp_path)


def test_dicom_folders_and_a_folder_of_them(tmp_path: Path) -> None:
    for patient in ("Anna", "Ben"):
        write_series(tmp_path / patient / "SE1", blocks((4, 4, 4)))
    assert cases(tmp_path / "Anna" / "SE1") == {"SE1": ["SE1"]}
    assert sorted(cases(tmp_path)) == ["Anna_SE1", "Ben_SE1"]


def test_a_disk_with_its_table_of_contents_is_walked(tmp_path: Path) -> None:
    write_series(tmp_path / "DICOM" / "ST1" / "SE1", blocks((4, 4, 4)))
    (tmp_path / "DICOMDIR").write_bytes(bytes(128) + b"DICM" + bytes(100))
    assert sorted(cases(tmp_path)) == ["DICOM_ST1_SE1"]


def test_h5_files_are_named_by_their_folders(tmp_path: Path) -> None:
    for case in ("06SR", "0RZD"):
        (tmp_path / case).mkdir()
        with h5py.File(tmp_path / case / "mri_norm2.h5", "w") as file:
            file["image"] = blocks((4, 4, 4))
    assert sorted(cases(tmp_path)) == ["06SR", "0RZD"]
    assert sorted(cases(tmp_path / "06SR" / "mri_norm2.h5")) == ["06SR"]
    assert sorted(cases(tmp_path / "06SR")) == ["06SR"]


def test_a_dataset_gives_its_images_and_not_its_labels(tmp_path: Path) -> None:
    files(tmp_path, "imagesTr/a_0000.nii.gz", "imagesTs/b_0000.nii.gz", "labelsTr/a.nii.gz")
    assert sorted(cases(tmp_path)) == ["a", "b"]


def test_unfinished_writes_are_passed(tmp_path: Path) -> None:
    files(tmp_path, "a.nii.gz", ".writing-xyz/b.nii.gz")
    assert sorted(cases(tmp_path)) == ["a"]


def test_a_case_that_is_there_twice_is_refused_with_both(tmp_path: Path) -> None:
    files(tmp_path, "x/a.nii.gz", "y/a.nrrd")
    with pytest.raises(ScanError, match=r"'a' is listed twice: .*x/a\.nii\.gz and .*y/a\.nrrd"):
        find_scans([tmp_path / "x", tmp_path / "y"])
    with pytest.raises(ScanError, match="'a' is listed twice"):
        find_scans([tmp_path / "x" / "a.nii.gz", tmp_path / "x" / "a.nii.gz"])


def test_names_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    files(tmp_path, "scan.nii.gz", "SCAN.nrrd")
    with pytest.raises(ScanError, match="listed twice"):
        find_scans(tmp_path)


def test_a_folder_without_scans_is_refused(tmp_path: Path) -> None:
    files(tmp_path, "notes.txt")
    with pytest.raises(ScanError, match="no scans in it"):
        find_scans(tmp_path)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Müller Scan №1", "Müller Scan №1"),
        ("a/b\\c:d", "a-b-c-d"),
        ("tab\there", "tab-here"),
        ("$HOME", "-HOME"),
        ("..", "scan"),
        ("u\u0308ber", "über"),
    ],
)
def test_case_names_stay_readable_and_safe(text: str, name: str) -> None:
    assert safe_name(text) == name
