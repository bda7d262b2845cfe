"""From options to a Dask client: a scheduler's address, workers of this machine, or a batch
system (SLURM, PBS, …) that starts them through dask-jobqueue.
"""

from __future__ import annotations

import asyncio
import difflib
import importlib.util
import inspect
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twoslice.engines.dask import CONNECT_SECONDS, CORES, GPU, MEMORY, DaskEngine
from twoslice.engines.local import usable_cores, usable_gpus
from twoslice.errors import EngineError, SettingsError
from twoslice.memory import available_memory
from twoslice.settings import read_yaml

KINDS = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "sge": "SGECluster",
    "lsf": "LSFCluster",
    "oar": "OARCluster",
    "htcondor": "HTCondorCluster",
    "moab": "MoabCluster",
}
"""Batch systems, and the class of dask-jobqueue that speaks to each."""

Say = Callable[[str], None]


def connect(address: str, *, memory: int | None = None, say: Say | None = None) -> DaskEngine:
    """An engine on a scheduler that runs already."""
    _require("distributed", "--scheduler")
    from distributed import Client

    _quieten()
    try:
        asyncio.run(_knock(address))
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, TimeoutError) as error:
        said = str(error).splitlines()
        detail = said[0] if said else f"nothing came within {CONNECT_SECONDS:g} s"
        raise EngineError(
            f"--scheduler {address}: no Dask scheduler answers there ({detail}). Start one with "
            f"'dask scheduler', and name the address that it prints."
        ) from None
    return DaskEngine(client, memory=memory, say=say)


async def _knock(address: str) -> None:
    """Ask whoever listens there who it is: a client would wait for ever for one that is silent."""
    from distributed.core import rpc

    async with rpc(address, timeout=CONNECT_SECONDS) as scheduler:
        await asyncio.wait_for(scheduler.identity(), CONNECT_SECONDS)


def start_here(
    workers: int | None, *, memory: int | None = None, say: Say | None = None
) -> DaskEngine:
    """An engine on a scheduler and workers of this machine, on the loopback alone."""
    _require("distributed", "--engine dask")
    import dask
    from distributed import Client, LocalCluster

    _quieten()
    count = workers or usable_cores()
    each = memory or available_memory() // count
    resources = {
        GPU: len(usable_gpus()) // count,
        MEMORY: each,
        CORES: max(1, usable_cores() // count),
    }
    # A job may start processes of its own (ANTs does), which a daemon may not.
    with dask.config.set({"distributed.worker.daemon": False}):
        cluster = LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=0,  # the jobs keep to theirs; Dask would pause a worker for good
            resources=resources,
            silence_logs=logging.CRITICAL,
        )
    client = Client(cluster, set_as_default=False)
    client.register_plugin(_own_gpus(usable_gpus(), count), name="own-gpus")
    return DaskEngine(client, cluster, memory=memory, say=say)


def _own_gpus(gpus: tuple[str, ...], workers: int) -> Any:
    """What gives each of so many workers its own GPUs, also when it is started again."""
    from distributed.diagnostics.plugin import WorkerPlugin

    each = len(gpus) // workers

    class OwnGpus(WorkerPlugin):  # type: ignore[misc]
        def setup(self, worker: Any) -> None:
            place = int(worker.name) * each
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[place : place + each])

    return OwnGpus()


def start_batch(
    named: str,
    workers: int | None,
    *,
    memory: int | None = None,
    say: Say | None = None,
    logs: Path | None = None,
) -> DaskEngine:
    """An engine on workers that a batch system starts: `named` is its kind, or a YAML file with
    one kind and its settings. What the workers print goes to `logs`, unless the settings say
    where.
    """
    _require("dask_jobqueue", "--cluster")
    from distributed import Client

    _quieten()
    kind, settings = read_cluster(named)
    count = workers or 1
    if logs is not None and not {"log-directory", "log_directory"} & settings.keys():
        settings = {**settings, "log_directory": str(logs)}
    cluster = make_batch(kind, settings)
    cluster.scale(jobs=count)
    if say is not None:
        say(f"{kind}: asked for {count} job(s), a worker each; see them with its queue command.")
    return DaskEngine(Client(cluster, set_as_default=False), cluster, memory=memory, say=say)


