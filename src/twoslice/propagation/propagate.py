"""One scan: from its drawn slices to a label view a plane, the fused view and their quality."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from twoslice.annotation.types import SparseAnnotation
from twoslice.errors import ScanError
from twoslice.planes import Plane
from twoslice.propagation.carry import Carrier, Walk, log_odds, one_hot
from twoslice.propagation.fusion import Carried, Fused, classify, disagreement, fuse
from twoslice.propagation.intensity import Appearance, normalize
from twoslice.propagation.operators import resize
from twoslice.propagation.parting import find_partings
from twoslice.propagation.quality import (
    PAPER_DECAY,
    Check,
    Quality,
    ViewQuality,
    agreement,
    confusion,
    judge,
)
from twoslice.propagation.registrars import REGISTRARS, Registrar
from twoslice.propagation.stacks import Stack, crossings, cut, radii, refuse_unusable
from twoslice.propagation.threads import single_threaded, workers
from twoslice.propagation.views import FUSED, LabelView, distance_map, mix
from twoslice.settings import PropagationSettings

CYCLE_UNIT = 0.1
"""Cycle errors are kept in tenths of a pixel, as whole numbers up to 255."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Propagated:
    """What propagation made of one scan, all (I, J, K) in RAS.

    `cycle` has one map a plane, in tenths of a pixel; `disagreement` is in percent, and None
    where a single plane was drawn.
    """

    views: dict[str, LabelView]
    quality: Quality
    cycle: dict[str, NDArray[np.uint8]]
    disagreement: NDArray[np.uint8] | None


def propagate_scan(
    image: NDArray[np.float32],
    annotation: SparseAnnotation,
    *,
    classes: int,
    spacing: tuple[float, float, float],
    settings: PropagationSettings,
    registrar: Registrar | None = None,
) -> Propagated:
    """Carry the drawn slices of one RAS scan (C, I, J, K) through it, and judge the result."""
    refuse_unusable(annotation, classes)
    if image.shape[1:] != annotation.shape:
        raise ScanError(
            f"the image has {image.shape[1:]} voxels but was drawn on as {annotation.shape}. Draw "
            f"on the scan's own grid."
        )
    chosen = registrar or REGISTRARS[settings.registrar]()
    with single_threaded():
        scan = _Scan(torch.from_numpy(normalize(image)), annotation, classes, settings)
        return _Work(scan, spacing, chosen).run()


@dataclass(frozen=True, eq=False)
class _Scan:
    """A normalized scan and what was drawn on it."""

    image: Tensor
    annotation: SparseAnnotation
    classes: int
    settings: PropagationSettings

    @property
    def slots(self) -> list[tuple[Plane, int]]:
        """Where the drawn slices lie."""
        return [(drawn.plane, drawn.index) for drawn in self.annotation.slices]

    def stack(self, plane: Plane) -> Stack:
        return Stack.of(plane, self.image, self.annotation)

    def appearance(self, annotation: SparseAnnotation) -> Appearance | None:
        """How the classes look on the slices of `annotation`."""
        if not self.settings.appearance:
            return None
        drawn = [
            (self.image[(slice(None), *each.plane.slice(each.index))], torch.from_numpy(each.mask))
            for each in annotation.slices
        ]
        return Appearance.seen_on(drawn, self.classes)

    def trust(self, plane: Plane) -> Tensor:
        """Per class, the radius that this plane's slices show against the largest drawn."""
        own = torch.tensor(radii(self.annotation.in_plane(plane), self.classes))
        return own / torch.tensor(radii(self.annotation.slices, self.classes))

    def carrier(self, plane: Plane, *, alone: bool) -> Carrier:
        """What carries a plane; `alone`, it knows nothing of the other planes' drawn slices."""
        own = SparseAnnotation(self.annotation.shape, self.annotation.in_plane(plane))
        known = own if alone else self.annotation
        constrained = self.settings.constraint and not alone
        return Carrier(
            classes=self.classes,
            radii=radii(known.slices, self.classes),
            opening=self.settings.opening,
            closing=self.settings.closing,
            filtered=self.settings.carry == "filtered",
            appearance=self.appearance(known) if self.settings.carry == "filtered" else None,
            crossings=crossings(self.stack(plane), known) if constrained else (),
        )


