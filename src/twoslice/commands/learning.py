"""Commands that learn: from drawn slices to label views, from label views to networks."""

from __future__ import annotations

import typer

from twoslice import options as o
from twoslice.console import align_rows
from twoslice.memory import bounded, parse_bytes
from twoslice.progress import for_stderr


def propagate(
    dataset: o.DatasetFolder,
    registrar: o.RegistrarName = None,
    settings: o.SettingsFile = None,
    assign: o.Assignments = None,
    engine: o.EngineName = None,
    workers: o.Workers = None,
    memory: o.WorkerMemory = None,
    scheduler: o.Scheduler = None,
    cluster: o.ClusterName = None,
) -> None:
    """Carry the drawn slices through their scans.

    Makes a dense pseudo label a plane (a label view), with its quality, in DATASET/propagated.
    """
    from twoslice.engines.choose import EngineOptions
    from twoslice.io.dataset import Dataset
    from twoslice.propagation import dataset as stage
    from twoslice.settings import load_settings

    more = [f"propagation.registrar={registrar}"] if registrar else []
    loaded = load_settings(file=settings, assignments=[*(assign or ()), *more])
    try:
        summary = stage.propagate_dataset(
            Dataset.open(dataset),
            settings=loaded.propagation,
            progress=for_stderr(),
            engine=EngineOptions(engine, workers, memory, scheduler, cluster),
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
    devices: o.Devices = None,
    nodes: o.Nodes = None,
    memory: o.WorkerMemory = None,
) -> None:
    """Train networks on a dataset and its label views.

    On several devices, the command starts a process each; on several machines, torchrun does.
    """
    from twoslice.io.dataset import Dataset
    from twoslice.settings import load_settings
    from twoslice.training.devices import started_by_torchrun
    from twoslice.training.loop import train as run

    if not resume and devices is None and nodes is None:
        devices, nodes = started_by_torchrun() or (None, None)
    named = [("training.devices", devices), ("training.nodes", nodes)]
    more = [f"{name}={value}" for name, value in named if value is not None]
    loaded = None  # a bare --resume goes on under the settings of the run
    if not resume or preset or settings or assign or method or more:
        loaded = load_settings(
            preset=preset, file=settings, assignments=[*(assign or ()), *more], method=method
        )
    with bounded(None if memory is None else parse_bytes(memory)):
        made = run(Dataset.open(dataset), out, loaded, resume=resume, progress=for_stderr())
    typer.echo(
        f"{out}: trained with {made.settings.method}.\nNext: twoslice predict {out} SCANS --out DIR"
    )
