"""What stands out in a scan: signs that lie lower and shapes that differ from the other scans'."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoslice.evaluation.calibration import firmness, logit

_ODD, _STRANGE = 3.0, 0.25
_ANSWERED = 0.5
_LEAST = 0.1  # scans whose log odds lie nearer together than this are alike


@dataclass(frozen=True)
class ScanSigns:
    """What is known of one predicted scan: signs and shape of every label, doubt along its axes."""

    case: str
    signs: list[dict[str, float]]
    shapes: list[dict[str, Any]]
    doubt: list[list[float]]
    drawn: dict[str, list[dict[str, Any]]]
    """By slice, for each label that shows on it: the final networks' `signs` and `dice` there."""
    rivals: dict[str, list[float]] = field(default_factory=dict)
    """By rival (evaluation/rivals.py), the Dice of every label with its map."""


def useful_signs(scans: Sequence[ScanSigns]) -> set[str]:
    """The signs that say something about these scans: where networks cannot answer a mirrored scan
    at all (an organ that lies on one side), the mirror says nothing about any of them.
    """
    return {
        name
        for name in scans[0].signs[0]
        if name != "mirror"
        or np.median([each[name] for scan in scans for each in scan.signs]) >= _ANSWERED
    }


def useful_rivals(scans: Sequence[ScanSigns]) -> list[str]:
    """The rivals that know the labels: held-out trainings too short to find most of them do not."""
    return [
        name
        for name in scans[0].rivals
        if np.median([dice for scan in scans for dice in scan.rivals[name]]) >= _ANSWERED
    ]


def oddities(
    scans: Sequence[ScanSigns], names: Sequence[str]
) -> dict[str, tuple[float, list[str]]]:
    """For each scan how much its shapes differ from the others' (0: not at all), and in what.

    Strays that were left out of the label map are named and cost nothing: where other tissue was
    taken for the label too, the piece that is kept may be as good as any (docs/LOG.md).
    """
    found: dict[str, tuple[float, list[str]]] = {scan.case: (0.0, []) for scan in scans}
    for index, name in enumerate(names):
        volume = np.array([scan.shapes[index]["ml"] for scan in scans])
        extent = np.array([max(scan.shapes[index]["extent_mm"]) for scan in scans])
        for values, words in ((volume, ("small", "large")), (extent, ("short", "long"))):
            for scan, z in zip(scans, _robust(values), strict=True):
                if abs(z) > _ODD:
                    much, notes = found[scan.case]
                    word = words[int(z > 0)]
                    notes.append(f"{name} unusually {word}")
                    found[scan.case] = (much + min(1.0, 0.2 * (abs(z) - _ODD)), notes)
        whole = float(np.median([scan.shapes[index]["largest"] for scan in scans]))
        for scan in scans:
            shape = scan.shapes[index]
            much, notes = found[scan.case]
            if not shape["pieces"]:
                notes.append(f"no {name} found")
            elif shape["largest"] < whole - _STRANGE:
                notes.append(f"{name} found in {shape['pieces']} pieces")
                found[scan.case] = (much + whole - shape["largest"], notes)
            if shape.get("strays", 0.0) > _STRANGE:
                notes.append(f"more of {name} found elsewhere and left out")
    return found


def _robust(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many robust deviations each value lies from the median, on a logarithmic scale."""
    logs = np.log(np.maximum(values, 1e-3))
    away = logs - np.median(logs)
    scale = max(1.4826 * float(np.median(np.abs(away))), 0.05)
    z: NDArray[np.float64] = away / scale
    return z


_WORDS = {
    "softmax": "the networks are unsure of its outline",
    "certainty": "much of it is doubtful",
    "networks": "the two networks disagree",
    "shift": "the answer changes when the scan is moved by two voxels",
    "mirror": "the answer changes when the scan is mirrored left to right",
    "folds": "trainings that left some drawn scans out say something else",
    "carried": "its outlines do not follow the image from slice to slice",
}


def standing(scans: Sequence[ScanSigns], useful: Collection[str]) -> list[list[float]]:
    """How firm each label of each scan is, its rivals and its thickness counted: the median
    firmness over the scans, the mean of how far it lies from the median by its signs and by each of
    its rivals, and how much thicker it is than usual.

    What a rival's Dice is worth in itself no drawn slice tells, so it ranks scans and moves neither
    their level nor how far they lie apart: a rival that scatters more than firmness is shrunk.
    """
    firm = np.array([[firmness(each, useful) for each in scan.signs] for scan in scans])
    middle = np.median(firm, axis=0)
    away = [firm - middle]
    for name in useful_rivals(scans):
        values = np.array([[logit(dice) for dice in scan.rivals[name]] for scan in scans])
        apart = values - np.median(values, axis=0)
        away.append(apart * np.minimum(1.0, _scatter(away[0]) / _scatter(apart)))
    level: list[list[float]] = (middle + np.mean(away, axis=0) + thicker(scans)).tolist()
    return level


def thicker(scans: Sequence[ScanSigns]) -> NDArray[np.float64]:
    """By scan and label, the logarithm of how many times thicker than the median it is.

    An outline that is off by the same distance everywhere loses surface over volume of its label,
    so the odds of its Dice go with its thickness. A label that is nowhere has none to compare.
    """
    thickness = np.array([[each["thickness_mm"] for each in scan.shapes] for scan in scans])
    found = thickness > 0
    logs = np.log(np.where(found, thickness, 1.0))
    away: NDArray[np.float64] = np.zeros_like(logs)
    for index, there in enumerate(found.T):
        if there.any():
            away[there, index] = logs[there, index] - np.median(logs[there, index])
    return away


def typical_signs(scans: Sequence[ScanSigns]) -> dict[str, tuple[float, float]]:
    """Median and spread of each sign's and rival's logit over the scans."""
    found = {}
    for name in (*scans[0].signs[0], *scans[0].rivals):
        values = np.array([_logit_of(scan, name) for scan in scans])
        found[name] = float(np.median(values)), max(float(values.std()), 1e-6)
    return found


def _scatter(away: NDArray[np.float64]) -> NDArray[np.float64]:
    """The robust deviation over the scans of how far each label lies from the median."""
    scatter: NDArray[np.float64] = 1.4826 * np.median(np.abs(away), axis=0)
    return np.maximum(scatter, _LEAST)


def _logit_of(scan: ScanSigns, name: str) -> float:
    """The mean over the labels of what one sign or rival says."""
    values = scan.rivals[name] if name in scan.rivals else [each[name] for each in scan.signs]
    return float(np.mean([logit(value) for value in values]))


def reason_of(scan: ScanSigns, notes: list[str], typical: dict[str, tuple[float, float]]) -> str:
    """In words, what stands out: odd shapes first, then the sign that lies lowest."""
    below = {
        name: (_logit_of(scan, name) - middle) / scale for name, (middle, scale) in typical.items()
    }
    worst = min(below, key=lambda name: below[name])
    said = list(dict.fromkeys(notes))
    if below[worst] < -0.5 or not said:
        said.append(_WORDS.get(worst, worst) if below[worst] < -0.5 else "nothing stands out")
    return "; ".join(said)
