"""A study from its file to its table: what is kept, what is retried, and what a kill costs."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from studies.worlds import make_dense, write_study
from twoslice.cli import main
from twoslice.engines.here import Here
from twoslice.errors import DatasetError, OutputError, PartialError, SettingsError
from twoslice.evaluation.evaluate import evaluate
from twoslice.studies import study as studies
from twoslice.studies.job import Task
from twoslice.studies.locks import locked
from twoslice.studies.study import StudyResult, run_study

TABLES = ("table.md", "table.csv", "table.tex")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    make_dense(folder)
    return folder


@pytest.fixture(scope="module")
def finished(world: Path, tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    """The study run to its end without a break."""
    file = write_study(world, curve=2, pictures=2)
    return run_study(file, tmp_path_factory.mktemp("finished"), engine=Here())


def test_every_run_has_scores_and_the_table_has_a_row_each(finished: StudyResult) -> None:
    assert len(finished.finished) == 4
    table = (finished.out / "table.md").read_text()
    assert "| supervised | Sparse | 2 / 4 | 4 | 2 |" in table
    assert "| DeSCO | - | 2 / 4 | 4 | 2 |" in table
    assert table.count(" ± ") >= 12


def test_the_table_is_the_mean_and_deviation_of_the_runs_own_scores(finished: StudyResult) -> None:
    truth = next((finished.out / "truth").iterdir())
    dice = [
        evaluate(
            finished.folder(run) / "predictions",
            truth,
            class_names=("background", "organ", "gland"),
        ).mean_dice
        for run, _ in finished.finished
        if run.row.name == "DeSCO"
    ]
    with (finished.out / "table.csv").open() as file:
        row = next(line for line in csv.DictReader(file) if line["method"] == "DeSCO")
    assert float(row["dice mean"]) == pytest.approx(np.mean(dice))
    assert float(row["dice std"]) == pytest.approx(np.std(dice, ddof=1))


def test_the_curve_ends_at_the_result_and_has_every_checkpoint(finished: StudyResult) -> None:
    with (finished.out / "curves.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {int(line["iteration"]) for line in lines} == {2, 4}
    for run, found in finished.finished:
        last = [
            float(line["dice"])
            for line in lines
            if (line["method"], int(line["seed"])) == (run.row.name, run.seed)
            and line["iteration"] == "4"
        ]
        assert last == [pytest.approx(found["summary"]["overall"]["dice"]["mean"])]
        assert not (finished.folder(run) / "kept").exists()


def test_figures_are_drawn(finished: StudyResult) -> None:
    for name in ("curves.png", "contours.png"):
        assert (finished.out / name).read_bytes().startswith(b"\x89PNG")


def test_held_out_labels_are_no_part_of_any_training_dataset(finished: StudyResult) -> None:
    for dataset in (finished.out / "data").iterdir():
        names = {path.name for path in dataset.rglob("*.nii.gz")}
        assert not any(name.startswith("test_") for name in names)


def test_finished_runs_are_kept(
    world: Path, finished: StudyResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studies, "execute", None)  # any run would now be an error
    before = {name: (finished.out / name).read_bytes() for name in TABLES}
    again = run_study(world / "study.yaml", finished.out, engine=Here())
    assert len(again.finished) == 4
    assert {name: (finished.out / name).read_bytes() for name in TABLES} == before


def test_more_seeds_go_into_the_same_folder_and_another_setting_does_not(
    world: Path, finished: StudyResult, tmp_path: Path
) -> None:
    other = write_study(tmp_path, curve=2, pictures=2, set={"training": {"iterations": 5}})
    with pytest.raises(SettingsError, match=r"begun with another settings\.\S+ than the study"):
        run_study(other, finished.out, data=world, engine=Here())


def fail_once(task: Task) -> None:
    """A run that fails until a file is there."""
    if "seed1" in task.folder.name and not (task.folder.parents[1] / "mended").exists():
        raise DatasetError("scan_00: broken. Mend it.")
    studies_execute(task)


studies_execute = studies.execute


def test_failed_runs_are_listed_left_alone_and_retried_when_asked(
    world: Path, finished: StudyResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studies, "execute", fail_once)
    file = write_study(world, curve=2, pictures=2)
    for _ in range(2):  # the second time nothing is tried
        with pytest.raises(PartialError, match=r"2 of 4 runs failed, 2 are done .*scan_00: broken"):
            run_study(file, tmp_path, engine=Here())
    (tmp_path / "mended").touch()
    with pytest.raises(PartialError):
        run_study(file, tmp_path, engine=Here())
    run_study(file, tmp_path, engine=Here(), retry=True)
    for name in TABLES:
        assert (tmp_path / name).read_bytes() == (finished.out / name).read_bytes()


def test_data_that_cannot_be_made_fails_its_runs_alone(world: Path, tmp_path: Path) -> None:
    rows = [
        {"name": "good", "method": "supervised", "set": {"training.setting": "sparse"}},
        {
            "name": "bad",
            "method": "supervised",
            "set": {"training.setting": "sparse"},
            "data": {"slices": ["axial 99"], "scheme": "single"},
        },
    ]
    file = write_study(world, rows=rows, seeds=[0])
    with pytest.raises(PartialError, match="1 of 2 runs failed, 1 are done"):
        run_study(file, tmp_path, engine=Here())
    assert "| good |" in (tmp_path / "table.md").read_text()
    told = json.loads((tmp_path / "runs" / "bad-seed0-fold0" / "failed.json").read_text())
    assert "none of index 99" in told["error"]


def test_folds_label_other_cases_and_hold_out_the_same(world: Path, tmp_path: Path) -> None:
    rows = [{"name": "s", "method": "supervised", "set": {"training.setting": "sparse"}}]
    file = write_study(world, rows=rows, seeds=[0], folds=2)
    result = run_study(file, tmp_path, engine=Here())
    labeled = [
        {path.name for path in (dataset / "labelsTr").iterdir()}
        for dataset in sorted((tmp_path / "data").iterdir())
    ]
    assert len(labeled) == 2
    assert labeled[0] != labeled[1]
    cases = [{row["case"] for row in found["cases"]} for _, found in result.finished]
    assert cases == [{"test_00", "test_01"}] * 2


def test_a_folder_with_something_else_in_it_is_refused(world: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="not a study"):
        run_study(write_study(world), tmp_path, engine=Here())


def test_a_dataset_that_is_nowhere_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no dataset of that name"):
        run_study(write_study(tmp_path), tmp_path / "out", data=tmp_path, engine=Here())


@pytest.mark.slow
def test_a_study_killed_at_any_moment_goes_on_to_the_same_table(
    world: Path, finished: StudyResult, tmp_path: Path
) -> None:
    """Through the command line and its worker processes; killed again and again, each time a
    little later, until it ends by itself.
    """
    file = write_study(world, curve=2, pictures=2)
    out = tmp_path / "out"
    start = "from twoslice.cli import main; main()"
    command = [sys.executable, "-c", start, "study", str(file), "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    kills = 0
    for patience in (6, 10, 14, 18, 22, 300):
        process = subprocess.Popen(
            command, env=environment, start_new_session=True, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + patience
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
    assert process.returncode == 0
    assert kills >= 1
    for name in TABLES:
        assert (out / name).read_bytes() == (finished.out / name).read_bytes()


def test_a_study_that_is_nowhere_is_told_with_those_that_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ending:
        main(["study", "table5", "--out", str(tmp_path / "out")])
    assert ending.value.code == 2
    assert "Shipped are: " in (told := capsys.readouterr().err)
    assert "table1-la" in told
    assert not (tmp_path / "out").exists()


def test_a_folder_in_which_a_study_runs_is_refused(world: Path, tmp_path: Path) -> None:
    with (
        locked(tmp_path, wait=False),
        pytest.raises(OutputError, match="another study runs there"),
    ):
        run_study(write_study(world), tmp_path, engine=Here())
