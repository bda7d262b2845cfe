"""Jobs on a Dask cluster of the loopback: the same outcomes as on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engines import work
from engines.loopback import TESTS, Loopback, loopback
from twoslice.engines import clusters
from twoslice.engines.choose import EngineOptions, open_engine
from twoslice.engines.dask import DaskEngine
from twoslice.engines.jobs import Job, Needs
from twoslice.errors import EngineError, JobError, ScanError, SettingsError

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    with loopback(tmp_path_factory.mktemp("dask")) as running:
        yield running


@pytest.fixture
def engine(cluster: Loopback) -> Iterator[DaskEngine]:
    with clusters.connect(cluster.address) as opened:
        opened.client.wait_for_workers(2, timeout=240)
        yield opened


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def until(condition: object, seconds: float = 150.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def doubling(count: int) -> list[Job[int]]:
    return [Job(f"job {n}", work.double, {"number": n}) for n in range(count)]


@pytest.mark.slow
def test_values_faults_and_retries_are_as_on_this_machine(
    engine: DaskEngine, tmp_path: Path
) -> None:
    jobs: list[Job[Any]] = [
        *doubling(10),
        Job("bad", work.refuse, {"path": "x.nii"}),
        *work.stumbling(tmp_path),
        Job("bound", work.tell_memory, {}, Needs(memory=2**31)),
    ]
    found = {each.job.name: each for each in engine.run(jobs)}
    assert [found[f"job {n}"].get() for n in range(10)] == [2 * n for n in range(10)]
    assert isinstance(found["bad"].error, ScanError)
    assert found["bad"].attempts == 1
    assert found["lucky"].get() == 3
    assert isinstance(found["hopeless"].error, JobError)
    assert "tried 3 times" in str(found["hopeless"].error)
    assert "on my way" in found["hopeless"].log
    assert "Traceback" in found["hopeless"].log
    assert found["bound"].get()[0] == 2**31


@pytest.mark.slow
def test_a_job_that_kills_its_worker_is_given_up_and_the_others_are_done(
    engine: DaskEngine, tmp_path: Path
) -> None:
    jobs = [*work.dying(tmp_path), *doubling(6)]
    found = {each.job.name: each for each in engine.run(jobs)}
    # A value that waits on a worker goes with it, and the job is done once more.
    assert found["once"].get() >= 2
    assert "its worker lost" in str(found["always"].error)
    # Dask allows three losses, and there is one more round alone; another job's loss may count, if
    # both were on one worker.
    assert 1 < len([*(tmp_path / "always").iterdir()]) <= 8
    assert [found[f"job {n}"].get() for n in range(6)] == [2 * n for n in range(6)]


@pytest.mark.slow
def test_a_value_that_went_with_its_worker_is_waited_for(
    engine: DaskEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler then tells of a loss, and has the job done again; it is not gone itself."""
    send = DaskEngine._send

    def lose(self: DaskEngine, job: Job[Any], tried: int) -> None:
        send(self, job, tried)
        *_, future = self._running  # the one just sent, which no worker has done yet
        self.client.futures[future.key].lose()

    monkeypatch.setattr(DaskEngine, "_send", lose)
    found = {each.job.name: each.get() for each in engine.run(doubling(3))}
    assert found == {f"job {n}": 2 * n for n in range(3)}


@pytest.mark.slow
def test_a_killed_worker_loses_only_its_job(tmp_path: Path) -> None:
    with loopback(tmp_path / "dask", workers=0) as running:
        lost = running.add_worker()
        with clusters.connect(running.address) as engine:
            jobs = [
                Job(str(n), work.sleep, {"folder": tmp_path, "name": str(n), "seconds": 0.3})
                for n in range(12)
            ]
            outcomes = engine.run(jobs)
            done = [next(outcomes).get()]
            running.add_worker()
            engine.client.wait_for_workers(2, timeout=240)
            lost.kill()  # the nanny and, with it, its worker
            done += [each.get() for each in outcomes]
    assert sorted(done, key=int) == [str(n) for n in range(12)]


@pytest.mark.slow
def test_a_caller_that_stops_ends_its_jobs_on_workers_that_go_on(
    engine: DaskEngine, tmp_path: Path
) -> None:
    jobs = [
        Job(name, work.sleep, {"folder": tmp_path, "name": name, "seconds": 300}) for name in "abc"
    ]
    outcomes = engine.run([Job("first", work.double, {"number": 1}), *jobs])
    next(outcomes)
    until(lambda: len([*tmp_path.iterdir()]) == 2)
    held = [int(path.read_text()) for path in tmp_path.iterdir()]
    outcomes.close()  # type: ignore[attr-defined]
    until(lambda: not any(map(is_alive, held)))
    assert [each.get() for each in engine.run(doubling(1))] == [0]
    assert not [*tmp_path.glob("*-done")]


