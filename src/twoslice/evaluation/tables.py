"""An evaluation as a small table in plain text, in the columns that the field's papers use."""

from __future__ import annotations

from typing import Any

from twoslice.console import align
from twoslice.evaluation.evaluate import Evaluation

# Heading, metric, factor, decimals. Overlaps are shown in percent, as papers show them.
COLUMNS = (
    ("Dice", "dice", 100.0, 1),
    ("Jaccard", "jaccard", 100.0, 1),
    ("HD95 mm", "hd95_mm", 1.0, 2),
    ("ASD mm", "asd_mm", 1.0, 2),
    ("NSD", "nsd", 100.0, 1),
)


def summary_table(evaluation: Evaluation) -> str:
    """Mean ± standard deviation over cases, a row a label and one over all; then a line for every
    mask that was empty.
    """
    summary = evaluation.summary
    groups = dict(summary["labels"])
    if len(groups) > 1:
        groups["mean of labels"] = summary["overall"]
    rows = [["label", *(heading for heading, *_ in COLUMNS)]]
    rows += [
        [name, *(_cell(group, *column[1:]) for column in COLUMNS)] for name, group in groups.items()
    ]
    notes = [
        f"note: case {entry['case']}, {entry['label']}: {entry['flag']}."
        for entry in summary["flagged"]
    ]
    return "\n".join([align(rows), *notes])


def _cell(group: dict[str, Any], metric: str, factor: float, decimals: int) -> str:
    mean, deviation = (group[metric][key] * factor for key in ("mean", "std"))
    return f"{mean:.{decimals}f} ± {deviation:.{decimals}f}"
