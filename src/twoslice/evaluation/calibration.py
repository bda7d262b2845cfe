"""From signs to the Dice to expect: how firm an answer is, and what that was worth on drawn slices.

The signs of a label (evaluation/signs.py) are brought to one number, its firmness: the weighted
mean of their logits. Its level means nothing by itself, since networks are surer than they are
right. So logit(Dice) = firmness + offset, and held-out trainings set the offset: on drawn slices
that they were not taught with, both sides are known. The slope is 1: it was 1.2 to 1.5 on left
atria and 0.6 on hippocampi (docs/LOG.md), and so few drawn slices could not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Signs = Mapping[str, float]
WEIGHTS = {"softmax": 1.0, "certainty": 1.0, "networks": 2.0, "shift": 0.5, "mirror": 0.5}
"""Of the signs in firmness: what ranked left atria best counts most, none alone decides."""
SLACK = 0.4
"""Standard deviation (log odds) of what drawn slices cannot tell: slices are not scans, and a short
training is not the final one."""
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
    """The weighted mean of the signs' logits, of the useful ones: how firm an answer is."""
    kept = {name: value for name, value in signs.items() if useful is None or name in useful}
    weights = [WEIGHTS.get(name, 1.0) for name in kept]
    return float(np.average([logit(value) for value in kept.values()], weights=weights))


def calibrate(points: Sequence[Point]) -> tuple[float, float]:
    """The offset from firmness to logit of Dice, and its standard deviation.

    A scan's slices and labels go together, so each scan counts once; a label of which a slice shows
    almost nothing says almost nothing, so points weigh by the root of what they show.
    """
    if not points:
        return PRIOR_OFFSET, PRIOR_SPREAD
    gaps = _by_case(points, gap)
    spread = float(gaps.std(ddof=1)) if len(gaps) > 1 else PRIOR_SPREAD
    return float(gaps.mean()), float(np.hypot(spread / np.sqrt(len(gaps)), SLACK))


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
