"""What cannot be exported is told in one line, and nothing is written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from training import tiny
from twoslice.cli import main
from twoslice.training.loop import train


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats")
    train(tiny.make_dataset(folder / "data"), folder / "run", tiny.settings(iterations=1))
    return folder / "run"


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    with pytest.raises(SystemExit) as ending:
        main(["export", *map(str, words)])
    assert ending.value.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


def test_an_unknown_form_is_refused_with_a_guess(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, run, "--to", "onx", "--out", tmp_path / "out")
    assert "Did you mean 'onnx'" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", ["monai-bundle", "onnx"])
def test_a_run_without_weights_is_refused(
    run: Path, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, tmp_path / "run", ignore=lambda *_: ["checkpoints"])
    said = refused(capsys, tmp_path / "run", "--to", form, "--out", tmp_path / "out")
    assert "has no checkpoint" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


@pytest.mark.parametrize("form", ["monai-bundle", "onnx", "nnunet"])
def test_a_folder_with_files_in_it_is_left_alone(
    run: Path, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("work")
    said = refused(capsys, run, "--to", form, "--out", tmp_path / "out")
    assert "already there" in said
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_options_of_labels_are_refused_for_models(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, run, "--to", "onnx", "--out", tmp_path / "out", "--trust", "0.3")
    assert "--to nnunet" in said


def test_a_moved_dataset_is_told_and_can_be_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (run / "data.json").read_text().replace(str(run.parent / "data"), "/nowhere")
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "data.json").write_text(text)
    said = refused(capsys, tmp_path / "run", "--to", "nnunet", "--out", tmp_path / "out")
    assert "--dataset" in said
    with pytest.raises(SystemExit) as ending:
        main(["export", str(tmp_path / "run"), "--to", "nnunet", "--out", str(tmp_path / "out"),
              "--dataset", str(run.parent / "data")])  # fmt: skip
    assert not ending.value.code
    assert "2 cases" in capsys.readouterr().out
