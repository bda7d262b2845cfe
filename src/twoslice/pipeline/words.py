"""What a run says: at its start what it will do and for how long, at its end what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from twoslice.evaluation.verdict import Verdict
from twoslice.io.dataset import Dataset
from twoslice.pipeline.folds import Fold
from twoslice.pipeline.forecast import STEPS, Pace
from twoslice.pipeline.record import Record
from twoslice.progress import in_words
from twoslice.settings import Settings
from twoslice.training.planner import Plan
from twoslice.training.run import Run


def opening(
    out: Path,
    data: Dataset,
    scans: int,
    settings: Settings,
    plan: Plan,
    folds: Sequence[Fold],
    pace: Pace | None,
    record: Record,
) -> list[str]:
    """The lines before the long part."""
    aside = f"; {len(record.aside)} set aside" if record.aside else ""
    lines = [
        f"{data.name}: {len(data.labeled)} scans with drawn slices and {len(data.unlabeled)} "
        f"without to train on, {scans} to predict{aside}.",
        plan.why,
    ]
    each = f" and {len(folds)} shorter trainings that judge it" if folds else ""
    if pace is None:
        lines.append(f"Trained already; what is left is predicting and the report, in {out}.")
        return lines
    train = pace.training(settings, plan, done=_done(out / "run"))
    judged = sum(
        pace.training(fold.settings, plan.model_copy(update=_length(fold)), done=_done(fold.folder))
        for fold in folds
    )
    total = train + judged + pace.predicting * scans
    lines.append(
        f"Ahead: one training ({in_words(train)}){each}"
        + (f" ({in_words(judged)})" if folds else "")
        + f", {scans} scans ({in_words(pace.predicting * scans)}), the report. About "
        f"{in_words(total)} in all, by the pace of {STEPS} steps on this machine just now."
    )
    lines.append(f"Everything goes to {out}. Stopped, the same command goes on from there.")
    return lines


def _length(fold: Fold) -> dict[str, Any]:
    iterations = fold.settings.training.iterations
    return {} if iterations is None else {"iterations": iterations}


def _done(folder: Path) -> int:
    if not (folder / "settings.yaml").is_file():
        return 0
    run = Run.open(folder)
    return run.step if run.has_checkpoint else 0


def ending(
    out: Path, page: Path, verdict: Verdict, aside: Mapping[str, Mapping[str, Any]], predicted: int
) -> str:
    """The last lines: what was made, how far to trust it, what to look at first."""
    lines = [f"\n{out}: {predicted} label maps in {out / 'predictions'}. {verdict.in_words()}"]
    if aside:
        lines.append(f"Set aside, {len(aside)}:")
        lines += [f"  {case}: {entry['reason']}" for case, entry in sorted(aside.items())]
    lines.append("Look at these first:")
    lines += [
        f"  {row.case}: predicted Dice {100 * row.dice:.0f} ({row.why})"
        for row in verdict.scans[:5]
    ]
    if verdict.draw is not None:
        lines.append(f"Draw next: {verdict.draw.in_words()}")
    lines.append(f"Open {page} in a browser.")
    return "\n".join(lines)
