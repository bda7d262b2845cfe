"""The journal of a run: `metrics.csv`, a row a logged step, and the same for TensorBoard."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from twoslice.io import atomic


class Journal:
    """Gathers the figures between two logged steps, and writes their means.

    When a training resumes, rows from beyond its checkpoint go: they are about to be made again.
    `notes` are the figures since the last row, which the checkpoint keeps.
    """

    def __init__(
        self, folder: Path, *, start: int, notes: Mapping[str, Sequence[float]] | None = None
    ) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.path = folder / "metrics.csv"
        self.rows = [row for row in read_metrics(folder) if row["step"] <= start]
        self.notes = {name: list(values) for name, values in (notes or {}).items()}
        self._events = SummaryWriter(str(folder), purge_step=start + 1)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._events.close()

    def note(self, **figures: float) -> None:
        """Figures of one step."""
        for name, value in figures.items():
            if not math.isnan(value):
                self.notes.setdefault(name, []).append(value)

    def log(self, step: int, **now: float) -> None:
        """Write the means since the last logged step, and the figures of `now`, as one row."""
        means = {name: sum(values) / len(values) for name, values in self.notes.items()}
        self.notes.clear()
        row = {"step": float(step), **means, **now}
        self.rows.append(row)
        for name, value in row.items():
            self._events.add_scalar(name, value, step)

    def flush(self) -> None:
        """Bring the rows to the disk."""
        atomic.write_text(self.path, _to_csv(self.rows))
        self._events.flush()


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """The rows of `metrics.csv`; figures that a row lacks are left out of it."""
    path = folder / "metrics.csv"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {name: float(value) for name, value in row.items() if value}
            for row in csv.DictReader(file)
        ]


def _to_csv(rows: Sequence[Mapping[str, float]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: f"{value:.7g}" for name, value in row.items()})
    return text.getvalue()
