"""The command that does everything, unattended."""

from __future__ import annotations

import typer

from twoslice import options as o
from twoslice.progress import for_stderr


def run(
    dataset: o.DatasetFolder,
    out: o.OutFolder,
    predict: o.MoreScans = None,
    labels: o.ScoringLabels = None,
    method: o.MethodName = None,
    preset: o.Preset = None,
    settings: o.SettingsFile = None,
    assign: o.Assignments = None,
) -> None:
    """Check, propagate, train, predict every scan, report.

    Unattended: broken scans are set aside with their reason, and the same command goes on where
    it was stopped.
    """
    from twoslice.pipeline.run import PRESET, run_pipeline
    from twoslice.settings import load_settings

    loaded = load_settings(
        preset=preset or (PRESET if settings is None else None),
        file=settings,
        assignments=assign or (),
        method=method,
    )
    made = run_pipeline(
        dataset, out, loaded, more=predict or (), labels=labels, progress=for_stderr()
    )
    typer.echo(made.in_words())