@pytest.mark.slow
def test_what_no_worker_has_and_what_workers_do_not_see_is_told_in_a_line(
    engine: DaskEngine, tmp_path: Path
) -> None:
    with pytest.raises(
        EngineError, match=r"needs GPU=1, and no worker of tcp.*--resources 'GPU=1'"
    ):
        next(engine.run([Job("x", work.tell_process, {}, Needs(gpus=1))]))
    engine.require(tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_a_scheduler_that_goes_away_is_told_in_a_line(tmp_path: Path) -> None:
    with (
        loopback(tmp_path / "dask", workers=1) as running,
        clusters.connect(running.address) as engine,
    ):
        jobs = [Job("x", work.sleep, {"folder": tmp_path, "name": "x", "seconds": 300})]
        outcomes = engine.run([Job("first", work.double, {"number": 1}), *jobs])
        next(outcomes)
        running.scheduler.kill()
        begun = time.monotonic()
        with pytest.raises(EngineError, match=r"the scheduler is gone.*What is finished is kept"):
            next(outcomes)
        assert time.monotonic() - begun < 120


@pytest.mark.slow
def test_gpus_are_dask_resources_and_workers_started_here_have_their_share(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("PYTHONPATH", TESTS)
    options = EngineOptions(engine="dask", workers=2, memory="1GB")
    with open_engine(options, shared=tmp_path) as engine:
        assert engine.workers == 2
        needs = Needs(gpus=1)
        jobs = [
            Job(n, work.sleep, {"folder": tmp_path, "name": n, "seconds": 1.0}, needs)
            for n in "abc"
        ]
        assert len([*engine.run(jobs)]) == 3
        begun = sorted((tmp_path / name).stat().st_mtime for name in "abc")
        ended = sorted((tmp_path / f"{name}-done").stat().st_mtime for name in "abc")
        assert begun[2] >= ended[0]  # each worker has one GPU, so the third had to wait
        seen = {
            engine.client.run(work.tell_environment)[worker]["CUDA_VISIBLE_DEVICES"]
            for worker in engine._found()
        }
        assert seen == {"0", "1"}
        [told] = engine.run([Job("x", work.tell_memory)])
        assert told.get()[0] == 10**9
        with pytest.raises(EngineError, match="needs GPU=2"):
            next(engine.run([Job("x", work.tell_process, {}, Needs(gpus=2))]))


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from engines import work
from twoslice.engines.jobs import Job
from twoslice.engines.choose import EngineOptions, open_engine

if __name__ == "__main__":
    folder = Path({folder!r})
    jobs = [Job(n, work.sleep, dict(folder=folder, name=n, seconds=300)) for n in "ab"]
    with open_engine(EngineOptions(engine="dask", workers=2)) as engine:
        list(engine.run(jobs))
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_however_the_command_ends_no_worker_that_it_started_is_left(
    number: signal.Signals, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=TESTS, folder=str(tmp_path)))
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": TESTS},
        start_new_session=True,
    )
    try:
        until(lambda: all((tmp_path / n).exists() and (tmp_path / n).read_text() for n in "ab"))
        workers = [int((tmp_path / name).read_text()) for name in "ab"]
        if number == signal.SIGINT:  # as a terminal does: everybody in the group gets it
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        process.wait(150)
        until(lambda: not any(map(is_alive, workers)))
    finally:
        process.kill()


def test_an_unreachable_scheduler_is_one_line_within_ten_seconds() -> None:
    with socket.socket() as taken:  # bound and not listening: whoever connects is refused
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        begun = time.monotonic()
        with pytest.raises(EngineError, match=f"{address}: no Dask scheduler answers there"):
            open_engine(EngineOptions(scheduler=address))
    assert time.monotonic() - begun < 10


def test_a_server_that_is_no_scheduler_is_one_line_within_ten_seconds() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        begun = time.monotonic()
        with pytest.raises(EngineError, match="no Dask scheduler answers there"):
            open_engine(EngineOptions(scheduler=f"tcp://127.0.0.1:{silent.getsockname()[1]}"))
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("address", ["nonsense", "tcp://", "ftp://127.0.0.1:1"])
def test_an_address_that_cannot_be_is_one_line(address: str) -> None:
    with pytest.raises(EngineError, match="no Dask scheduler answers there"):
        open_engine(EngineOptions(scheduler=address))


@pytest.mark.parametrize(
    "options",
    [
        EngineOptions(engine="dask"),
        EngineOptions(scheduler="tcp://127.0.0.1:1"),
        EngineOptions(cluster="slurm"),
    ],
)
def test_without_the_extra_one_line_says_what_to_install(
    options: EngineOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EngineError, match=r"pip install 'twoslice\[dask\]'"):
        open_engine(options)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "no such file"),
        ("slurm: [1]", "no `name: value` lines"),
        ("nomad: {}", "expected one kind of cluster"),
        ("slurm: {}\npbs: {}", "expected one kind of cluster"),
        ("slurm: {", "not a readable YAML file"),
    ],
)
def test_a_bad_file_of_cluster_settings_is_told_in_a_line(
    text: str | None, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "cluster.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingsError, match=told):
        clusters.read_cluster(str(path))


def test_an_unknown_kind_of_cluster_is_told_with_those_that_there_are() -> None:
    with pytest.raises(SettingsError, match="--cluster nomad: expected one of slurm, pbs"):
        clusters.read_cluster("nomad")
