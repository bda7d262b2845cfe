"""Schedules: each a pure function of progress, the share of the training that is done (0 to 1).

The paper fixes them for 6000 iterations; here they stretch with any length, and give the paper's
values at every one of its 6000 steps.
"""

from __future__ import annotations

import math

_STEPS = 40  # the paper's 6000 iterations in steps of 150
_STAIRS = 6  # and in stairs of 1000
_ROUNDING = 1e-9  # t / 6000 may come out a hair below its stair


def slice_decay(progress: float, *, start: float = 0.95) -> float:
    """α: `start` for the first sixth, then a cosine in stairs of a sixth, 0 at the very end."""
    stair = math.floor(progress * _STAIRS + _ROUNDING)
    if stair == 0:
        return start
    step = math.floor(stair * _STEPS / _STAIRS + _ROUNDING)
    return min(start, 0.5 * (math.cos(math.pi * step / _STEPS) + 1.0))


def cross_weight(progress: float, *, full: float = 0.8) -> float:
    """λ: the sigmoid ramp λ_oc · exp(−5 (1 − s)²), in steps of a fortieth."""
    share = min(math.floor(progress * _STEPS + _ROUNDING), _STEPS) / _STEPS
    return full * math.exp(-5.0 * (1.0 - share) ** 2)


def uncertainty_threshold(progress: float, *, classes: int) -> float:
    """The entropy below which a voxel counts as certain; rises to ln(classes)."""
    ramp = math.exp(-5.0 * (1.0 - min(progress, 1.0)) ** 2)
    return (0.75 + 0.25 * ramp) * math.log(classes)


def step_rate(progress: float) -> float:
    """The paper's learning rate as a factor: 1, then 0.1 from 2500 / 6000, 0.01 from 5000."""
    return 0.1 ** sum(progress + _ROUNDING >= mark / 6000 for mark in (2500, 5000))


def poly_rate(progress: float, *, warm_up: float = 0.02, power: float = 0.9) -> float:
    """A short linear warm-up, then (1 − progress) ** power; never 0 before the end."""
    rise = min(1.0, (progress + 1e-3) / (warm_up + 1e-3))
    return float(rise * max(0.0, 1.0 - progress) ** power)
