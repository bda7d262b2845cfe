"""Which slices to take from a dense label: the paper's choice and two others.

`middle` is the paper's: the slice nearest the middle of the target that shows as much of it as
any. `largest` takes the most foreground pixels, `random` any slice on which the target shows.
Of several classes, those that no chosen slice of the scan shows yet come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.cover import Slot
from twoslice.errors import AnnotationError, SettingsError
from twoslice.planes import Plane

Choice = Literal["middle", "random", "largest"]
Scheme = Literal["orthogonal", "parallel", "single"]
CHOICES: tuple[Choice, ...] = ("middle", "random", "largest")
SCHEMES: tuple[Scheme, ...] = ("orthogonal", "parallel", "single")

_Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Wish:
    """One slice to choose: its plane, the part of the target's extent (from `low` to `high`, of 0
    to 1) that it may come from, and where in the extent `middle` aims.
    """

    plane: Plane
    at: float = 0.5
    low: float = 0.0
    high: float = 1.0


def wishes(scheme: Scheme, planes: Sequence[Plane]) -> tuple[Wish, ...]:
    """The slices that a scheme asks for."""
    if len(set(planes)) != len(planes) or not planes:
        raise SettingsError(f"planes are {', '.join(planes) or 'none'}. Name each plane once.")
    if scheme == "single":
        return (Wish(planes[0]),)
    if scheme == "parallel":
        return Wish(planes[0], 1 / 3, 0, 0.5), Wish(planes[0], 2 / 3, 0.5, 1)
    if len(planes) < 2:
        raise SettingsError(
            f"the orthogonal scheme needs two or three planes, got {planes[0]}. Name another "
            f"plane, or use the single or parallel scheme."
        )
    return tuple(Wish(plane) for plane in planes)


def parse_slice(text: str) -> Slot:
    """`axial 43` as a plane and an index, counted from 0 in the RAS volume."""
    plane, _, index = text.strip().partition(" ")
    if not index.strip().isdecimal():
        raise SettingsError(f"'{text}' is not a slice. Write a plane and an index, as in axial 43.")
    return Plane.parse(plane), int(index)


@dataclass(frozen=True)
class _Profile:
    """One plane of a dense label: what each slice shows. All arrays run over the slices."""

    shows: _Bools  # (classes, slices), background's row always False
    pixels: NDArray[np.intp]
    usable: _Bools  # the target shows, and no voxel is ignored

    @classmethod
    def of(cls, labels: NDArray[np.integer], plane: Plane, classes: int) -> _Profile:
        stacked = plane.stack_first(labels)
        shows = np.zeros((classes, len(stacked)), dtype=bool)
        for value in range(1, classes):
            shows[value] = (stacked == value).any(axis=(1, 2))
        known = np.asarray((stacked < classes).all(axis=(1, 2)))
        pixels = np.asarray(((stacked > 0) & (stacked < classes)).sum(axis=(1, 2)))
        return cls(shows, pixels, known & np.asarray(shows.any(axis=0)))

    def part(self, wish: Wish) -> tuple[_Bools, float]:
        """The slices that a wish may take, and where it aims."""
        extent = np.flatnonzero(self.shows.any(axis=0))
        first, last = int(extent[0]), int(extent[-1])
        place = np.arange(len(self.usable))
        low, high = first + wish.low * (last - first), first + wish.high * (last - first)
        return self.usable & (place >= low) & (place <= high), first + wish.at * (last - first)


def choose_slices(
    labels: NDArray[np.integer],
    *,
    classes: int,
    wanted: Sequence[Wish],
    choice: Choice = "middle",
    seed: Sequence[int] = (0,),
    prefer: frozenset[int] = frozenset(),
) -> tuple[Slot, ...]:
    """The slices of one dense RAS label that fulfil the wishes.

    Labels from `classes` upwards are ignored ones: no slice with such a voxel is taken. Slices
    that show a class of `prefer` come before all others.
    """
    generator = np.random.default_rng(seed)
    profiles = {wish.plane: _Profile.of(labels, wish.plane, classes) for wish in wanted}
    chosen: list[Slot] = []
    shown = np.zeros(classes, dtype=bool)
    for wish in wanted:
        profile = profiles[wish.plane]
        if not profile.shows.any():
            raise AnnotationError("the dense label is empty: no slice shows a target.")
        candidates, aim = profile.part(wish)
        taken = [index for plane, index in chosen if plane == wish.plane]
        candidates[taken] = False
        if not candidates.any():
            raise AnnotationError(_nothing_to_take(wish, profile, len(taken)))
        still = sorted(value for value in prefer if not shown[value])
        candidates &= _best(profile.shows[still].sum(axis=0), candidates)
        index = _take(profile, candidates, aim, choice, shown, generator)
        chosen.append((wish.plane, index))
        shown |= profile.shows[:, index]
    return tuple(chosen)


def _take(
    profile: _Profile,
    candidates: _Bools,
    aim: float,
    choice: Choice,
    shown: _Bools,
    generator: np.random.Generator,
) -> int:
    """One slice of the candidates."""
    if choice == "random":
        return int(generator.choice(np.flatnonzero(candidates)))
    candidates = candidates & _best(profile.shows[~shown].sum(axis=0), candidates)
    candidates &= _best(profile.shows.sum(axis=0), candidates)
    if choice == "largest":
        candidates &= _best(profile.pixels, candidates)
    return int(min(np.flatnonzero(candidates), key=lambda index: abs(index - aim)))


def _best(score: NDArray[np.integer], candidates: _Bools) -> _Bools:
    """The slices that score no less than any candidate."""
    best: _Bools = score >= score[candidates].max()
    return best


def _nothing_to_take(wish: Wish, profile: _Profile, taken: int) -> str:
    showing = int(profile.shows.any(axis=0).sum())
    if taken or (wish.low, wish.high) != (0.0, 1.0):
        return (
            f"the target shows on {showing} {wish.plane} slice(s), too few for two parallel ones. "
            f"Use another plane or the single scheme."
        )
    return (
        f"each of the {showing} {wish.plane} slices that show the target also has ignored voxels. "
        f"Use another plane, or leave the case out."
    )
