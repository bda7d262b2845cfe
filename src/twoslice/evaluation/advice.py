"""What to draw next: one more slice, or two slices in one more scan, where they should help most.

A scan is worth drawing in if it is judged poor and if many other poor ones are like it: the error
expected of each scan counts for a candidate as far as the two are alike in signs and shapes. Of a
scan, the slices are taken on which the networks doubt most; for one more slice in a scan that has
some, those far from the drawn ones count more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoslice.planes import Plane

_ENDS = 0.1
_DECAY = 0.95
"""What a drawn slice says falls off with distance as the paper's slice weight does."""


@dataclass(frozen=True)
class Advice:
    """One more scan and its slices, one more slice in a drawn scan, and how both were judged."""

    scan: str
    slices: list[str]
    scan_why: str
    slice_in: str
    slice: str
    slice_why: str

    def in_words(self) -> str:
        """In one sentence, as far as there is something to say."""
        parts = []
        if self.scan:
            parts.append(f"{' and '.join(self.slices)} of {self.scan} ({self.scan_why})")
        if self.slice_in:
            parts.append(f"or, for one slice more, {self.slice} of {self.slice_in}")
        return "; ".join(parts) + "."


@dataclass(frozen=True, eq=False)
class Candidate:
    """A scan that one could draw in, as the choice sees it: its expected Dice, features to compare
    it by, the doubt on the slices along each axis (on whatever grid), its shape, and the slices
    drawn in it.
    """

    case: str
    dice: float
    features: Sequence[float]
    doubt: Sequence[Sequence[float]]
    shape: tuple[int, int, int]
    drawn: tuple[tuple[Plane, int], ...]


def advise(candidates: Sequence[Candidate], planes: Sequence[Plane]) -> Advice | None:
    """Choose; None where there is nothing left to draw in."""
    gains = _gains(candidates)
    fresh = {c.case: c for c in candidates if not c.drawn}
    scan, slices, why = "", [], ""
    if fresh:
        scan = max(fresh, key=lambda case: (gains[case][0], case))
        best = fresh[scan]
        slices = [f"{plane} {_most_doubtful(best, plane)[0]}" for plane in planes]
        why = (
            f"expected Dice {100 * best.dice:.0f}, and about {gains[scan][1]:.0f} of the poorer "
            f"scans are like it"
        )
    place = _one_more_slice([c for c in candidates if c.drawn])
    if not scan and place is None:
        return None
    case, name = (place[0], place[1]) if place else ("", "")
    told = "of the drawn scans, the networks doubt most there, far from what is drawn"
    return Advice(scan, slices, why, case, name, told if place else "")


def _gains(candidates: Sequence[Candidate]) -> Mapping[str, tuple[float, float]]:
    """For each scan the expected error of all scans, weighted by likeness; and how many poorer than
    the median are alike.
    """
    features: NDArray[np.float64] = np.array([c.features for c in candidates], dtype=float)
    scale = np.maximum(features.std(axis=0), 1e-6)
    z = np.clip((features - features.mean(axis=0)) / scale, -3, 3)
    apart = ((z[:, None] - z[None]) ** 2).mean(axis=2)
    like = np.exp(-0.5 * apart)
    error = np.array([1 - c.dice for c in candidates])
    poor = error >= np.median(error)
    return {
        c.case: (float((like[i] * error).sum() * error[i]), float((like[i] * poor).sum()))
        for i, c in enumerate(candidates)
    }


def _most_doubtful(candidate: Candidate, plane: Plane) -> tuple[int, float]:
    """The slice of a plane with the most doubt, away from drawn ones, and how much that is."""
    doubt = np.array(candidate.doubt[plane.axis], dtype=float)
    # Slices at the ends of a scan are doubtful too, but show no target to draw.
    shares = doubt / max(float(doubt.sum()), 1e-9)
    upto = np.cumsum(shares)
    doubt = np.where((upto >= _ENDS) & (upto - shares <= 1 - _ENDS), doubt, 0.0)
    side = candidate.shape[plane.axis]
    index = ((np.arange(len(doubt)) + 0.5) * side / len(doubt)).astype(int)
    for other, at in candidate.drawn:
        if other == plane:
            doubt = doubt * (1 - _DECAY ** np.abs(index - at))
    best = int(doubt.argmax())
    return int(index[best]), float(doubt[best] / max(doubt.size, 1))


def _one_more_slice(drawn: Sequence[Candidate]) -> tuple[str, str] | None:
    """The slice with the most doubt of all scans that are drawn in, in any plane."""
    found = []
    for candidate in drawn:
        for plane in Plane:
            index, doubt = _most_doubtful(candidate, plane)
            found.append((doubt, candidate.case, f"{plane} {index}"))
    if not found:
        return None
    _, case, name = max(found)
    return case, name
