"""The slices of every case that is to have some, chosen one case after the other."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.choice import Choice, Wish, choose_slices
from twoslice.annotation.cover import Slot
from twoslice.annotation.reading import annotation_from_labels, describe
from twoslice.annotation.relabeling import Relabeling
from twoslice.annotation.seen import Seen
from twoslice.errors import AnnotationError
from twoslice.io.dataset import Dataset


@dataclass(frozen=True)
class Chooser:
    """Chooses the slices of one case after the other."""

    dense: Dataset
    relabel: Relabeling
    wanted: Sequence[Wish]
    choice: Choice
    seed: int
    fixed: tuple[Slot, ...] = ()

    def in_case(
        self, case: str, others: Iterable[Chosen], prefer: frozenset[int] = frozenset()
    ) -> Chosen:
        """The slices of one case, beside those of others, and the classes that they show."""
        labels, _ = self.relabel.read(self.dense, case)
        self._refuse_sparse(case, labels)
        if self.fixed:
            slots = self._within(case, labels)
        else:
            slots = self._choose(case, labels, [other.seen for other in others], prefer)
        values = {int(v) for plane, index in slots for v in np.unique(plane.take(labels, index))}
        return Chosen(slots, frozenset(values - {0}), Seen.of(labels, slots, self.relabel.ignore))

    def _choose(
        self,
        case: str,
        labels: NDArray[np.uint8],
        others: Sequence[Seen],
        prefer: frozenset[int],
    ) -> tuple[Slot, ...]:
        try:
            return choose_slices(
                labels,
                classes=self.relabel.ignore,
                wanted=self.wanted,
                choice=self.choice,
                # The case's own name is in the seed: its slices do not depend on the other cases.
                seed=(self.seed, zlib.crc32(case.encode())),
                prefer=prefer,
                others=others,
            )
        except AnnotationError as error:
            raise AnnotationError(f"case {case}: {error}") from None

    def _within(self, case: str, labels: NDArray[np.uint8]) -> tuple[Slot, ...]:
        """The fixed slices, if the case is large enough for them."""
        for plane, index in self.fixed:
            if not 0 <= index < labels.shape[plane.axis]:
                raise AnnotationError(
                    f"case {case}: has {labels.shape[plane.axis]} {plane} slices, so none of index "
                    f"{index}. Name one that every labelled case has."
                )
        return self.fixed

    def _refuse_sparse(self, case: str, labels: NDArray[np.uint8]) -> None:
        """Refuse a label that reads as drawn slices amid `ignore`; a few ignored voxels may be."""
        if not (labels == self.relabel.ignore).any():
            return
        try:
            drawn = annotation_from_labels(labels, ignore=self.relabel.ignore).slices
        except AnnotationError:
            return  # more than drawn slices: a dense label with some of it ignored
        if drawn:
            slices = describe((each.plane, each.index) for each in drawn[:6])
            raise AnnotationError(
                f"{self.dense.cases[case].label}: is sparse already ({slices}"
                f"{', …' if len(drawn) > 6 else ''}; all else is ignore). Simulate needs dense "
                f"labels: train on this dataset as it is."
            )

    def in_cases(self, cases: Sequence[str]) -> dict[str, Chosen]:
        """The slices of all cases, such that every class shows on at least one of them."""
        chosen: dict[str, Chosen] = {}
        for case in cases:
            chosen[case] = self.in_case(case, chosen.values())
        everything = frozenset(range(1, self.relabel.ignore))
        for case in cases:
            others = [chosen[other] for other in cases if other != case]
            shown = _shown(others)
            if everything <= shown | chosen[case].shown:
                break
            better = self.in_case(case, others, prefer=everything - shown)
            if len(shown | better.shown) > len(shown | chosen[case].shown):
                chosen[case] = better
        missing = everything - _shown(chosen.values())
        if missing:
            names = [name for name, value in self.relabel.labels.items() if value in missing]
            raise AnnotationError(
                f"{self.dense.root}: {', '.join(names)} would show on no slice of the "
                f"{len(cases)} labelled case(s), so nothing could learn it. Label more cases, or "
                f"leave that label out."
            )
        return chosen


@dataclass(frozen=True)
class Chosen:
    """The slices of one case, the classes that show on them, and which parts of these do."""

    slots: tuple[Slot, ...]
    shown: frozenset[int]
    seen: Seen


WHOLE = Chosen((), frozenset(), Seen())
"""A case that keeps its label whole."""


def _shown(chosen: Iterable[Chosen]) -> frozenset[int]:
    """The classes that show on any of the chosen slices."""
    return frozenset().union(*(each.shown for each in chosen))
