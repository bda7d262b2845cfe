"""The journal of a run: `metrics.csv`, a row a logged step; pictures; and both for TensorBoard."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image

from twoslice.io import atomic
from twoslice.training.pictures import Pixels
from twoslice.training.sinks import Sink

PICTURES = "pictures"


class Journal:
    """Gathers the figures between two logged steps, and writes their means.

    When a training resumes, rows from beyond its checkpoint go: they are about to be made again.
    `notes` are the figures since the last row, which the checkpoint keeps. Without a folder
    nothing is written: of several processes, one keeps the journal.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        start: int,
        notes: Mapping[str, Sequence[float]] | None = None,
        sinks: Sequence[Sink] = (),
    ) -> None:
        self.folder, self._sinks = folder, sinks
        self.rows = [row for row in read_metrics(folder) if row["step"] <= start] if folder else []
        self.notes = {name: list(values) for name, values in (notes or {}).items()}

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for sink in self._sinks:
            sink.close(whole=error is None)

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
        for sink in self._sinks:
            sink.figures(step, row)

    def show(self, step: int, pixels: Pixels) -> None:
        """A picture of what the networks see at this step."""
        if self.folder is not None:
            with atomic.whole_file(self.folder / PICTURES / f"step-{step:06d}.png") as scratch:
                Image.fromarray(pixels).save(scratch, optimize=True)
        for sink in self._sinks:
            sink.picture(step, pixels)

    def flush(self) -> None:
        """Bring the rows to the disk."""
        if self.folder is not None:
            atomic.write_text(self.folder / "metrics.csv", _to_csv(self.rows))
        for sink in self._sinks:
            sink.flush()


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
