"""The command over many runs."""

from __future__ import annotations

import typer

from twoslice import options as o
from twoslice.progress import for_stderr


def study(
    file: o.StudyFile,
    out: o.OutFolder,
    data: o.DataFolder = None,
    assign: o.Assignments = None,
    retry: o.Retry = False,
    engine: o.EngineName = None,
    workers: o.Workers = None,
    memory: o.WorkerMemory = None,
    scheduler: o.Scheduler = None,
    cluster: o.ClusterName = None,
) -> None:
    """Make a grid of runs into tables and figures.

    FILE is a study file, or the name of a shipped one. What is finished is kept: a study that was
    stopped goes on where it was.
    """
    from twoslice.engines.choose import EngineOptions
    from twoslice.studies.study import run_study

    result = run_study(
        file,
        out,
        data=data,
        assignments=assign or (),
        retry=retry,
        progress=for_stderr(),
        engine=EngineOptions(engine, workers, memory, scheduler, cluster),
    )
    typer.echo((out / "table.md").read_text(encoding="utf-8"))
    typer.echo(f"{out}: {len(result.finished)} runs; table.md, table.csv, table.tex, runs.csv.")
