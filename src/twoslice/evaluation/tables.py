"""An evaluation as tables: plain text for the terminal, CSV with every row, and Markdown or LaTeX
in the columns of the field's papers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twoslice.console import align
from twoslice.errors import SettingsError
from twoslice.evaluation.evaluate import Evaluation
from twoslice.io import atomic

# Heading, metric, factor, decimals. Overlaps are shown in percent, as papers show them.
COLUMNS = (
    ("Dice", "dice", 100.0, 1),
    ("Jaccard", "jaccard", 100.0, 1),
    ("HD95 mm", "hd95_mm", 1.0, 2),
    ("ASD mm", "asd_mm", 1.0, 2),
    ("NSD", "nsd", 100.0, 1),
)
# The paper's: Dice, Jaccard, HD and ASD, the last two in voxels.
PAPER = (
    ("Dice (%)", "dice", 100.0, 2),
    ("Jaccard (%)", "jaccard", 100.0, 2),
    ("HD95 (voxel)", "hd95_voxel", 1.0, 2),
    ("ASD (voxel)", "asd_voxel", 1.0, 2),
    ("HD95 (mm)", "hd95_mm", 1.0, 2),
    ("ASD (mm)", "asd_mm", 1.0, 2),
)
TABLES = (".md", ".tex")
_LATEX = {sign: f"\\{sign}" for sign in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def summary_table(evaluation: Evaluation) -> str:
    """Mean ± standard deviation over cases, a row a label and one over all; then the interval of
    the mean Dice, and a line for every mask that was empty.
    """
    rows = [["label", *(heading for heading, *_ in COLUMNS)]]
    rows += [
        [name, *(_cell(group, *column[1:]) for column in COLUMNS)]
        for name, group in _groups(evaluation).items()
    ]
    notes = [
        f"note: case {entry['case']}, {entry['label']}: {entry['flag']}."
        for entry in evaluation.summary["flagged"]
    ]
    interval = evaluation.summary["overall"]["dice"].get("interval")
    if interval is not None:
        low, high = (100 * end for end in interval)
        notes.insert(0, f"mean Dice, 95 % bootstrap interval: {low:.1f} to {high:.1f}")
    return "\n".join([align(rows), *notes])


def csv_table(evaluation: Evaluation) -> str:
    """Every row and every figure, a line a case and label."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(evaluation.cases[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(evaluation.cases)
    return stream.getvalue()


def markdown_table(evaluation: Evaluation) -> str:
    """Mean ± standard deviation in the paper's columns, for Markdown."""
    return as_markdown(_paper_rows(evaluation, "±"))


def latex_table(evaluation: Evaluation) -> str:
    """Mean ± standard deviation in the paper's columns, for LaTeX with booktabs."""
    return as_latex(_paper_rows(evaluation, r"$\pm$"))


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells, the heads first, as a Markdown table."""
    cells = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    marks = ["---", *["---:"] * (len(rows[0]) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (cells[0], marks, *cells[1:])) + "\n"


def as_latex(rows: Sequence[Sequence[str]], *, text: int = 1) -> str:
    """Rows of cells, the heads first, for LaTeX with booktabs; the first `text` columns are words,
    the others figures, which may hold LaTeX of their own.
    """
    head, *body = rows
    told = [[*map(_escaped, row[:text]), *row[text:]] for row in body]
    lines = [" & ".join(row) + r" \\" for row in ([*map(_escaped, head)], *told)]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{'l' * text}{'r' * (len(head) - text)}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def write_csv(evaluation: Evaluation, path: Path) -> None:
    """Write every row as CSV, whole or not at all."""
    atomic.write_text(path, csv_table(evaluation))


def write_table(evaluation: Evaluation, path: Path) -> None:
    """Write the paper's table as Markdown or LaTeX, as the ending says."""
    refuse_other_ending(path)
    make = markdown_table if path.suffix.lower() == ".md" else latex_table
    atomic.write_text(path, make(evaluation))


def refuse_other_ending(path: Path, option: str = "--table") -> None:
    """A table file is Markdown or LaTeX, scores are JSON, rows are CSV. Whoever names a label map
    here by mistake would otherwise lose it.
    """
    endings = {"--table": TABLES, "--out": (".json",), "--csv": (".csv",)}[option]
    if path.suffix.lower() not in endings:
        raise SettingsError(
            f"{option} {path}: expected a name that ends in {' or '.join(endings)}."
        )


def _groups(evaluation: Evaluation) -> dict[str, Any]:
    groups = dict(evaluation.summary["labels"])
    if len(groups) > 1:
        groups["mean of labels"] = evaluation.summary["overall"]
    return groups


def _paper_rows(evaluation: Evaluation, sign: str) -> list[list[str]]:
    return [
        ["label", *(heading for heading, *_ in PAPER)],
        *(
            [name, *(_cell(group, *column[1:], sign=sign) for column in PAPER)]
            for name, group in _groups(evaluation).items()
        ),
    ]


def _cell(group: dict[str, Any], metric: str, factor: float, decimals: int, sign: str = "±") -> str:
    mean, deviation = (group[metric][key] * factor for key in ("mean", "std"))
    return f"{mean:.{decimals}f} {sign} {deviation:.{decimals}f}"


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)
