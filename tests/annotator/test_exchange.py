"""Out to another editor and back: the same slices, on the same grid."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813

from annotator.made import CLIENT, GRIDS, IGNORE, paint, write_dataset
from twoslice.annotation.reading import read_annotation
from twoslice.annotator.desk import Desk
from twoslice.annotator.edits import EditRequest
from twoslice.annotator.exchange import export_cases, import_cases
from twoslice.cli import main
from twoslice.errors import AnnotationError, InputError
from twoslice.io.dataset import Dataset


@pytest.fixture(params=GRIDS)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "data", cases=2, affine=GRIDS[request.param])


def painted(path: Path) -> int:
    """Paint a square on every clear slice with SimpleITK, as ITK-SNAP and Slicer hold images."""
    image = sitk.ReadImage(str(path))
    voxels = sitk.GetArrayFromImage(image)
    clear = np.argwhere(voxels == 0)
    middle = clear[len(clear) // 2]
    near = (np.abs(np.indices(voxels.shape) - middle.reshape(3, 1, 1, 1)) <= 4).all(axis=0)
    voxels[near & (voxels == 0)] = 1
    changed = sitk.GetImageFromArray(voxels)
    changed.CopyInformation(image)
    sitk.WriteImage(changed, str(path))
    return int((voxels == 1).sum())


def test_slices_drawn_elsewhere_come_back_on_their_slices(root: Path, tmp_path: Path) -> None:
    desk = Desk(Dataset.open(root))
    out = tmp_path / "out"
    assert export_cases(desk, out) == ["case_0", "case_1"]
    assert (out / "case_0" / "scan.nii.gz").read_bytes() == (
        root / "imagesTr" / "case_0_0000.nii.gz"
    ).read_bytes()
    label = out / "case_0" / "case_0.nii.gz"
    count = painted(label)
    assert import_cases(Dataset.open(root), out) == ["case_0"]  # case_1 was left untouched
    annotation = read_annotation(Dataset.open(root), "case_0")
    wanted = [(each.plane, each.index) for each in desk.suggestions("case_0")]
    assert [(drawn.plane, drawn.index) for drawn in annotation.slices] == wanted
    written = nib.load(root / "labelsTr" / "case_0.nii.gz")
    scan = nib.load(root / "imagesTr" / "case_0_0000.nii.gz")
    assert (np.asarray(written.dataobj) == 1).sum() == count
    assert np.array_equal(written.affine, scan.affine)


def test_an_untouched_file_takes_nothing_back_that_was_drawn_since(
    root: Path, tmp_path: Path
) -> None:
    """Half drawn when it was exported, drawn further in the browser, the file left as it was."""
    desk, label = Desk(Dataset.open(root)), root / "labelsTr" / "case_0.nii.gz"
    (plane, index), *_ = [each.slot for each in desk.suggestions("case_0")]
    desk.open("case_0", CLIENT)

    def stroke(start: int) -> None:
        base = str(desk.table("case_0").state()["version"])
        edit = paint(plane.value, index, [start, 5, 1])
        request = {"client": CLIENT, "base": base, "edits": [edit]}
        desk.edit("case_0", EditRequest.model_validate(request))

    stroke(3)
    export_cases(desk, tmp_path / "out")
    stroke(20)
    before = label.read_bytes()
    same = sitk.ReadImage(str(tmp_path / "out" / "case_0" / "case_0.nii.gz"))
    sitk.WriteImage(same, str(tmp_path / "out" / "case_0" / "case_0.nii.gz"))  # saved, unchanged
    painted(tmp_path / "out" / "case_1" / "case_1.nii.gz")
    assert import_cases(Dataset.open(root), tmp_path / "out") == ["case_1"]
    assert label.read_bytes() == before
    assert len(read_annotation(Dataset.open(root), "case_0").slices) == 1


def test_the_readme_leads_to_the_slices(root: Path, tmp_path: Path) -> None:
    """The cursor positions are counted from 1 in the file's own order, as ITK-SNAP does."""
    export_cases(Desk(Dataset.open(root)), tmp_path / "out", ["case_0"])
    text = (tmp_path / "out" / "README.txt").read_text()
    label = np.asarray(nib.load(tmp_path / "out" / "case_0" / "case_0.nii.gz").dataobj)
    positions = [line for line in text.splitlines() if "cursor position" in line]
    assert len(positions) == 2
    for line in positions:
        numbers = line.partition("cursor position ")[2].partition("   ")[0]
        x, y, z = (int(number) - 1 for number in numbers.split(", "))
        assert label[x, y, z] == 0  # clear, where everything else is `ignore`
    assert (label == IGNORE).mean() > 0.8


def test_colours_and_names_go_along(root: Path, tmp_path: Path) -> None:
    export_cases(Desk(Dataset.open(root)), tmp_path / "out")
    snap = (tmp_path / "out" / "labels.txt").read_text()
    assert '"organ"' in snap
    assert '"ignore"' in snap
    rows = [line.split() for line in snap.splitlines() if not line.startswith("#")]
    assert [int(row[0]) for row in rows] == [0, 1, 2, IGNORE]
    assert all(len(row) == 8 for row in rows)


def test_a_label_on_another_grid_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "data", cases=2)
    export_cases(Desk(Dataset.open(root)), tmp_path / "out")
    painted(tmp_path / "out" / "case_0" / "case_0.nii.gz")
    path = tmp_path / "out" / "case_1" / "case_1.nii.gz"
    label = nib.load(path)
    nib.save(nib.Nifti1Image(np.asarray(label.dataobj)[:-1], label.affine), path)
    with pytest.raises(AnnotationError, match="another grid"):
        import_cases(Dataset.open(root), tmp_path / "out")
    assert not (root / "labelsTr").exists()


def test_a_folder_without_a_label_is_told(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "data", cases=1)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="--export"):
        import_cases(Dataset.open(root), tmp_path / "empty")


def test_both_ways_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_dataset(tmp_path / "data", cases=2)
    out = tmp_path / "out"
    command = ["annotate", str(root), "--export", str(out), "--cases", "case_1"]
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 0
    assert [path.name for path in out.iterdir() if path.is_dir()] == ["case_1"]
    painted(out / "case_1" / "case_1.nii.gz")
    with pytest.raises(SystemExit) as ended:
        main(["annotate", str(root), "--import", str(out)])
    assert ended.value.code == 0
    assert Dataset.open(root).labeled == ("case_1",)
    assert "case_1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--export", "a", "--import", "b"], "one of them"),
        (["--export", "a", "--cases", "case_0,case_7"], "case_7"),
        (["--cases", "case_0"], "--export"),
        (["--import", "nowhere"], "no such folder"),
        (["--planes", "axial"], "planes"),
        (["--planes", "axial,oblique"], "oblique"),
        (["--uncertainty", "nowhere"], "no such folder"),
        (["--host", "203.0.113.7", "--no-browser"], "--host"),
    ],
)
def test_options_that_cannot_be_are_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], word: str
) -> None:
    root = write_dataset(tmp_path / "data", cases=1)
    with pytest.raises(SystemExit) as ended:
        main(["annotate", str(root), *options])
    assert ended.value.code == 2
    told = capsys.readouterr().err.strip()
    assert word in told
    assert len(told.splitlines()) == 1


def test_a_folder_of_scans_is_told_what_to_do_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_dataset(tmp_path / "data", cases=1)
    with pytest.raises(SystemExit):
        main(["annotate", str(root / "imagesTr")])
    assert "twoslice import" in capsys.readouterr().err
