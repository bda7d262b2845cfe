"""One run from a folder with broken scans to a report: what is made, named, kept and refused."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from scipy import ndimage

from pipeline import made
from training import tiny
from twoslice.cli import main
from twoslice.errors import DatasetError, InputError, OutputError, SettingsError
from twoslice.evaluation.verdict import Verdict
from twoslice.pipeline.record import Record
from twoslice.pipeline.run import RunResult, run_pipeline
from twoslice.progress import Silent


class Heard(Silent):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture(scope="module")
def ended(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, RunResult, dict[str, str], Heard]:
    """Forty scans, five of them broken in different ways; one more scan beside the dataset."""
    root = tmp_path_factory.mktemp("run")
    broken = made.broken_dataset(root / "data", cases=40, labeled=3)
    (root / "more").mkdir()
    image, _ = tiny.scan(77)
    nib.save(nib.Nifti1Image(image, np.eye(4)), root / "more" / "late_0000.nii.gz")
    (root / "more" / "bad_0000.nii.gz").write_bytes(b"no scan")
    heard = Heard()
    result = run_pipeline(
        root / "data", root / "out", made.settings(), more=[root / "more"], progress=heard
    )
    return root, result, broken, heard


def test_forty_scans_with_five_broken_ones_end_in_thirty_five_label_maps_and_five_reasons(
    ended: tuple[Path, RunResult, dict[str, str], Heard],
) -> None:
    root, result, broken, _ = ended
    maps = {path.name.removesuffix(".nii.gz") for path in (root / "out/predictions").glob("*.gz")}
    sound = {f"tiny_{index}" for index in range(35)}
    assert maps == sound | {"late"}
    assert set(result.record.aside) == set(broken) | {"bad"}
    for case, word in broken.items():
        assert word in result.record.aside[case]["reason"], case
    assert result.record.aside["bad"]["stage"] == "predict"
    words = result.in_words()
    page = result.page.read_text(encoding="utf-8")
    for case in broken:
        assert case in words
        assert case in page


def test_the_start_says_what_is_ahead_and_the_end_what_to_look_at(
    ended: tuple[Path, RunResult, dict[str, str], Heard],
) -> None:
    _, result, _, heard = ended
    said = "\n".join(heard.lines)
    assert (
        "3 scans with drawn slices and 32 without to train on, 37 to predict; 5 set aside" in said
    )
    assert "Ahead: one training" in said
    assert "2 shorter trainings" in said
    assert "in all, by the pace of 3 steps" in said
    words = result.in_words()
    assert f"36 label maps in {result.out / 'predictions'}" in words
    first = result.verdict.scans[0]
    assert f"{first.case}: predicted Dice {100 * first.dice:.0f}" in words
    assert "Draw next:" in words


def test_the_manifest_tells_versions_settings_times_and_hashes(
    ended: tuple[Path, RunResult, dict[str, str], Heard],
) -> None:
    root, _, _, _ = ended
    record = json.loads((root / "out" / "run.json").read_text())
    assert {"check", "propagate", "train", "folds", "predict", "judge", "report"} == {
        *record["stages"]
    }
    assert all(stage["ended"] and stage["seconds"] >= 0 for stage in record["stages"].values())
    assert {"python", "torch", "numpy"} <= record["versions"].keys()
    assert record["seed"] == record["settings"]["training"]["seed"] == 0
    for name, digest in record["outputs"].items():
        file = root / "out" / name
        if name != "report.html":  # a later test writes it again
            assert hashlib.sha256(file.read_bytes()).hexdigest() == digest
    inputs = record["inputs"]
    label = "labelsTr/tiny_0.nii.gz"
    expected = hashlib.sha256((root / "data" / label).read_bytes()).hexdigest()
    assert inputs[label]["sha256"] == expected
    assert "imagesTr/tiny_30_0000.nii.gz" in inputs


def test_every_predicted_scan_is_judged_and_held_out_slices_are_those_of_labelled_scans(
    ended: tuple[Path, RunResult, dict[str, str], Heard],
) -> None:
    root, _, _, _ = ended
    verdict = Verdict.read(root / "out" / "quality.json")
    assert len(verdict.scans) == 36
    assert {row.case for row in verdict.scans if row.drawn} == {"tiny_0", "tiny_1", "tiny_2"}
    assert {point.case for point in verdict.points} == {"tiny_0", "tiny_1", "tiny_2"}
    assert {point.slice for point in verdict.points} == {"axial 7", "coronal 9"}
    assert 0 < verdict.low <= verdict.expected <= verdict.high < 1
    for fold in (root / "out" / "folds").iterdir():
        taught = json.loads((fold / "data.json").read_text())["labeled"]
        asked = json.loads((root / "out" / "quality" / f"{fold.name}.json").read_text())["found"]
        assert asked
        assert not {point["case"] for point in asked} & set(taught)


def test_the_same_command_again_makes_nothing_anew_but_the_page(
    ended: tuple[Path, RunResult, dict[str, str], Heard],
) -> None:
    root, _, _, _ = ended
    kept = [*(root / "out").rglob("*.nii.gz"), *(root / "out").rglob("*.safetensors")]
    kept += (root / "out" / "quality").iterdir()
    before = {path: path.stat().st_mtime_ns for path in kept}
    more = [root / "more"]
    run_pipeline(root / "data", root / "out", made.settings(), more=more)
    assert {path: path.stat().st_mtime_ns for path in kept} == before


def test_other_settings_another_dataset_or_another_drawing_are_refused(
    ended: tuple[Path, RunResult, dict[str, str], Heard], tmp_path: Path
) -> None:
    root, _, _, _ = ended
    with pytest.raises(OutputError, match=r"training.iterations = 4, and 6 was asked for"):
        run_pipeline(root / "data", root / "out", made.settings(iterations=6))
    other = tiny.make_dataset(tmp_path / "other", views=False).root
    with pytest.raises(OutputError, match="holds a run on"):
        run_pipeline(other, root / "out", made.settings())
    copy = tmp_path / "copy"
    shutil.copytree(root / "out", copy)
    record = json.loads((copy / "run.json").read_text())
    record["trained_on"]["tiny_0"]["labelsTr/tiny_0.nii.gz"] = "another"
    (copy / "run.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match="case tiny_0: has another scan or drawing now"):
        run_pipeline(root / "data", copy, made.settings())


def test_a_folder_that_holds_something_else_and_a_dataset_without_drawings_are_refused(
    tmp_path: Path,
) -> None:
    data = tiny.make_dataset(tmp_path / "data", labeled=0, views=False)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="already there and not empty"):
        run_pipeline(data.root, tmp_path / "full", made.settings())
    with pytest.raises(DatasetError, match="twoslice annotate"):
        run_pipeline(data.root, tmp_path / "out", made.settings())
    with pytest.raises(SettingsError, match="nonesuch"):
        run_pipeline(
            data.root, tmp_path / "new", made.settings().model_copy(update={"method": "nonesuch"})
        )
    assert not (tmp_path / "new").exists()


def test_report_of_a_run_folder_writes_its_page_again_with_measured_dice(
    ended: tuple[Path, RunResult, dict[str, str], Heard], tmp_path: Path
) -> None:
    root, _, _, _ = ended
    labels = tmp_path / "dense"
    labels.mkdir()
    for index in range(10, 14):
        affine = nib.load(root / "out" / "predictions" / f"tiny_{index}.nii.gz").affine
        nib.save(nib.Nifti1Image(tiny.scan(index)[1], affine), labels / f"tiny_{index}.nii.gz")
    page = tmp_path / "again.html"
    arguments = ["report", str(root / "out"), "--labels", str(labels), "--out", str(page)]
    with pytest.raises(SystemExit) as ending:
        main(arguments)
    assert ending.value.code == 0
    text = page.read_text(encoding="utf-8")
    assert "Dense labels of 4 scans were given" in text
    assert "measured Dice" in text
    assert "tiny_39" in text  # set aside, and still named


def test_a_page_written_again_shows_the_scans_that_the_run_was_given_beside_its_dataset(
    ended: tuple[Path, RunResult, dict[str, str], Heard], tmp_path: Path
) -> None:
    root, result, _, _ = ended
    page = tmp_path / "again.html"
    with pytest.raises(SystemExit) as ending:
        main(["report", str(root / "out"), "--out", str(page)])
    assert ending.value.code == 0
    first, again = (path.read_text(encoding="utf-8") for path in (result.page, page))
    shown = re.findall(r"<option value=.*?</option>", first)
    assert any(">late<" in option for option in shown)
    assert re.findall(r"<option value=.*?</option>", again) == shown


def test_dense_labels_that_are_not_there_are_refused_and_not_forgotten_in_silence(
    ended: tuple[Path, RunResult, dict[str, str], Heard],
) -> None:
    root, _, _, _ = ended
    with pytest.raises(InputError, match="nowhere"):
        run_pipeline(
            root / "data",
            root / "out",
            made.settings(),
            more=[root / "more"],
            labels=root / "nowhere",
        )


def test_labels_that_are_gone_are_left_out_when_a_page_is_written_again(tmp_path: Path) -> None:
    record = Record(tmp_path, {})
    (tmp_path / "dense").mkdir()
    record.show([tmp_path / "nowhere"], tmp_path / "dense")
    again = Record(tmp_path, json.loads((tmp_path / "run.json").read_text(encoding="utf-8")))
    assert again.shown == ([], tmp_path / "dense")
    (tmp_path / "dense").rmdir()
    assert again.shown == ([], None)


def test_strays_are_taken_out_of_a_run_of_plus_and_still_told(tmp_path: Path) -> None:
    """Networks of four iterations find their labels in crumbs all over the scan."""
    tiny.make_dataset(tmp_path / "data", cases=4, labeled=2, views=False)
    run_pipeline(tmp_path / "data", tmp_path / "out", made.settings(method="plus"))
    found = json.loads((tmp_path / "out" / "run" / "data.json").read_text(encoding="utf-8"))
    assert found["single"] == [1, 2]
    strays = []
    for path in (tmp_path / "out" / "predictions").glob("*.nii.gz"):
        labels = np.asarray(nib.load(path).dataobj)
        case = path.name.removesuffix(".nii.gz")
        told = json.loads((tmp_path / "out" / "quality" / f"{case}.json").read_text("utf-8"))
        for value, shape in enumerate(told["found"]["shapes"], start=1):
            assert ndimage.label(labels == value)[1] <= 1
            assert shape["pieces"] <= 1
            strays.append(shape["strays"])
    assert np.mean(strays) > 0.1
