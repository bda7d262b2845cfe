"""The command line: light at the start, one line and exit 2 for what a user can mend."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import twoslice
from twoslice import cli
from twoslice.demo.phantom import write_phantoms
from twoslice.errors import PartialError

HEAVY = {"torch", "monai", "nibabel", "scipy", "SimpleITK", "numpy", "matplotlib"}


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command as a user types it."""
    command = [sys.executable, "-c", "from twoslice.cli import main; main()"]
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )


def test_asking_for_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, twoslice.cli\n"
        "try: twoslice.cli.app(['train', '--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted(set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "--resume" in done.stdout
    assert HEAVY.isdisjoint(json.loads(done.stderr.replace("'", '"')))


def test_every_command_has_help_that_says_something() -> None:
    runner = CliRunner()
    listed = runner.invoke(cli.app, ["--help"]).output
    for name in ("demo", "import", "simulate", "check", "propagate", "train", "predict"):
        assert name in listed
        shown = runner.invoke(cli.app, [name, "--help"])
        assert shown.exit_code == 0
        assert "--help" in shown.output
    assert "..." not in listed.replace("[ARGS]...", "")


def test_the_version_is_printed() -> None:
    assert CliRunner().invoke(cli.app, ["--version"]).output == f"twoslice {twoslice.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "nowhere"],
        ["simulate", "nowhere", "--out", "x", "--labeled", "2"],
        ["simulate", "nowhere", "--out", "x", "--labeled", "2", "--planes", "oblique,axial"],
        ["evaluate", "nowhere", "nowhere", "--out", "x.json"],
        ["train", "nowhere", "--out", "x", "--set", "training.iteration=3"],
        ["report", "nowhere"],
    ],
    ids=lambda arguments: " ".join(arguments[:1] + arguments[-1:]),
)
def test_what_a_user_can_mend_is_one_line_and_exit_2(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["twoslice", *arguments])
    with pytest.raises(SystemExit) as ending:
        cli.main()
    told = capsys.readouterr().err
    assert ending.value.code == 2
    assert told.startswith("error: ")
    assert len(told.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mistake", [["evalute"], ["simulate", "x"], ["check", "--wrong"]])
def test_a_mistyped_command_exits_2_without_a_traceback(mistake: list[str]) -> None:
    done = run(*mistake)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Error: " in done.stderr


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "code"), [(PartialError("2 of 5 failed"), 2), (KeyboardInterrupt(), 130)]
)
def test_partial_work_exits_2_and_an_interrupt_130_with_a_line(
    error: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("twoslice.evaluation.evaluate.evaluate", lambda *a, **k: _raise(error))
    monkeypatch.setattr(sys, "argv", ["twoslice", "evaluate", "a", "b", "--out", "c.json"])
    with pytest.raises(SystemExit) as ending:
        cli.main()
    assert ending.value.code == code
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "twoslice.evaluation.evaluate.evaluate", lambda *a, **k: _raise(ZeroDivisionError("ours"))
    )
    monkeypatch.setattr(sys, "argv", ["twoslice", "evaluate", "a", "b", "--out", "c.json"])
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_simulate_check_and_evaluate_work_from_the_command_line(tmp_path: Path) -> None:
    write_phantoms(tmp_path / "dense", training=3, test=0, shape=(32, 32, 16))
    runner, sparse = CliRunner(), tmp_path / "sparse"
    made = runner.invoke(
        cli.app, ["simulate", str(tmp_path / "dense"), "--out", str(sparse), "--labeled", "2"]
    )
    assert made.exit_code == 0, made.output
    assert f"twoslice check {sparse}" in made.output
    checked = runner.invoke(cli.app, ["check", str(sparse)])
    assert checked.exit_code == 0, checked.output
    assert "3 scans, 2 of them labelled; targets: organ, gland" in checked.output
    labels, scores = tmp_path / "dense" / "labelsTr", tmp_path / "scores.json"
    scored = runner.invoke(
        cli.app, ["evaluate", str(labels), str(sparse / "dense"), "--out", str(scores)]
    )
    assert scored.exit_code == 0, scored.output
    rows = json.loads(scores.read_text())["cases"]
    assert len(rows) == 6
    assert all(row["dice"] == 1.0 for row in rows)


def test_check_lists_each_fault_on_a_line_of_its_own_and_exits_2(tmp_path: Path) -> None:
    dataset = write_phantoms(tmp_path / "dense", training=2, test=0, shape=(32, 32, 16))
    sparse = tmp_path / "sparse"
    twoslice.simulate(dataset, sparse, labeled=2)
    from twoslice.io.scans import read_label_map, write_labels

    for case in ("scan_00", "scan_01"):
        path = sparse / "labelsTr" / f"{case}.nii.gz"
        labels = read_label_map(path)
        write_labels(path, np.zeros(labels.shape, dtype=np.uint8), labels.grid)
    done = run("check", sparse)
    assert done.returncode == 2
    faults = [line for line in done.stderr.splitlines() if line.startswith("error: case scan_0")]
    assert len(faults) >= 2


def test_the_verbs_are_functions_of_the_package() -> None:
    from twoslice.evaluation.evaluate import evaluate

    assert twoslice.evaluate is evaluate
    assert callable(twoslice.simulate)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = twoslice.nonsense
