"""The verdict: calibrated on points it can be checked on, and in the order of what it rests on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twoslice.errors import InputError
from twoslice.evaluation.advice import Candidate, advise
from twoslice.evaluation.calibration import Point, calibrate, firmness, logit, squash
from twoslice.evaluation.oddities import ScanSigns, oddities, useful_signs
from twoslice.evaluation.verdict import Verdict, reach_verdict
from twoslice.planes import Plane

NAMES = ("organ", "spot")


def signs(value: float, mirror: float = 0.8) -> dict[str, float]:
    return {"softmax": value, "certainty": value, "networks": value, "mirror": mirror}


def scan(case: str, value: float, **more: object) -> ScanSigns:
    shape = {
        "ml": 10.0,
        "extent_mm": [20.0, 30.0, 25.0],
        "thickness_mm": 3.0,
        "pieces": 1,
        "largest": 1.0,
    }
    found = ScanSigns(case, [signs(value)] * 2, [dict(shape), dict(shape)], [[1.0]] * 3, {})
    return replace(found, **more)  # type: ignore[arg-type]


def points(value: float, dice: float, cases: int = 5) -> list[Point]:
    return [Point(f"case {n}", "axial 3", "organ", signs(value), dice, 100.0) for n in range(cases)]


@given(st.floats(0.05, 0.98))
def test_logit_and_squash_undo_each_other(share: float) -> None:
    assert squash(logit(share)) == pytest.approx(share)


@given(st.floats(0.5, 0.95), st.floats(0.3, 0.95))
def test_a_scan_as_firm_as_the_held_out_slices_is_given_their_dice(
    value: float, dice: float
) -> None:
    verdict = reach_verdict([scan("a", value), scan("b", value)], points(value, dice), NAMES)
    assert verdict.scans[0].dice == pytest.approx(dice)
    assert verdict.expected == pytest.approx(dice)
    assert verdict.low < dice < verdict.high
    assert verdict.held_out == pytest.approx(dice)


def test_rivals_rank_scans_and_leave_their_level_as_it_is() -> None:
    said = {"a": 0.7, "b": 0.8, "c": 0.9}
    scans = [scan(c, 0.8, rivals={"folds": [v, v], "carried": [0.6, 0.6]}) for c, v in said.items()]
    verdict = reach_verdict(scans, points(0.8, 0.85), NAMES)
    assert [row.case for row in verdict.scans] == ["a", "b", "c"]
    assert verdict.scans[1].dice == pytest.approx(0.85)
    scatter = 1.4826 * (logit(0.8) - logit(0.7))  # shrunk to that of the signs, all alike here: 0.1
    third = logit(0.85) + 0.1 / scatter * (logit(0.9) - logit(0.8)) / 3
    assert verdict.scans[2].dice == pytest.approx(squash(third))
    assert "left some drawn scans out" in verdict.scans[0].why


def test_odds_go_with_thickness_and_a_label_that_is_nowhere_has_none() -> None:
    usual = scan("b", 0.8)
    thin, thick, none = (
        replace(usual, case=case, shapes=[dict(s, thickness_mm=mm) for s in usual.shapes])
        for case, mm in (("a", 1.5), ("c", 6.0), ("d", 0.0))
    )
    verdict = reach_verdict([thick, usual, thin, none], points(0.8, 0.85), NAMES)
    dice = {row.case: row.dice for row in verdict.scans}
    assert verdict.scans[0].case == "a"
    assert dice["b"] == pytest.approx(0.85)
    assert logit(dice["c"]) - logit(dice["b"]) == pytest.approx(np.log(2))
    assert logit(dice["b"]) - logit(dice["a"]) == pytest.approx(np.log(2))
    assert dice["d"] == dice["b"]


def test_rivals_that_do_not_know_the_labels_have_no_say() -> None:
    said = {"a": 0.1, "b": 0.4, "c": 0.6}
    scans = [scan(c, 0.8, rivals={"folds": [v, v]}) for c, v in said.items()]
    verdict = reach_verdict(scans, points(0.8, 0.85), NAMES)
    assert {round(row.dice, 9) for row in verdict.scans} == {0.85}
    assert "left some drawn scans out" not in verdict.scans[0].why


def test_firmness_is_the_weighted_mean_of_logits_and_takes_no_useless_sign() -> None:
    found = {"networks": 0.9, "shift": 0.5, "mirror": 0.01}
    expected = 2.0 * logit(0.9) / 2.5  # networks count two, the moved scan a half
    assert firmness(found, {"networks", "shift"}) == pytest.approx(expected)
    assert firmness(found) < expected


def test_each_scan_counts_once_however_many_slices_it_has() -> None:
    one = points(0.8, 0.9, cases=1)
    other = [replace(p, case="other") for p in points(0.8, 0.5, cases=4)]
    offset, _ = calibrate([*one, *other])
    middle = (logit(0.9) + logit(0.5)) / 2 - firmness(signs(0.8))
    assert offset == pytest.approx(middle)


def test_scans_that_scatter_more_widen_the_interval() -> None:
    same, apart = points(0.8, 0.8), points(0.8, 0.8)
    apart = [replace(p, dice=d) for p, d in zip(apart, (0.5, 0.9, 0.7, 0.95, 0.6), strict=True)]
    assert calibrate(apart)[1] > calibrate(same)[1]


def test_without_held_out_trainings_the_verdict_says_so_and_is_wide() -> None:
    verdict = reach_verdict([scan("a", 0.9), scan("b", 0.8)], [], NAMES)
    assert verdict.held_out is None
    assert "no training was held out" in verdict.in_words()
    assert verdict.high - verdict.low > 0.2


def test_less_firm_scans_come_first() -> None:
    found = [scan(f"scan {value}", value) for value in (0.9, 0.6, 0.95, 0.8)]
    verdict = reach_verdict(found, points(0.8, 0.8), NAMES)
    assert [row.case for row in verdict.scans] == ["scan 0.6", "scan 0.8", "scan 0.9", "scan 0.95"]


def test_an_odd_shape_moves_a_scan_forward_and_is_named() -> None:
    usual = [scan(f"scan {n}", 0.85) for n in range(8)]
    strange = {
        "ml": 90.0,
        "extent_mm": [20.0, 30.0, 25.0],
        "thickness_mm": 3.0,
        "pieces": 4,
        "largest": 0.5,
    }
    odd = scan("odd", 0.85, shapes=[strange, dict(strange, pieces=0, ml=0.0, largest=0.0)])
    verdict = reach_verdict([*usual, odd], points(0.85, 0.8), NAMES)
    first = verdict.scans[0]
    assert first.case == "odd"
    assert "organ unusually large" in first.why
    assert "organ found in 4 pieces" in first.why
    assert "no spot found" in first.why
    assert first.dice < verdict.scans[1].dice
    assert all(
        not notes for case, (_, notes) in oddities([*usual, odd], NAMES).items() if case != "odd"
    )


def test_pieces_count_where_other_scans_have_fewer_and_strays_that_were_left_out_do_not() -> None:
    def pair(case: str, largest: float, strays: float = 0.0) -> ScanSigns:
        whole = scan(case, 0.85).shapes[0]
        return scan(
            case, 0.85, shapes=[dict(whole, pieces=2, largest=largest), dict(whole, strays=strays)]
        )

    usual = [pair(f"scan {n}", 0.5 + 0.01 * n) for n in range(8)]
    found = oddities([*usual, pair("broken", 0.2), pair("strays", 0.54, 0.6)], NAMES)
    much, notes = found["broken"]
    assert much == pytest.approx(0.535 - 0.2, abs=0.01)
    assert notes == ["organ found in 2 pieces"]
    assert found["strays"] == (0.0, ["more of spot found elsewhere and left out"])
    assert all(found[each.case] == (0.0, []) for each in usual)


def test_a_mirror_that_networks_cannot_answer_at_all_has_no_say() -> None:
    blind = [scan(str(n), 0.8, signs=[signs(0.8, mirror=0.01 * n)] * 2) for n in range(5)]
    assert "mirror" not in useful_signs(blind)
    assert "mirror" in useful_signs([scan("a", 0.8)])
    verdict = reach_verdict(blind, points(0.8, 0.75), NAMES)
    assert len({row.dice for row in verdict.scans}) == 1


def test_a_verdict_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    draw = advise([candidate("a", 0.6), candidate("b", 0.9)], [Plane.AXIAL])
    verdict = reach_verdict([scan("a", 0.9)], points(0.8, 0.8), NAMES, draw)
    verdict.write(tmp_path / "quality.json")
    assert Verdict.read(tmp_path / "quality.json") == verdict
    (tmp_path / "other.json").write_text('{"points": 3}')
    with pytest.raises(InputError, match="not a file that 'twoslice run' wrote"):
        Verdict.read(tmp_path / "other.json")


def candidate(case: str, dice: float, **more: object) -> Candidate:
    doubt = [np.exp(-0.5 * (np.arange(20) - peak) ** 2).tolist() for peak in (5, 10, 15)]
    found = Candidate(case, dice, [dice, 1.0], doubt, (20, 40, 20), ())
    return replace(found, **more)  # type: ignore[arg-type]


def test_the_next_scan_is_poor_and_like_other_poor_ones() -> None:
    alone = candidate("alone", 0.3, features=[9.0, -5.0])
    crowd = [candidate(f"crowd {n}", 0.4, features=[0.4, 1.0 + 0.01 * n]) for n in range(5)]
    good = [candidate(f"good {n}", 0.95, features=[0.95, 1.0]) for n in range(5)]
    advice = advise([alone, *crowd, *good], [Plane.AXIAL, Plane.CORONAL])
    assert advice is not None
    assert advice.scan.startswith("crowd")
    # Doubt peaks at 15 of 20 along the axial axis, and at 10 of 20 along 40 coronal slices.
    assert advice.slices == ["axial 15", "coronal 21"]


def test_one_more_slice_lies_away_from_the_drawn_ones() -> None:
    drawn = candidate("drawn", 0.5, drawn=((Plane.AXIAL, 15), (Plane.CORONAL, 21)))
    advice = advise([drawn], [Plane.AXIAL, Plane.CORONAL])
    assert advice is not None
    assert advice.scan == ""
    assert advice.slice_in == "drawn"
    assert advice.slice == "sagittal 5"


def test_doubt_at_the_end_of_a_scan_draws_nobody_there() -> None:
    profile = [9.0, *([8.0] * 18), 0.0]
    profile[12] = 8.5
    advice = advise([candidate("a", 0.5, doubt=[profile] * 3, shape=(20, 20, 20))], [Plane.AXIAL])
    assert advice is not None
    assert advice.slices == ["axial 12"]
