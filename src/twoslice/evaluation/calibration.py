"""From signs to the Dice to expect: how firm an answer is, and what that was worth on drawn slices.

The signs of a label (evaluation/signs.py) are brought to one number, its firmness: the mean of
their logits. Its level means nothing by itself, since networks are surer than they are right. So
logit(Dice) = firmness + offset, and the drawn slices set the offset. Held-out trainings are right
to a known degree on slices that they were not taught with; which firmness belongs to that is said
in two ways: their own on those slices (hopeful: a longer training gets surer more than better), and
the final networks' on the same slices (gloomy: they were taught with them, and are better). The
offset is the mean of the two, and the interval covers both. The slope is 1, as it was on left atria
(0.9 to 1.2 in three trainings); so few drawn slices could not tell another one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Signs = Mapping[str, float]
SLACK = 0.3
"""Standard deviation (log odds) of what no drawn slice can tell: slices are not scans."""
PRIOR_OFFSET, PRIOR_SPREAD = -0.8, 0.6
"""The offset where no training was held out, and how far it may be off."""
_LOW, _HIGH = 0.02, 0.995


@dataclass(frozen=True)
class Point:
    """One label on one drawn slice of a scan that the asked networks were not taught with."""

    case: str
    slice: str
    label: str
    signs: dict[str, float]
    dice: float
    size: float


def logit(share: float) -> float:
    """log odds of a share, kept away from certainty."""
    kept = min(max(share, _LOW), _HIGH)
    return float(np.log(kept / (1 - kept)))


def squash(value: float) -> float:
    """The share whose log odds are `value`."""
    return float(1 / (1 + np.exp(-value)))


def firmness(signs: Signs, useful: Collection[str] | None = None) -> float:
    """The mean of the signs' logits, of the useful ones: one number for how firm an answer is."""
    return float(
        np.mean([logit(value) for name, value in signs.items() if not useful or name in useful])
    )


def calibrate(points: Sequence[Point], taught: float | None = None) -> tuple[float, float]:
    """The offset from firmness to logit of Dice, and its standard deviation.

    `taught` is the final networks' mean firmness on the drawn slices. A scan's slices and labels go
    together, so each scan counts once; a label of which a slice shows almost nothing says almost
    nothing, so points weigh by the root of what they show.
    """
    if not points:
        return PRIOR_OFFSET, PRIOR_SPREAD
    gaps = _by_case(points, gap)
    right = _by_case(points, lambda point: logit(point.dice))
    hopeful = float(gaps.mean())
    gloomy = hopeful if taught is None else float(right.mean()) - taught
    spread = float(gaps.std(ddof=1)) if len(gaps) > 1 else PRIOR_SPREAD
    apart = abs(hopeful - gloomy) / 2
    whole = np.sqrt(
        spread**2 / len(gaps) + apart**2 / 3 + SLACK**2
    )  # between them all alike likely
    return (hopeful + gloomy) / 2, float(whole)


def _by_case(points: Sequence[Point], value: Callable[[Point], float]) -> NDArray[np.float64]:
    by_case: dict[str, list[Point]] = {}
    for point in points:
        by_case.setdefault(point.case, []).append(point)
    return np.array(
        [
            np.average([value(p) for p in each], weights=[p.size**0.5 for p in each])
            for each in by_case.values()
        ]
    )


def gap(point: Point) -> float:
    """How far the truth lies from what the signs say, as log odds."""
    return logit(point.dice) - firmness(point.signs)


def keeping(points: Sequence[Point], useful: Collection[str]) -> list[Point]:
    """The points with their useful signs alone."""
    return [
        replace(p, signs={name: v for name, v in p.signs.items() if name in useful}) for p in points
    ]
