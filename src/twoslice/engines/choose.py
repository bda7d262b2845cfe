"""Which engine the options name, and the lines for options that do not go together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from twoslice.engines.here import Here
from twoslice.engines.jobs import Engine, in_worker
from twoslice.engines.local import LocalEngine, usable_cores
from twoslice.errors import SettingsError
from twoslice.memory import parse_bytes
from twoslice.progress import Progress, Silent

EngineName = Literal["local", "dask"]


@dataclass(frozen=True)
class EngineOptions:
    """What the command line can say about where jobs run.

    Args:
        engine: `local` or `dask`; `dask` if a scheduler or a cluster is named.
        workers: how many jobs at once; one a core of this machine if unsaid.
        memory: the most that a worker may take, as in `8GB`.
        scheduler: the address of a Dask scheduler that runs already.
        cluster: a kind of batch system that starts the workers (`slurm`), or a YAML file.
    """

    engine: EngineName | None = None
    workers: int | None = None
    memory: str | None = None
    scheduler: str | None = None
    cluster: str | None = None

    @property
    def on_dask(self) -> bool:
        """Whether a Dask cluster runs the jobs."""
        return self.engine == "dask" or (self.scheduler or self.cluster) is not None


def open_engine(
    options: EngineOptions | None = None,
    *,
    jobs: int | None = None,
    isolated: bool = False,
    shared: Path | None = None,
    progress: Progress | None = None,
) -> Engine:
    """The engine that the options name, to be used as a context.

    `jobs` is how many there are: no more workers are started. A single local worker is this
    process, unless the jobs are to be `isolated` from it (a run of hours that may be killed).
    `shared` is a folder that the jobs write to, which every worker must see.
    """
    options = options or EngineOptions()
    _refuse_useless(options)
    memory = None if options.memory is None else parse_bytes(options.memory)
    if options.on_dask:
        return _open_dask(options, memory, shared, progress or Silent())
    workers = options.workers or (1 if in_worker() else usable_cores())
    workers = max(1, workers if jobs is None else min(workers, jobs))
    if workers == 1 and not isolated:
        return Here(memory)
    return LocalEngine(workers, memory=memory)


def _open_dask(
    options: EngineOptions, memory: int | None, shared: Path | None, progress: Progress
) -> Engine:
    from twoslice.engines import clusters

    if options.scheduler is not None:
        engine = clusters.connect(options.scheduler, memory=memory, say=progress.say)
    elif options.cluster is not None:
        logs = shared.resolve() / "logs" if shared is not None else None
        engine = clusters.start_batch(
            options.cluster, options.workers, memory=memory, say=progress.say, logs=logs
        )
    else:
        engine = clusters.start_here(options.workers, memory=memory, say=progress.say)
    try:
        if shared is not None:
            engine.require(shared.resolve())
    except BaseException:
        engine.close()
        raise
    return engine


def _refuse_useless(options: EngineOptions) -> None:
    if options.engine == "local" and (options.scheduler or options.cluster):
        named = "--scheduler" if options.scheduler else "--cluster"
        raise SettingsError(f"{named} is for --engine dask. Leave it out, or use that engine.")
    if options.scheduler and options.cluster:
        raise SettingsError(
            "--scheduler names a scheduler that runs, --cluster starts one. Leave one of them out."
        )