@dataclass(frozen=True, eq=False)
class _Work:
    """The steps of one scan, each over all of its planes."""

    scan: _Scan
    spacing: tuple[float, float, float]
    registrar: Registrar

    def run(self) -> Propagated:
        planes = self.scan.annotation.planes
        stacks = {plane: self.scan.stack(plane) for plane in planes}
        carried, judged, cycle, confused = self._planes(stacks)
        views = self._views(carried)
        fused = self._fuse(carried, stacks[planes[0]], confused)
        views[FUSED] = self._fused_view(views, fused)
        quality = self._quality(judged, views, fused)
        apart = disagreement(carried[0], carried[1]) if len(carried) > 1 else None
        return Propagated(views, quality, cycle, apart)

    def _planes(
        self, stacks: dict[Plane, Stack]
    ) -> tuple[
        list[Carried], dict[Plane, ViewQuality], dict[str, NDArray[np.uint8]], NDArray[np.int64]
    ]:
        """Register, check and carry every plane; the fields, as large as the scan, end here. Last
        comes which classes the checks confused.
        """
        planes = list(stacks)
        walks = {plane: stack.register(self.registrar) for plane, stack in stacks.items()}
        cycle = {
            plane.value: self._cycle(stacks[plane], walks[plane])
            for plane in planes
            if self.scan.settings.cycle
        }
        checks = _at_once(lambda plane: self._check(stacks[plane], walks[plane]), planes)
        judged = {
            plane: judge(found, self.scan.classes)
            for plane, found in zip(planes, checks, strict=True)
        }
        carried = _at_once(
            lambda plane: self._carry(stacks[plane], walks[plane], judged[plane].decay), planes
        )
        confused = confusion([each for found in checks for each in found], self.scan.classes)
        return carried, judged, cycle, confused

    def _carry(self, stack: Stack, walks: Sequence[Walk], decay: float | None) -> Carried:
        """The plane's log odds everywhere, drawn slices of other planes used where they cross."""
        carrier = self.scan.carrier(stack.plane, alone=False)
        size = (len(stack.slices), self.scan.classes - 1, *stack.size)
        odds = torch.zeros(size, dtype=torch.float16)

        def put(source: int, target: int, found: Tensor) -> None:
            odds[target] += (stack.share(source, target) * found).half()

        carrier.run(walks, stack.masks, stack.bins, put)
        for index, mask in stack.masks.items():
            odds[index] = log_odds(one_hot(mask, self.scan.classes)[None])[0].half()
        trust = self.scan.trust(stack.plane)
        return Carried(stack.plane, odds, _away(stack), decay or PAPER_DECAY, trust)

    def _check(self, stack: Stack, walks: Sequence[Walk]) -> list[Check]:
        """The plane carried alone, on the slices drawn in other planes."""
        others = [d for d in self.scan.annotation.slices if d.plane != stack.plane]
        if not others:
            return []
        carrier = self.scan.carrier(stack.plane, alone=True)
        cuts = [(*cut(drawn, stack.plane), drawn.index) for drawn in others]
        lines = [
            np.zeros((self.scan.classes - 1, *truth.shape), np.float32) for _, truth, _ in cuts
        ]

        def put(source: int, target: int, found: Tensor) -> None:
            share = stack.share(source, target)
            for line, (axis, _, index) in zip(lines, cuts, strict=True):
                line[:, target] += share * found.select(1 + axis, index).numpy()

        carrier.run(walks, stack.masks, stack.bins, put)
        away = _away(stack).numpy().astype(np.int64)
        keep = away > 0  # the plane's own drawn slices are no guess
        return [
            Check(stack.plane, line[:, keep], truth[keep], away[keep])
            for line, (_, truth, _) in zip(lines, cuts, strict=True)
        ]

    def _cycle(self, stack: Stack, walks: Sequence[Walk]) -> NDArray[np.uint8]:
        error = stack.cycle_error(walks, self.registrar)
        maps = np.empty((len(error), *stack.size), dtype=np.uint8)
        for index, each in enumerate(error):
            full = resize(each[None, None], stack.size)[0, 0]
            maps[index] = (full / CYCLE_UNIT).round().clamp(0, 255).to(torch.uint8).numpy()
        return np.ascontiguousarray(stack.plane.unstack(maps))

    def _views(self, carried: Sequence[Carried]) -> dict[str, LabelView]:
        """A view a plane."""
        annotation = self.scan.annotation
        views = {}
        for each in carried:
            name = each.plane.value
            label = np.ascontiguousarray(each.plane.unstack(classify(each.odds).numpy()))
            distance = distance_map(annotation.shape, self.scan.slots, [each.plane])
            views[name] = LabelView(name, mix(label, annotation), distance)
        return views

    def _fuse(
        self, carried: Sequence[Carried], first: Stack, confused: NDArray[np.int64]
    ) -> Fused | None:
        """What all planes say together; None with a single plane."""
        if len(carried) == 1:
            return None
        annotation = self.scan.annotation
        return fuse(
            carried,
            first.slices,
            appearance=self.scan.appearance(annotation),
            radii=radii(annotation.slices, self.scan.classes),
            spacing=self.spacing,
            partings=find_partings(annotation, confused) if self.scan.settings.parting else (),
        )

    def _fused_view(self, views: dict[str, LabelView], fused: Fused | None) -> LabelView:
        annotation = self.scan.annotation
        if fused is None:
            only = next(iter(views.values()))
            return LabelView(FUSED, only.label, only.distance)
        distance = distance_map(annotation.shape, self.scan.slots, annotation.planes)
        return LabelView(FUSED, mix(fused.label, annotation), distance)

    def _quality(
        self,
        judged: dict[Plane, ViewQuality],
        views: dict[str, LabelView],
        fused: Fused | None,
    ) -> Quality:
        same, expected = None, None
        if fused is not None:
            one, other = (views[plane.value].label for plane in list(judged)[:2])
            same = agreement(one, other, self.scan.classes)
            known = [value for value in fused.expected if value is not None]
            expected = float(np.mean(known)) if known else 0.0
        return Quality(
            views={plane.value: quality for plane, quality in judged.items()},
            agreement=same,
            expected=expected,
            per_class=fused.expected if fused is not None else None,
        )


def _away(stack: Stack) -> Tensor:
    """Slices to the nearest drawn one."""
    place = torch.arange(len(stack.slices))
    drawn = torch.tensor(sorted(stack.masks))
    return (place[:, None] - drawn[None]).abs().amin(1)


def _at_once(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """The work on every item, spread over the cores; results in the items' order."""
    with ThreadPoolExecutor(workers()) as pool:
        return list(pool.map(work, items))
