"""Carry a drawn label through the slices of its plane, outward, one neighbour after the other.

Each step moves the soft label by the registered displacement. The paper then thresholds it and
tidies it with a 5×5 opening and closing (`paper`). Ours (`filtered`) treats the step as one of a
Bayesian filter, class by class in log odds against background:

    move        the soft label at the displaced places
    doubt       a blur of ½ pixel: what is thinner than the doubt gathered on the way fades, so a
                sliver dies out and an object can end
    intensity   a tenth of the log likelihood that the drawn slices' intensities give
    crossing    on the line where a slice drawn in another plane crosses, the class is known: the
                gap to it is added, fading with the distance from the line over the object's radius
    tidy        grey opening and closing, by a seventh of the object's radius, at most 5×5
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from twoslice.propagation.intensity import Appearance
from twoslice.propagation.operators import blur, dilate, erode, sample
from twoslice.propagation.registrars import Displacements

FLOOR = 1e-3
"""Probabilities below this count as this: log odds stay within ±7."""

# Measured on LA, Hippocampus and BTCV together (docs/LOG.md); none is tuned to a single set.
_DOUBT = 0.125  # a pixel's share to each neighbour: a blur of ½ pixel
_INTENSITY = 0.1
_CROSSING = 0.3
_REACH = 0.6  # of the object's radius: standard deviation of the crossing line's say
_TIDY = 1 / 7  # of the object's radius


@dataclass(frozen=True, eq=False)
class Crossing:
    """Where a slice drawn in another plane cuts each slice of this one, and what it shows there.

    `axis` is 0 if the cut is a row, 1 if it is a column; `classes` is (slices, pixels of the cut).
    """

    axis: int
    index: int
    classes: Tensor


@dataclass(frozen=True, eq=False)
class Walk:
    """One way from a drawn slice: the slices in the order they are reached, with their fields."""

    source: int
    targets: Sequence[int]
    fields: Displacements
    pairs: Sequence[int]


@dataclass(frozen=True, eq=False)
class Carrier:
    """What the steps of one plane know besides the fields. `radii` has a pixel radius a class."""

    classes: int
    radii: tuple[float, ...]
    opening: int
    closing: int
    filtered: bool = True
    appearance: Appearance | None = None
    crossings: tuple[Crossing, ...] = ()

    def run(
        self,
        walks: Sequence[Walk],
        masks: dict[int, Tensor],
        bins: Tensor,
        put: Callable[[int, int, Tensor], None],
    ) -> None:
        """Walk all ways at once; `put(source, target, log_odds)` gets each slice reached. A way on
        which nothing is left of any class is not walked further: the rest of it is background.

        `masks` holds the drawn classes (H, W) by index, `bins` the plane's quantized stack
        (N, C, H, W).
        """
        soft = torch.stack([one_hot(masks[walk.source], self.classes) for walk in walks])
        ended: set[int] = set()
        for step in range(max((len(walk.targets) for walk in walks), default=0)):
            active = [n for n, w in enumerate(walks) if step < len(w.targets) and n not in ended]
            if not active:
                break
            targets = [walks[n].targets[step] for n in active]
            field = torch.cat([walks[n].fields.at(walks[n].pairs[step]) for n in active])
            moved = self._step(sample(soft[active], field), targets, bins)
            soft[active] = moved
            odds = log_odds(moved)
            for row, n in enumerate(active):
                put(walks[n].source, targets[row], odds[row])
                if not moved[row, 1:].any() and not self._returns(walks[n].targets[step + 1 :]):
                    ended.add(n)
                    for target in walks[n].targets[step + 1 :]:
                        put(walks[n].source, target, odds[row])

    def _returns(self, targets: Sequence[int]) -> bool:
        """True if a crossing slice shows a target on the rest of a way."""
        rest = list(targets)
        return any(bool(crossing.classes[rest].any()) for crossing in self.crossings)

    def _step(self, moved: Tensor, targets: list[int], bins: Tensor) -> Tensor:
        if not self.filtered:
            hard = F.one_hot(moved.argmax(1), self.classes).movedim(-1, 1).float()
            return self._tidy(hard, [5.0 / _TIDY] * (self.classes - 1))
        odds = log_odds(blur(moved, _DOUBT))
        if self.appearance is not None:
            odds = odds + _INTENSITY * self.appearance.evidence_of(bins[targets])
        for crossing in self.crossings:
            odds = odds + self._correction(odds, crossing, targets)
        return self._tidy(probabilities(odds), self.radii)

    def _correction(self, odds: Tensor, crossing: Crossing, targets: list[int]) -> Tensor:
        """The gap between known and carried log odds on the line, fading to both sides of it."""
        axis = 2 + crossing.axis
        known = log_odds(one_hot(crossing.classes[targets], self.classes, axis=1))
        gap = (known - odds.select(axis, crossing.index)).unsqueeze(axis)
        place = torch.arange(odds.shape[axis], dtype=torch.float32) - crossing.index
        reach = torch.tensor([max(2.0, _REACH * radius) for radius in self.radii])
        say = _CROSSING * torch.exp(-0.5 * (place / reach[:, None]) ** 2)
        return gap * say.unsqueeze(2 if crossing.axis == 0 else 1)

    def _tidy(self, soft: Tensor, radii: Sequence[float]) -> Tensor:
        """Opening, then closing, of each class; together the classes stay at most 1."""
        target = soft[:, 1:].clone()
        sides = [(self._steps(self.opening, r), self._steps(self.closing, r)) for r in radii]
        for opened, closed in sorted({side for side in sides if any(side)}):
            alike = [n for n, side in enumerate(sides) if side == (opened, closed)]
            some = target[:, alike]
            some = dilate(erode(some, opened), opened)
            target[:, alike] = erode(dilate(some, closed), closed)
        target /= target.sum(1, keepdim=True).clamp_min(1)
        return torch.cat((1 - target.sum(1, keepdim=True), target), 1)

    @staticmethod
    def _steps(side: int, radius: float) -> int:
        return min((side - 1) // 2, int(_TIDY * radius))


def one_hot(classes: Tensor, count: int, axis: int = 0) -> Tensor:
    """Whole-number classes to 0 and 1 along a new axis."""
    return F.one_hot(classes.long(), count).movedim(-1, axis).float()


def log_odds(soft: Tensor) -> Tensor:
    """(N, classes, …) probabilities to (N, classes - 1, …) log odds against background."""
    logs = soft.clamp_min(FLOOR).log()
    return logs[:, 1:] - logs[:, :1]


def probabilities(odds: Tensor) -> Tensor:
    """The inverse of `log_odds`; what was at the floor is 0 again, so that no haze builds up."""
    soft = torch.cat((torch.zeros_like(odds[:, :1]), odds), 1).softmax(1)
    soft = (soft - 2 * FLOOR).clamp_min(0)
    return soft / soft.sum(1, keepdim=True)
