"""Parts of one body: labels that meet on the drawn slices, told apart by where they lie.

Between the head of a hippocampus and its body, or two segments of a liver, there is no edge in the
image: the border is a convention, mostly a plane. A slice that is carried along its own normal
takes both labels with it, across that border. So what propagation says is whether a voxel belongs
to the body; which part of it, a plane through the drawn voxels of all slices says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from twoslice.annotation.types import SparseAnnotation

MEETING = 0.05
"""Labels meet if this share of the smaller one's outline is shared. On drawn hippocampi it is 0.06
to 0.42; between liver, spleen and left kidney mostly 0, and up to 0.10 where they touch."""
TOLD_APART = 0.9
"""The share of each part's drawn voxels, in the mean, that planes must get right; a part that lies
within another has 0.5 or so, and is left to propagation."""
_PENALTY = 0.01  # of the squared slopes, whose unit is the drawn voxels' spread: hardly any
_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class Parting:
    """The parts of one body, and for each a linear score of the place, in voxels along I, J, K."""

    parts: tuple[int, ...]
    slopes: Tensor
    offsets: Tensor

    def settle(self, odds: Tensor, axis: int, start: int) -> Tensor:
        """Log odds (N, classes - 1, H, W) of slices from `start` on, stacked along `axis`: the
        likeliest part has what all parts had together, the others fall behind by their scores.
        """
        rows = [part - 1 for part in self.parts]
        together = odds[:, rows].logsumexp(dim=1, keepdim=True)
        scores = self._scores(odds.shape[0], odds.shape[2:], axis, start)
        settled = odds.clone()
        settled[:, rows] = together + scores - scores.amax(dim=1, keepdim=True)
        return settled

    def _scores(self, count: int, size: Sequence[int], axis: int, start: int) -> Tensor:
        """(N, parts, H, W): a plane's score is a sum over the axes."""
        order = [axis, *(each for each in range(3) if each != axis)]
        places = (
            torch.arange(start, start + count).view(-1, 1, 1, 1),
            torch.arange(size[0]).view(1, 1, -1, 1),
            torch.arange(size[1]).view(1, 1, 1, -1),
        )
        scores = self.offsets.view(1, -1, 1, 1)
        for where, place in zip(order, places, strict=True):
            scores = scores + self.slopes[:, where].view(1, -1, 1, 1) * place
        return scores


def find_partings(annotation: SparseAnnotation, confused: NDArray[np.int64]) -> tuple[Parting, ...]:
    """A parting for each body of two or more parts that planes tell apart and propagation does not.

    `confused` (classes, classes) counts voxels of drawn slices by their class and by the one that
    was carried there from other planes: organs that merely touch are carried without confusion.
    """
    bodies = _bodies(_contacts(annotation, len(confused)))
    doubtful = (parts for parts in bodies if len(parts) > 1 and _told(confused, parts) < TOLD_APART)
    found = (_fit(annotation, parts) for parts in doubtful)
    return tuple(parting for parting in found if parting is not None)


def _told(confused: NDArray[np.int64], parts: tuple[int, ...]) -> float:
    """The share of each part's voxels that were called that part, in the mean, of those that were
    called any of the body's; a part of which that is none says nothing.
    """
    body = confused[np.ix_(parts, parts)]
    reached = body.sum(axis=1) > 0
    shares = body.diagonal()[reached] / body.sum(axis=1)[reached]
    return float(shares.mean()) if reached.any() else 0.0


def _contacts(annotation: SparseAnnotation, classes: int) -> NDArray[np.int64]:
    """(classes, classes): sides of pixels where two classes touch on a drawn slice."""
    touching = np.zeros((classes, classes), dtype=np.int64)
    for drawn in annotation.slices:
        for axis in range(2):
            rows = np.moveaxis(drawn.mask, axis, 0)
            np.add.at(touching, (rows[:-1].ravel(), rows[1:].ravel()), 1)
    touching += touching.T
    np.fill_diagonal(touching, 0)
    return touching


def _bodies(contacts: NDArray[np.int64]) -> list[tuple[int, ...]]:
    """Labels in groups: who meets whom, directly or through others."""
    from scipy.sparse.csgraph import connected_components

    outline = contacts.sum(axis=1)
    smaller = np.minimum.outer(outline, outline)[1:, 1:]
    meet = (contacts[1:, 1:] > 0) & (contacts[1:, 1:] >= MEETING * smaller)
    count, body = connected_components(meet, directed=False)
    return [tuple((np.flatnonzero(body == each) + 1).tolist()) for each in range(count)]


def _fit(annotation: SparseAnnotation, parts: tuple[int, ...]) -> Parting | None:
    """Logistic regression of the part on the place; None where it does not tell them apart."""
    places, part = _drawn_voxels(annotation, parts)
    middle, spread = places.mean(0), places.std().clamp_min(1e-6)
    inputs = (places - middle) / spread
    slopes = torch.zeros(len(parts), 3, dtype=torch.float64, requires_grad=True)
    offsets = torch.zeros(len(parts), dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([slopes, offsets], max_iter=_ROUNDS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        value = F.cross_entropy(inputs @ slopes.T + offsets, part, reduction="sum")
        value = value + _PENALTY / 2 * slopes.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    solver.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        right = (inputs @ slopes.T + offsets).argmax(1) == part
        told = torch.stack([right[part == each].double().mean() for each in range(len(parts))])
        if told.mean() < TOLD_APART:
            return None
        real = slopes / spread
        return Parting(parts, real.float(), (offsets - real @ middle).float())


def _drawn_voxels(annotation: SparseAnnotation, parts: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """(voxels, 3) places of the drawn voxels of these labels, and which of them each is."""
    places, values = [], []
    for drawn in annotation.slices:
        inside = np.argwhere(np.isin(drawn.mask, parts))
        places.append(np.insert(inside, drawn.plane.axis, drawn.index, axis=1))
        values.append(drawn.mask[tuple(inside.T)])
    which = np.searchsorted(np.array(parts), np.concatenate(values))
    return torch.from_numpy(np.concatenate(places)).double(), torch.from_numpy(which).long()
