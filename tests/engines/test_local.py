"""Processes of this machine: values, faults, retries, lost workers, needs, and nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engines import work
from twoslice.engines.choose import EngineOptions, open_engine
from twoslice.engines.here import Here
from twoslice.engines.jobs import Job, Needs, watch
from twoslice.engines.local import LocalEngine
from twoslice.errors import EngineError, JobError, ScanError, SettingsError
from twoslice.progress import Lines, Silent

TWO = 2


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(TWO, memory=2**30) as opened:
        yield opened


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def doubling(count: int) -> list[Job[int]]:
    return [Job(f"job {n}", work.double, {"number": n}) for n in range(count)]


def test_every_job_has_one_outcome_with_its_value(engine: LocalEngine) -> None:
    outcomes = [*engine.run(doubling(20))]
    assert {each.job.name: each.get() for each in outcomes} == {
        f"job {n}": 2 * n for n in range(20)
    }
    assert {each.attempts for each in outcomes} == {1}


def test_jobs_run_in_other_processes_that_are_used_again(engine: LocalEngine) -> None:
    jobs = [Job(str(n), work.tell_process) for n in range(8)]
    first = {each.get() for each in engine.run(jobs)}
    second = {each.get() for each in engine.run(jobs)}
    assert 1 <= len(first) <= TWO
    assert len(first | second) <= TWO
    assert os.getpid() not in first


def test_a_fault_that_a_user_can_mend_comes_back_as_it_is_and_is_not_retried(
    engine: LocalEngine,
) -> None:
    jobs: list[Job[object]] = [Job("bad", work.refuse, {"path": "x.nii"}), *doubling(3)]
    found = {each.job.name: each for each in engine.run(jobs)}
    assert isinstance(found["bad"].error, ScanError)
    assert str(found["bad"].error) == "x.nii: is no scan. Name another."
    assert found["bad"].attempts == 1
    assert found["job 2"].get() == 4
    with pytest.raises(ScanError):
        found["bad"].get()


def test_a_job_that_fails_unforeseen_is_tried_again_a_bounded_number_of_times(
    engine: LocalEngine, tmp_path: Path
) -> None:
    found = {each.job.name: each for each in engine.run(work.stumbling(tmp_path))}
    assert found["lucky"].get() == 3
    assert found["lucky"].attempts == 3
    assert len([*(tmp_path / "hopeless").iterdir()]) == 3
    error = found["hopeless"].error
    assert isinstance(error, JobError)
    assert str(error) == (
        "hopeless: tried 3 times, and the last time it ended with ZeroDivisionError: no luck."
    )
    assert "on my way" in found["hopeless"].log
    assert "Traceback" in found["hopeless"].log


def test_a_lost_worker_loses_only_its_job_which_is_tried_again(
    engine: LocalEngine, tmp_path: Path
) -> None:
    once, always = work.dying(tmp_path)
    found = {each.job.name: each for each in engine.run([once, *doubling(6), always])}
    assert len(found) == 8
    assert found["once"].get() == 2
    assert all(found[f"job {n}"].get() == 2 * n for n in range(6))
    assert "killed by SIGKILL" in str(found["always"].error)
    assert found["always"].log == "about to die"


def test_two_jobs_run_at_the_same_time_and_three_do_not(
    engine: LocalEngine, tmp_path: Path
) -> None:
    jobs = [
        Job(name, work.sleep, {"folder": tmp_path, "name": name, "seconds": 0.5}) for name in "abc"
    ]
    [*engine.run([Job(str(n), work.tell_process) for n in range(4)])]  # both have started
    assert {each.value for each in engine.run(jobs)} == set("abc")
    begun = {name: (tmp_path / name).stat().st_mtime for name in "abc"}
    ended = {name: (tmp_path / f"{name}-done").stat().st_mtime for name in "abc"}
    assert max(begun["a"], begun["b"]) < min(ended["a"], ended["b"]) <= begun["c"]


def test_memory_that_is_taken_keeps_others_waiting_and_reaches_the_job(
    engine: LocalEngine, tmp_path: Path
) -> None:
    """Each worker may take 1 GiB, so two jobs of 1.5 GiB are one too many."""
    much = Needs(memory=3 * 2**29)
    jobs = [
        Job(name, work.sleep, {"folder": tmp_path, "name": name, "seconds": 0.3}, much)
        for name in "ab"
    ]
    assert len([*engine.run(jobs)]) == 2
    begun, ended = (
        sorted((tmp_path / f"{name}{end}").stat().st_mtime for name in "ab")
        for end in ("", "-done")
    )
    assert begun[1] >= ended[0]
    jobs_of_two = [Job("share", work.tell_memory), Job("own", work.tell_memory, {}, much)]
    told = {each.job.name: each.get() for each in engine.run(jobs_of_two)}
    assert told["share"][0] == told["own"][0] == 2**30  # what was set holds for all
    assert 0 < told["share"][1] < 2**30  # the process itself takes some of it


def test_where_no_bound_is_set_a_job_may_take_its_share_or_what_it_needs() -> None:
    with LocalEngine(TWO) as engine:
        much = Needs(memory=2 * engine.memory)
        jobs = [Job("share", work.tell_memory), Job("own", work.tell_memory, {}, much)]
        told = {each.job.name: each.get()[0] for each in engine.run(jobs)}
        assert told == {"share": engine.memory, "own": 2 * engine.memory}


def test_threads_and_gpus_of_a_worker_are_those_that_its_job_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    with LocalEngine(TWO) as engine:
        assert engine.gpus == ("4", "7")
        plain, both = (
            next(engine.run([Job("x", work.tell_environment, {}, needs)])).get()
            for needs in (Needs(), Needs(cores=1, gpus=2))
        )
        with pytest.raises(EngineError, match="needs 3 GPU"):
            next(engine.run([Job("x", work.tell_environment, {}, Needs(gpus=3))]))
    assert plain["CUDA_VISIBLE_DEVICES"] == "4,7"
    assert plain["OMP_NUM_THREADS"] == str(engine.share)
    assert both["CUDA_VISIBLE_DEVICES"] == "4,7"
    assert both["OMP_NUM_THREADS"] == "1"


def test_each_of_two_gpus_is_given_to_one_job_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    with LocalEngine(TWO) as engine:
        jobs = [Job(str(n), work.tell_environment, {}, Needs(gpus=1)) for n in range(2)]
        seen = {each.get()["CUDA_VISIBLE_DEVICES"] for each in engine.run(jobs)}
    assert seen == {"4", "7"}


def test_a_caller_that_stops_asking_ends_the_jobs_and_what_they_started(tmp_path: Path) -> None:
    jobs = [
        Job("a", work.double, {"number": 1}),
        Job("b", work.sleep_with_child, {"folder": tmp_path}),
    ]
    with LocalEngine(TWO) as engine:
        running = engine.run(jobs)
        next(running)
        until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text() != "")
        workers = [each.process.pid for each in (*engine._busy, *engine._idle)]
    child = int((tmp_path / "child").read_text())
    until(lambda: not is_alive(child))
    assert not any(is_alive(process) for process in workers if process is not None)


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from engines import work
from twoslice.engines.jobs import Job
from twoslice.engines.local import LocalEngine

if __name__ == "__main__":
    folder = Path({folder!r})
    jobs = [Job(n, work.sleep, dict(folder=folder, name=n, seconds=300)) for n in "ab"]
    with LocalEngine(2) as engine:
        list(engine.run(jobs))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_the_command_ends_no_worker_is_left(number: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    tests = str(Path(__file__).parents[1])
    script.write_text(SCRIPT.format(tests=tests, folder=str(tmp_path)))
    process = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.DEVNULL)
    try:
        until(lambda: all((tmp_path / n).exists() and (tmp_path / n).read_text() for n in "ab"))
        workers = [int((tmp_path / name).read_text()) for name in "ab"]
        assert all(map(is_alive, workers))
        process.send_signal(number)
        process.wait(20)
        until(lambda: not any(map(is_alive, workers)))
    finally:
        process.kill()
    assert not (tmp_path / "a-done").exists()


def test_in_this_process_a_bug_comes_out_with_its_traceback_and_faults_are_outcomes() -> None:
    with Here() as engine:
        outcomes = [*engine.run([Job("bad", work.refuse, {"path": "x"}), *doubling(2)])]
        assert isinstance(outcomes[0].error, ScanError)
        assert [each.get() for each in outcomes[1:]] == [0, 2]
        with pytest.raises(TypeError):
            next(engine.run([Job("bug", work.double, {"number": None})]))


def test_progress_is_told_once_for_all_jobs_with_what_was_there_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for _ in watch(Here(), doubling(3), name="doubling", progress=Lines(every=0), done=5):
        pass
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"doubling: {n}/8" for n in (6, 7, 8)]
    assert lines[-1].endswith("about 0 s left, job 2")


def test_one_worker_is_this_process_unless_the_jobs_are_to_be_isolated() -> None:
    with open_engine(EngineOptions(workers=4), jobs=1) as engine:
        assert isinstance(engine, Here)
    with open_engine(EngineOptions(workers=4), jobs=1, isolated=True) as engine:
        assert isinstance(engine, LocalEngine)
        assert engine.workers == 1
        [outcome] = watch(engine, [Job("x", work.tell_process)], name="x", progress=Silent())
        assert outcome.get() != os.getpid()
    with open_engine(EngineOptions(memory="3GB", workers=1)) as engine:
        assert next(engine.run([Job("x", work.tell_memory)])).get()[0] == 3 * 10**9


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (EngineOptions(engine="local", scheduler="tcp://x:1"), "--scheduler is for --engine dask"),
        (EngineOptions(engine="local", cluster="slurm"), "--cluster is for --engine dask"),
        (EngineOptions(scheduler="tcp://x:1", cluster="slurm"), "Leave one of them out"),
        (EngineOptions(memory="lots"), "'lots' is no amount of memory"),
        (EngineOptions(memory="0GB"), "'0GB' is no amount of memory"),
    ],
)
def test_options_that_cannot_be_are_told_in_a_line(options: EngineOptions, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        open_engine(options)
