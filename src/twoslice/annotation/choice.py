"""Which slices to take from a dense label: the paper's choice and three others.

`middle` is the paper's: the slice nearest the middle of the target that shows as much of it as
any. `spread` takes those that add most to what the slices of the other scans show (`seen.py`), so
that all of them together show each class from end to end. `largest` takes the most foreground
pixels, `random` any slice on which the target shows. Of several classes, those that no chosen slice
of the scan shows yet come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.cover import Slot
from twoslice.annotation.seen import Seen, areas_of
from twoslice.errors import AnnotationError, SettingsError
from twoslice.planes import Plane

Choice = Literal["spread", "middle", "random", "largest"]
Scheme = Literal["orthogonal", "parallel", "single"]
CHOICES: tuple[Choice, ...] = ("spread", "middle", "random", "largest")
SCHEMES: tuple[Scheme, ...] = ("orthogonal", "parallel", "single")

_Bools = NDArray[np.bool_]

_WELL = 0.25
"""Of a class's largest area in a plane: what a slice must show of it to say much about it."""


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

    plane: Plane
    areas: NDArray[np.intp]  # (classes, slices), background's row always 0
    shows: _Bools  # where they are not 0
    usable: _Bools  # the target shows, and no voxel is ignored

    @classmethod
    def of(cls, labels: NDArray[np.integer], plane: Plane, classes: int) -> _Profile:
        stacked = plane.stack_first(labels)
        areas = areas_of(labels, plane, classes)
        known = np.asarray((stacked < classes).all(axis=(1, 2)))
        shows = areas > 0
        return cls(plane, areas, shows, known & np.asarray(shows.any(axis=0)))

    @property
    def shows_well(self) -> _Bools:
        """Which classes each slice shows more than the rim of."""
        well: _Bools = self.areas >= _WELL * self.areas.max(axis=1, keepdims=True)
        return self.shows & well

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
    others: Sequence[Seen] = (),
) -> tuple[Slot, ...]:
    """The slices of one dense RAS label that fulfil the wishes.

    Labels from `classes` upwards are ignored ones: no slice with such a voxel is taken. Slices
    that show a class of `prefer` come before all others. `others` is what slices of other scans
    show, which `spread` wants to know.
    """
    generator = np.random.default_rng(seed)
    profiles = {wish.plane: _Profile.of(labels, wish.plane, classes) for wish in wanted}
    chosen: list[Slot] = []
    shown = np.zeros(classes, dtype=bool)
    seen = Seen(others)
    for number, wish in enumerate(wanted):
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
        if choice == "spread":
            later = [profiles[other.plane] for other in wanted[number + 1 :]]
            candidates &= _best(_shown_at_last(shown, profile, later), candidates)
            candidates &= _best(seen.gains(wish.plane, profile.areas), candidates)
        index = _take(profile, candidates, aim, choice, shown, generator)
        chosen.append((wish.plane, index))
        seen.add(wish.plane, profile.areas, index)
        shown |= (profile.shows_well if choice == "spread" else profile.shows)[:, index]
    return tuple(chosen)


def _shown_at_last(
    shown: _Bools, profile: _Profile, later: Sequence[_Profile]
) -> NDArray[np.integer]:
    """For each slice, how many classes are shown well by it, those before it, and the best slice of
    a later plane: what one plane cannot show, another may.
    """
    own = shown[:, None] | profile.shows_well
    counts: NDArray[np.integer] = own.sum(axis=0)
    for other in later:
        usable = other.shows_well[:, other.usable]
        together = (own[:, :, None] | usable[:, None, :]).sum(axis=0)
        counts = np.maximum(counts, together.max(axis=1, initial=0))
    return counts


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
    if choice != "spread":
        candidates = candidates & _best(profile.shows[~shown].sum(axis=0), candidates)
        candidates &= _best(profile.shows.sum(axis=0), candidates)
    if choice == "largest":
        candidates &= _best(profile.areas.sum(axis=0), candidates)
    return int(min(np.flatnonzero(candidates), key=lambda index: abs(index - aim)))


def _best(score: NDArray[np.integer] | NDArray[np.float64], candidates: _Bools) -> _Bools:
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