def make_batch(kind: str, settings: dict[str, Any]) -> Any:
    """The cluster object of dask-jobqueue, with no worker yet; its `job_script()` is what the
    batch system will get.
    """
    import dask_jobqueue

    maker = getattr(dask_jobqueue, KINDS[kind])
    command = maker.job_cls.submit_command.split()[0]
    if shutil.which(command) is None:
        raise EngineError(
            f"--cluster {kind}: this machine has no {command}. Run twoslice where jobs are "
            f"submitted, or name another --cluster."
        )
    wanted = worker_settings(kind, settings)
    _refuse_faults(kind, maker, wanted)
    return maker(**wanted)


def _refuse_faults(kind: str, maker: Any, wanted: dict[str, Any]) -> None:
    """What dask-jobqueue would stumble over half-way, told in a line."""
    import dask

    steps = [step.__init__ for step in (*maker.__mro__, *maker.job_cls.__mro__)]
    known = {name for step in steps for name in inspect.signature(step).parameters}
    for name in wanted.keys() - known:
        close = difflib.get_close_matches(name, known, n=1)
        guess = f"Did you mean '{close[0]}'?" if close else "See dask-jobqueue's manual."
        raise SettingsError(f"--cluster {kind}: no setting is called '{name}'. {guess}")
    for name in ("cores", "memory"):
        if wanted.get(name) is None and dask.config.get(f"jobqueue.{kind}.{name}", None) is None:
            raise SettingsError(
                f"--cluster {kind}: nobody said the {name} of one worker. Put 'cores', 'memory' "
                f"and what your site asks for into a YAML file (docs/cluster.md), and name it "
                f"with --cluster."
            )


def worker_settings(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with what every worker of ours needs: one job at a time, with all the cores
    of its batch job; `gpus` asks the batch system for them and tells Dask.
    """
    given = {name.replace("-", "_"): value for name, value in settings.items()}
    gpus = int(given.pop("gpus", 0))
    cores = int(given.get("cores") or 1)
    arguments = ["--nthreads", "1", "--memory-limit", "0", "--no-dashboard"]
    if gpus:
        arguments += ["--resources", f"{GPU}={gpus}"]
    threads = [f"export {name}={cores}" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")]
    threads += ["export DASK_DISTRIBUTED__WORKER__DAEMON=False"]
    given["processes"] = 1
    given["worker_extra_args"] = [*arguments, *given.get("worker_extra_args", [])]
    given["job_script_prologue"] = [*threads, *given.get("job_script_prologue", [])]
    if gpus and kind == "slurm":
        more = given.get("job_extra_directives", [])
        given["job_extra_directives"] = [f"--gres=gpu:{gpus}", *more]
    given.setdefault("scheduler_options", {}).setdefault("dashboard", False)
    return given


def read_cluster(named: str) -> tuple[str, dict[str, Any]]:
    """The kind of batch system and its settings."""
    if named in KINDS:
        return named, {}
    path = Path(named)
    if path.suffix not in (".yaml", ".yml"):
        raise SettingsError(
            f"--cluster {named}: expected one of {', '.join(KINDS)}, or a YAML file of settings."
        )
    tree = read_yaml(path)
    if len(tree) != 1 or not {*tree} <= {*KINDS}:
        raise SettingsError(
            f"{path}: expected one kind of cluster ({', '.join(KINDS)}), its settings below it."
        )
    [(kind, settings)] = tree.items()
    if settings is not None and not isinstance(settings, dict):
        raise SettingsError(f"{path}: {kind} holds no `name: value` lines. Mend it.")
    return str(kind), dict(settings or {})


def _require(package: str, option: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise EngineError(
            f"{option} needs Dask, which is not installed. Install it with: "
            f"pip install 'twoslice[dask]'"
        )


def _quieten() -> None:
    """What Dask says of itself is for its own people; faults come as our lines."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    logging.getLogger("tornado").setLevel(logging.CRITICAL)
