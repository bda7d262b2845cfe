"""MLflow: what is sent, when, and that a log never costs a training. The package itself is not
needed here: its client is stood in for by one that remembers.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from training import tiny
from twoslice.cli import main
from twoslice.errors import SettingsError
from twoslice.io.dataset import Dataset
from twoslice.progress import Silent
from twoslice.settings import Settings
from twoslice.training.journal import read_metrics
from twoslice.training.loop import train
from twoslice.training.sinks import MLflow


class Server:
    """What a tracking server would hold."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.metrics: list[tuple[str, str, float, int]] = []
        self.params: dict[str, Any] = {}
        self.status: list[str] = []
        self.runs = 0
        self.down = False

    def client(self, address: str) -> Client:
        self.addresses.append(address)
        return Client(self)


class Client:
    def __init__(self, server: Server) -> None:
        self.server = server

    def get_experiment_by_name(self, name: str) -> None:
        self._reach()

    def create_experiment(self, name: str) -> str:
        return name

    def create_run(self, experiment: str, run_name: str) -> SimpleNamespace:
        self.server.runs += 1
        return SimpleNamespace(info=SimpleNamespace(run_id=f"{experiment}/{run_name}"))

    def update_run(self, run: str, status: str) -> None:
        self.server.status.append(status)

    def log_param(self, run: str, key: str, value: Any) -> None:
        self.server.params[key] = value

    def log_metric(self, run: str, key: str, value: float, *, timestamp: int, step: int) -> None:
        self._reach()
        self.server.metrics.append((run, key, value, step))

    def set_terminated(self, run: str, status: str) -> None:
        self._reach()
        self.server.status.append(status)

    def _reach(self) -> None:
        if self.server.down:
            raise ConnectionError("no answer\nand a long story")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    package, tracking = ModuleType("mlflow"), ModuleType("mlflow.tracking")
    tracking.MlflowClient = made.client  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlflow", package)
    monkeypatch.setitem(sys.modules, "mlflow.tracking", tracking)
    return made


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return tiny.make_dataset(tmp_path / "data")


def settings(**training: Any) -> Settings:
    return tiny.settings("supervised", mlflow="http://host:5000", **training)


def test_a_run_and_its_resumption_send_every_row_once_to_one_mlflow_run(
    server: Server, dataset: Dataset, tmp_path: Path
) -> None:
    train(dataset, tmp_path / "run", settings(iterations=22, checkpoint_every=10))
    train(dataset, tmp_path / "run", resume=True)
    rows = read_metrics(tmp_path / "run")
    expected = [("twoslice/run", name, int(row["step"])) for row in rows for name in row]
    assert [(run, name, step) for run, name, _, step in server.metrics] == expected
    assert server.runs == 1
    assert server.params["training.iterations"] == 22
    assert server.status == ["FINISHED", "RUNNING", "FINISHED"]
    assert set(server.addresses) == {"http://host:5000"}


def test_a_folder_becomes_a_database_in_it(server: Server, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    MLflow(str(tmp_path / "log"), tmp_path / "run", settings(), Silent())
    assert server.addresses == [f"sqlite:///{tmp_path / 'log' / 'mlflow.db'}"]


def test_a_server_that_stops_answering_is_told_once_and_the_training_goes_on(
    server: Server, tmp_path: Path
) -> None:
    class Told(Silent):
        lines: list[str] = []  # noqa: RUF012

        def say(self, line: str) -> None:
            self.lines.append(line)

    (tmp_path / "run").mkdir()
    sink = MLflow("http://host:5000", tmp_path / "run", settings(), Told())
    server.down = True
    for step in (10, 20):
        sink.figures(step, {"loss": 1.0})
        sink.flush()
    sink.close(whole=True)
    assert len(Told.lines) == 1
    assert "no answer" in Told.lines[0]
    assert "goes on without it" in Told.lines[0]


def test_a_server_that_never_answers_stops_the_training_before_it_starts(
    server: Server, dataset: Dataset, tmp_path: Path
) -> None:
    server.down = True
    with pytest.raises(SettingsError, match=r"http://host:5000.*\(no answer\).*Check the address"):
        train(dataset, tmp_path / "run", settings())


def test_without_the_package_one_line_names_the_extra_and_nothing_is_written(
    dataset: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "mlflow.tracking", None)
    out = tmp_path / "run"
    with pytest.raises(SystemExit) as ended:
        main(["train", str(dataset.root), "--out", str(out), "--set", "training.mlflow=runs"])
    assert ended.value.code == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert "pip install 'twoslice[mlflow]'" in said[0]
    assert not out.exists()
