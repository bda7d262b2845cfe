"""Where a run's figures and pictures go beside its own files: TensorBoard, and MLflow if asked."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from twoslice.errors import SettingsError
from twoslice.io import atomic
from twoslice.progress import Progress
from twoslice.settings import Settings
from twoslice.training.pictures import Pixels


class Sink(Protocol):
    """Takes what the journal gathers."""

    def figures(self, step: int, row: Mapping[str, float]) -> None:
        """The figures of a logged step."""

    def picture(self, step: int, pixels: Pixels) -> None:
        """What the networks see at this step (H, W, 3)."""

    def flush(self) -> None:
        """A checkpoint follows: bring everything to where it lasts."""

    def close(self, *, whole: bool) -> None:
        """The training ends, or stops before its end."""


class TensorBoard:
    """Event files in the run folder."""

    def __init__(self, folder: Path, *, start: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._events = SummaryWriter(str(folder), purge_step=start + 1)

    def figures(self, step: int, row: Mapping[str, float]) -> None:
        """A scalar each."""
        for name, value in row.items():
            self._events.add_scalar(name, value, step)

    def picture(self, step: int, pixels: Pixels) -> None:
        """The picture under `networks`."""
        self._events.add_image("networks", pixels, step, dataformats="HWC")

    def flush(self) -> None:
        """Write the events out."""
        self._events.flush()

    def close(self, *, whole: bool) -> None:
        """End the event file."""
        self._events.close()


class MLflow:
    """A run on an MLflow server, or in a database in a folder; a resumed training goes on in it.

    Figures are sent when a checkpoint is written, so that a killed training sends none twice. A
    server that stops answering stops nothing: that is said once, and the training goes on.
    """

    def __init__(self, where: str, run: Path, settings: Settings, progress: Progress) -> None:
        self._client, self._where, self._progress = open_mlflow(where), where, progress
        self._waiting: list[tuple[int, Mapping[str, float]]] = []
        record = run / "mlflow.json"
        try:
            if record.is_file():
                self._run = str(json.loads(record.read_text(encoding="utf-8"))["run"])
                self._client.update_run(self._run, status="RUNNING")
            else:
                self._run = self._begin(run.resolve().name, settings)
                atomic.write_json(record, {"server": where, "run": self._run})
        except Exception as error:  # MLflow, its store and HTTP have errors of their own
            raise _unreachable(where, error) from None

    def figures(self, step: int, row: Mapping[str, float]) -> None:
        """Keep the row until the next checkpoint."""
        self._waiting.append((step, row))

    def picture(self, step: int, pixels: Pixels) -> None:
        """Pictures stay in the run folder: servers differ in where they keep files."""

    def flush(self) -> None:
        """Send the rows that are waiting."""
        self._try(self._send)

    def close(self, *, whole: bool) -> None:
        """Say how the training ended."""
        status = "FINISHED" if whole else "KILLED"
        self._try(lambda: self._client.set_terminated(self._run, status=status))

    def _begin(self, name: str, settings: Settings) -> str:
        found = self._client.get_experiment_by_name("twoslice")
        experiment = found.experiment_id if found else self._client.create_experiment("twoslice")
        run: str = self._client.create_run(experiment, run_name=name).info.run_id
        for key, value in settings.named_values().items():
            self._client.log_param(run, key, value)
        return run

    def _send(self) -> None:
        now = int(1000 * time.time())
        for step, row in self._waiting:
            for name, value in row.items():
                self._client.log_metric(self._run, name, value, timestamp=now, step=step)
        self._waiting.clear()

    def _try(self, act: Any) -> None:
        if self._client is None:
            return
        try:
            act()
        except Exception as error:  # whatever it is: a training is worth more than its log
            self._client = None
            self._progress.say(f"{_unreachable(self._where, error)} Training goes on without it.")


def open_sinks(
    folder: Path, settings: Settings, *, start: int, progress: Progress
) -> tuple[Sink, ...]:
    """The sinks that the settings ask for."""
    sinks: tuple[Sink, ...] = (TensorBoard(folder, start=start),)
    if settings.training.mlflow is not None:
        sinks = (*sinks, MLflow(settings.training.mlflow, folder, settings, progress))
    return sinks


def open_mlflow(where: str) -> Any:
    """A client of MLflow, or one line that says what is missing. A path becomes a database in
    that folder: MLflow itself no longer writes plain files.
    """
    try:
        from mlflow.tracking import MlflowClient
    except ImportError:
        raise SettingsError(
            f"training.mlflow = {where}: the package mlflow is not installed. Install it with "
            f"pip install 'twoslice[mlflow]', or leave the setting out."
        ) from None
    address = where
    if "://" not in where and where != "databricks":
        folder = Path(where).expanduser().resolve()
        folder.mkdir(parents=True, exist_ok=True)
        address = f"sqlite:///{folder / 'mlflow.db'}"
    try:
        return MlflowClient(address)
    except Exception as error:  # as above
        raise _unreachable(where, error) from None


def _unreachable(where: str, error: Exception) -> SettingsError:
    detail = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return SettingsError(
        f"training.mlflow = {where}: MLflow cannot log there ({detail}). Check the address."
    )
