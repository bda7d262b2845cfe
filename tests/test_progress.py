from __future__ import annotations

import pytest

from twoslice.progress import Bars, Lines, Progress, Silent, for_stderr, in_words


@pytest.mark.parametrize("progress", [Lines(every=0.0), Bars()])
def test_progress_names_the_work_and_counts_to_its_end(
    progress: Progress, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress.task("propagate", total=3) as task:
        for case in "abc":
            task.advance(note=case)
    shown = capsys.readouterr()
    assert shown.out == ""  # stdout is for results
    assert "propagate" in shown.err
    assert "3/3" in shown.err


def test_silent_progress_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Silent().task("train", total=1) as task:
        task.advance()
    Silent().say("line")
    assert capsys.readouterr() == ("", "")


def test_plain_lines_are_used_where_there_is_no_terminal() -> None:
    assert isinstance(for_stderr(), Lines)


def test_lines_come_at_most_every_so_often(capsys: pytest.CaptureFixture[str]) -> None:
    with Lines(every=3600.0).task("train", total=1000) as task:
        for _ in range(1000):
            task.advance()
    assert capsys.readouterr().err == ""  # short work leaves the log alone


def test_what_an_earlier_run_did_does_not_hurry_the_estimate(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 30.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with Lines(every=10.0).task("training", total=1000, done=990) as task:
        task.advance(3)  # 30 s for three steps, seven to go
    assert "training: 993/1000, about 70 s left" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (99, "99 s"), (100, "2 min"), (3599, "1 h 0 min"), (12000, "3 h 20 min")],
)
def test_times_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert in_words(seconds) == said
