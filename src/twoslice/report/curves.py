"""Curves of a run as inline SVG: what each loss, weight and share did over the iterations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

WIDTH, HEIGHT = 520.0, 240.0
LEFT, RIGHT, TOP, BOTTOM = 48.0, 12.0, 12.0, 30.0
MOST_POINTS = 300


@dataclass(frozen=True)
class Curve:
    """A named line; points without a finite value are left out."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


def columns_of(rows: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """Rows of figures as columns; a figure that a row lacks is NaN."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name, math.nan) for row in rows] for name in names}


def smoothed(curve: Curve, *, over: int = 5) -> Curve:
    """The running mean over `over` of its points, so that single patches do not hide the way."""
    kept = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if math.isfinite(y)]
    if len(kept) < 2 * over:
        return curve
    x, y = np.array(kept).T
    sums = np.cumsum(np.concatenate([[0.0], y]))
    starts = np.maximum(np.arange(len(y)) - over + 1, 0)
    means = (sums[1:] - sums[starts]) / (np.arange(len(y)) - starts + 1)
    return Curve(curve.name, x.tolist(), means.tolist())


def chart(curves: Sequence[Curve], *, title: str, unit: Mapping[str, float] | None = None) -> str:
    """Curves over one another with axes and a legend; empty text if there is nothing to show.

    `unit` may fix the range of the vertical axis: {"low": 0, "high": 1}.
    """
    lines = [line for line in map(_thinned, curves) if line.x]
    if not lines:
        return ""
    xs, ys = [x for line in lines for x in line.x], [y for line in lines for y in line.y]
    low, high = (unit["low"], unit["high"]) if unit else (min(0.0, min(ys)), max(ys))
    ticks = _ticks(low, high)
    frame = _Frame(min(xs), max(max(xs), min(xs) + 1), min(low, ticks[0]), max(high, ticks[-1]))
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" '
        f'aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg">'
    ]
    parts += [_rule(frame, tick) for tick in ticks]
    parts += [_foot(frame, tick) for tick in _ticks(frame.left, frame.right)]
    parts += [
        f'<polyline class="line line-{number % 6 + 1}" points="{frame.points(line)}"/>'
        for number, line in enumerate(lines)
    ]
    return "".join(parts) + "</svg>" + _legend(lines)


@dataclass(frozen=True)
class _Frame:
    """From values to places in the picture."""

    left: float
    right: float
    low: float
    high: float

    def x(self, value: float) -> float:
        share = (value - self.left) / (self.right - self.left)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def points(self, line: Curve) -> str:
        pairs = zip(line.x, line.y, strict=True)
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in pairs)


def _thinned(curve: Curve) -> Curve:
    kept = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if math.isfinite(y)]
    if len(kept) > MOST_POINTS:
        kept = [kept[int(i)] for i in np.linspace(0, len(kept) - 1, MOST_POINTS)]
    return Curve(curve.name, [x for x, _ in kept], [y for _, y in kept])


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers that span the range, about five of them."""
    span = (high - low) or 1.0
    rough = span / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((1, 2, 5, 10), key=lambda factor: abs(factor * power - rough)) * power
    first = math.floor(low / step + 1e-9)
    count = math.ceil(high / step - 1e-9) - first
    return [round((first + index) * step, 12) for index in range(count + 1)]


def _rule(frame: _Frame, tick: float) -> str:
    y = frame.y(tick)
    return (
        f'<line class="rule" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" x="{LEFT - 6:g}" y="{y + 3.5:.1f}" text-anchor="end">{tick:g}</text>'
    )


def _foot(frame: _Frame, tick: float) -> str:
    if not frame.left <= tick <= frame.right:
        return ""
    place = f'x="{frame.x(tick):.1f}" y="{HEIGHT - BOTTOM + 16:g}"'
    return f'<text class="tick" {place} text-anchor="middle">{tick:g}</text>'


def _legend(lines: Sequence[Curve]) -> str:
    entries = (
        f'<span class="key key-{number % 6 + 1}">{escape(line.name)}</span>'
        for number, line in enumerate(lines)
    )
    return f'<p class="legend">{"".join(entries)}</p>'


def scatter(pairs: Sequence[tuple[float, float]], *, title: str) -> str:
    """Points of two shares from 0 to 1 against each other, and the line on which both agree."""
    low = 20 * math.floor(5 * min(min(pair) for pair in pairs))  # on a tick of the axes
    high = 100.0
    frame = _Frame(low, high, low, high)
    ticks = _ticks(low, high)
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" '
        f'aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg">'
    ]
    parts += [_rule(frame, tick) for tick in ticks]
    parts += [_foot(frame, tick) for tick in ticks]
    ends = (frame.x(low), frame.y(low), frame.x(high), frame.y(high))
    x1, y1, x2, y2 = (f"{value:.1f}" for value in ends)
    parts.append(f'<line class="diagonal" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')
    parts += [
        f'<circle class="dot" cx="{frame.x(100 * a):.1f}" cy="{frame.y(100 * b):.1f}" r="4"/>'
        for a, b in pairs
    ]
    return "".join(parts) + "</svg>"
