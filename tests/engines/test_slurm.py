"""What SLURM gets to see; and, where a SLURM answers, the same files through it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from engines import work
from twoslice.engines import clusters
from twoslice.engines.choose import EngineOptions, open_engine
from twoslice.engines.jobs import Job
from twoslice.errors import EngineError, SettingsError

pytest.importorskip("dask_jobqueue")

ROOT = Path(__file__).parents[2]
# Of sbatch's manual: those that take a value, by their short and long names.
KNOWN = {"-J", "-e", "-o", "-p", "-A", "-n", "-t", "--cpus-per-task", "--mem", "--gres"}


@pytest.fixture
def sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine where jobs can be submitted, as far as anybody asks."""
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


@pytest.mark.slow
@pytest.mark.usefixtures("sbatch")
def test_the_job_script_asks_slurm_for_one_worker_with_all_its_cores_and_gpus() -> None:
    kind, settings = clusters.read_cluster(str(ROOT / "configs" / "clusters" / "slurm.yaml"))
    cluster = clusters.make_batch(kind, {**settings, "interface": "lo"})
    try:
        script = cluster.job_script()
    finally:
        cluster.close()
    lines = script.splitlines()
    assert lines[0].startswith("#!")
    directives = dict(
        re.fullmatch(r"#SBATCH (--?[a-z-]+|-[A-Z])[ =](\S+)", line).groups()  # type: ignore[union-attr]
        for line in lines
        if line.startswith("#SBATCH")
    )
    assert {*directives} <= KNOWN
    assert directives["-n"] == "1"
    assert directives["--cpus-per-task"] == str(settings["cores"])
    assert directives["--gres"] == f"gpu:{settings['gpus']}"
    assert re.fullmatch(r"\d+[KMG]", directives["--mem"])
    assert re.fullmatch(r"\d\d:\d\d:\d\d", directives["-t"])
    # Directives after the first command would not be read.
    commands = [n for n, line in enumerate(lines) if line and not line.startswith("#")]
    assert max(n for n, line in enumerate(lines) if line.startswith("#SBATCH")) < commands[0]
    words = lines[-1].split()
    last = {word: words[n + 1] for n, word in enumerate(words[:-1]) if word.startswith("--")}
    assert last["--nthreads"] == "1"
    assert last["--memory-limit"] == "0"
    assert last["--resources"] == f"GPU={settings['gpus']}"
    assert f"export OMP_NUM_THREADS={settings['cores']}" in lines


@pytest.mark.usefixtures("sbatch")
def test_settings_that_are_missing_or_unknown_are_told_in_a_line() -> None:
    with pytest.raises(SettingsError, match=r"slurm: nobody said the cores of one worker"):
        clusters.make_batch("slurm", {})
    with pytest.raises(SettingsError, match=r"nobody said the memory of one worker.*YAML file"):
        clusters.make_batch("slurm", {"cores": 1})
    with pytest.raises(SettingsError, match=r"called 'wall_time'. Did you mean 'walltime'\?"):
        clusters.make_batch("slurm", {"cores": 1, "memory": "1GB", "wall-time": "1"})


def test_a_machine_without_sbatch_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineError, match="--cluster slurm: this machine has no sbatch"):
        clusters.make_batch("slurm", {"cores": 1, "memory": "1GB"})


def _slurm_answers() -> bool:
    if shutil.which("sinfo") is None:
        return False
    asked = subprocess.run(["sinfo", "-h"], capture_output=True, check=False, timeout=20)
    return asked.returncode == 0 and bool(asked.stdout.strip())


@pytest.mark.slow
def test_jobs_run_through_a_slurm_and_leave_none_in_its_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not _slurm_answers():
        pytest.skip("no SLURM answers here: start slurmctld and slurmd to run this test")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    file = tmp_path / "cluster.yaml"
    file.write_text("slurm: {cores: 1, memory: 2GB, walltime: '00:10:00', interface: lo}\n")
    jobs = [Job(str(n), work.double, {"number": n}) for n in range(6)]
    with open_engine(EngineOptions(cluster=str(file), workers=2), shared=tmp_path) as engine:
        assert sorted(each.get() for each in engine.run(jobs)) == [0, 2, 4, 6, 8, 10]
    left = subprocess.run(["squeue", "-h", "-t", "PD,R"], capture_output=True, check=True)
    assert left.stdout.strip() == b""
    assert len([*(tmp_path / "logs").glob("*.err")]) == 2
