"""The verdict: the Dice to expect of each scan and of the set, without ground truth, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from twoslice.errors import InputError
from twoslice.evaluation.advice import Advice
from twoslice.evaluation.calibration import (
    PRIOR_SPREAD,
    Point,
    calibrate,
    gap,
    keeping,
    logit,
    squash,
)
from twoslice.evaluation.oddities import (
    ScanSigns,
    oddities,
    reason_of,
    standing,
    typical_signs,
    useful_rivals,
    useful_signs,
)
from twoslice.io import atomic

_COVER = 1.96


@dataclass(frozen=True)
class ScanVerdict:
    """The Dice to expect of one scan, with its interval, label by label, and the reason."""

    case: str
    dice: float
    low: float
    high: float
    labels: dict[str, float]
    why: str
    drawn: bool


@dataclass(frozen=True)
class Verdict:
    """The set as a whole, and its scans, the doubtful ones first.

    `held_out` is the Dice of held-out trainings on drawn slices they were not taught with;
    `on_drawn` that of the final networks on the slices that taught them, which flatters them.
    """

    expected: float
    low: float
    high: float
    labels: dict[str, float]
    held_out: float | None
    on_drawn: float | None
    offset: float
    spread: float
    points: tuple[Point, ...]
    scans: tuple[ScanVerdict, ...]
    draw: Advice | None

    def in_words(self) -> str:
        """One sentence on the set."""
        basis = (
            "by drawn slices that shorter trainings had not seen"
            if self.held_out is not None
            else "by the networks' own confidence alone, since no training was held out"
        )
        return (
            f"Expected Dice {100 * self.expected:.0f} (95 % interval {100 * self.low:.0f} to "
            f"{100 * self.high:.0f}), judged {basis}."
        )

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        atomic.write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> Verdict:
        """What `write` wrote."""
        try:
            tree = json.loads(path.read_text(encoding="utf-8"))
            tree["points"] = tuple(Point(**point) for point in tree["points"])
            tree["scans"] = tuple(ScanVerdict(**scan) for scan in tree["scans"])
            tree["draw"] = Advice(**tree["draw"]) if tree["draw"] else None
            return cls(**tree)
        except FileNotFoundError:
            raise InputError(f"{path}: there is no such file. Check the path.") from None
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(
                f"{path}: not a file that 'twoslice run' wrote. Run it again."
            ) from None


def reach_verdict(
    scans: Sequence[ScanSigns],
    points: Sequence[Point],
    names: Sequence[str],
    draw: Advice | None = None,
) -> Verdict:
    """The verdict on all scans; `names` are the foreground labels in their order."""
    useful = useful_signs(scans)
    points = keeping(points, useful)
    seen = [each for scan in scans for found in scan.drawn.values() for each in found]
    offset, spread = calibrate(points)
    odd = oddities(scans, names)
    telling = {*useful, *useful_rivals(scans)}
    typical = {name: entry for name, entry in typical_signs(scans).items() if name in telling}
    rows = []
    for scan, firm in zip(scans, standing(scans, useful), strict=True):
        much, notes = odd[scan.case]
        dice = [squash(each + offset - much) for each in firm]
        rows.append(_judge_scan(scan, dice, names, reason_of(scan, notes, typical), points, spread))
    rows.sort(key=lambda row: (row.dice, row.case))
    low, high = (_mean_at(rows, side * _COVER * spread) for side in (-1, 1))
    return Verdict(
        expected=float(np.mean([row.dice for row in rows])),
        low=low,
        high=high,
        labels={name: float(np.mean([row.labels[name] for row in rows])) for name in names},
        held_out=float(np.mean([point.dice for point in points])) if points else None,
        on_drawn=float(np.mean([each["dice"] for each in seen])) if seen else None,
        offset=offset,
        spread=spread,
        points=tuple(points),
        scans=tuple(rows),
        draw=draw,
    )


def _mean_at(rows: Sequence[ScanVerdict], shift: float) -> float:
    """The mean of all scans if every one of them were off by `shift`."""
    return float(
        np.mean(
            [np.mean([squash(logit(dice) + shift) for dice in row.labels.values()]) for row in rows]
        )
    )


def _judge_scan(
    scan: ScanSigns,
    dice: Sequence[float],
    names: Sequence[str],
    why: str,
    points: Sequence[Point],
    spread: float,
) -> ScanVerdict:
    """One scan's interval is wider than the set's: scans scatter as slices do."""
    gaps = [gap(point) for point in points]
    scatter = float(np.std(gaps)) if len(gaps) > 2 else PRIOR_SPREAD
    wide = _COVER * float(np.hypot(spread, scatter))
    ends = [
        float(np.mean([squash(logit(each) + side * wide) for each in dice])) for side in (-1, 1)
    ]
    return ScanVerdict(
        case=scan.case,
        dice=float(np.mean(dice)),
        low=ends[0],
        high=ends[1],
        labels=dict(zip(names, map(float, dice), strict=True)),
        why=why,
        drawn=bool(scan.drawn),
    )
