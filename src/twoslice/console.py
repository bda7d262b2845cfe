"""Small words between a person and the commands: lists typed with commas, tables in plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twoslice.errors import SettingsError


def words(text: str | None) -> list[str] | None:
    """`a,b` as its words; None stays None."""
    if text is None:
        return None
    found = [word.strip() for word in text.split(",")]
    if not all(found):
        raise SettingsError(f"'{text}': expected names with commas between them, as in a,b.")
    return found


def millimetres(text: str | None) -> tuple[float, float, float] | None:
    """`0.6,0.6,1.2` as three positive numbers; None stays None."""
    if text is None:
        return None
    try:
        i, j, k = (float(word) for word in text.split(","))
    except ValueError:
        i = j = k = 0.0
    if not 0 < min(i, j, k) <= max(i, j, k) < float("inf"):
        raise SettingsError(f"--spacing {text}: expected three positive numbers, as in 0.6,0.6,1.2")
    return i, j, k


def align(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text as lines: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def align_rows(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows with named values as an aligned table; what a row lacks is `-`, numbers are short."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    return align([names, *cells]) if names else ""


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
