"""Commands that learn: from drawn slices to label views, from label views to networks."""

from __future__ import annotations

import typer

from twoslice import options as o
from twoslice.console import align_rows
from twoslice.progress import for_stderr


def propagate(
    dataset: o.DatasetFolder,
    registrar: o.RegistrarName = None,
    settings: o.SettingsFile = None,
    assign: o.Assignments = None,
) -> None:
    """Carry the drawn slices through their scans.

    Makes a dense pseudo label a plane (a label view), with its quality, in DATASET/propagated.
    """
    from twoslice.io.dataset import Dataset
    from twoslice.propagation import dataset as stage
    from twoslice.settings import load_settings

    more = [f"propagation.registrar={registrar}"] if registrar else []
    loaded = load_settings(file=settings, assignments=[*(assign or ()), *more])
    try:
        summary = stage.propagate_dataset(
            Dataset.open(dataset), settings=loaded.propagation, progress=for_stderr()
        )
    except stage.PropagationPartialError as error:
        typer.echo(align_rows(stage.summary_table(error.summary)))
        raise
    typer.echo(align_rows(stage.summary_table(summary)))
    typer.echo(f"{dataset / 'propagated'}: label views.\nNext: twoslice train {dataset} --out RUN")


def train(
    dataset: o.DatasetFolder,
    out: o.OutRun,
    method: o.MethodName = None,
    preset: o.Preset = None,
    settings: o.SettingsFile = None,
    assign: o.Assignments = None,
    resume: o.Resume = False,
) -> None:
    """Train networks on a dataset and its label views."""
    from twoslice.io.dataset import Dataset
    from twoslice.settings import load_settings
    from twoslice.training.loop import train as run

    loaded = None  # a bare --resume goes on under the settings of the run
    if not resume or preset or settings or assign or method:
        loaded = load_settings(
            preset=preset, file=settings, assignments=assign or (), method=method
        )
    made = run(Dataset.open(dataset), out, loaded, resume=resume, progress=for_stderr())
    typer.echo(
        f"{out}: trained with {made.settings.method}.\nNext: twoslice predict {out} SCANS --out DIR"
    )
