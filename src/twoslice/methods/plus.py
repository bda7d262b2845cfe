"""Plus: two networks that learn from the drawn slices, the fused label view and each other's
memory (docs/plus.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from twoslice.abreast import abreast, generator
from twoslice.methods.base import Batch, LabelSource, Losses, Method, View
from twoslice.methods.teacher import Teacher
from twoslice.networks.build import NetworkPlan
from twoslice.objectives.agreement import hard_dice
from twoslice.objectives.edges import edge_loss
from twoslice.objectives.losses import segmentation_loss, teaching_loss
from twoslice.objectives.weights import NEVER, slice_weight
from twoslice.settings import Settings

_BOX = (0.4, 0.8)
"""The least and the largest share of a patch's side that changes places."""
_FAR = 8
"""Voxels from any propagated target: further out there is none."""


class Lesson(NamedTuple):
    """Patches, what labels say of their voxels and how much that counts, what was drawn, and the
    probabilities that a teacher gives.
    """

    images: Float[Tensor, "B C I J K"]
    labels: Int[Tensor, "B I J K"]
    weights: Float[Tensor, "B I J K"]
    drawn: Bool[Tensor, "B I J K"]
    taught: Float[Tensor, "B C2 I J K"]


class Plus(Method):
    """Two networks, each with patches of its own and taught by the other's exponential mean.

    Labelled scans teach by the fused view, the less the farther from a drawn slice, the less where
    the planes disagree, and the less the longer it has been trained. What the labels leave open is
    the teacher's: far from the drawn slices, and in unlabelled scans; but far from every target of
    a labelled scan no teacher may find one. Labelled and unlabelled patches exchange boxes, so that
    what was drawn is seen beside tissue of all scans.
    """

    trained: ClassVar[int] = 2
    patches: ClassVar[tuple[int, int]] = (2, 2)
    room: ClassVar[float] = 5.1
    share: ClassVar[float] = 0.7
    length: ClassVar[float] = 2.0
    least: ClassVar[float] = 0.25
    optimizer: ClassVar[Literal["adamw", "muon"] | None] = "muon"
    thins: ClassVar[bool] = True

    def __init__(self, plan: NetworkPlan, settings: Settings) -> None:
        super().__init__(plan, settings)
        decay = settings.plus.teacher_decay
        self.teachers = nn.ModuleList(Teacher(network, decay) for network in self.networks)

    @classmethod
    def label_source(cls, settings: Settings) -> LabelSource:
        """The fused view, where the other methods take each plane's."""
        source = super().label_source(settings)
        return "fused" if source == "planes" else source

    @classmethod
    def patches_each(cls, settings: Settings) -> int:
        """Half of them."""
        return sum((count + 1) // 2 for count in cls.batch_sizes(settings))

    @property
    def levels(self) -> bool:
        """As the setting says."""
        return self.settings.plus.levels

    def losses(self, batch: Batch, progress: float) -> Losses:
        """For each network the loss on labels (Eq. 5), that to what the other's mean says, and
        that of outlines where the image has no edge.
        """
        options = self.settings.plus
        trust = options.weight * min(1.0, progress / options.ramp)
        losses = Losses()
        losses.log(alpha=self.slice_decay(progress), trust=trust)
        jobs = [partial(self.learn, index, own_part(batch, index), progress) for index in range(2)]
        learned = abreast(jobs, batch.labeled.device)
        for index, (segmentation, teaching, edges, dice) in enumerate(learned):
            losses.add(index, segmentation=segmentation, teaching=trust * teaching)
            losses.add(index, edges=options.edges * edges)
            losses.log(dice_drawn=dice)
        return losses

    def learn(
        self, index: int, batch: Batch, progress: float
    ) -> tuple[Tensor, Tensor, Tensor, float]:
        """What network `index` loses on its part of a batch: to the labels, to the other's mean,
        to the image's edges; and its Dice where somebody drew.
        """
        options = self.settings.plus
        images, (labeled, unlabeled) = batch.images, batch.sizes
        labels, weights, drawn, empty = self.known(batch, progress)
        taught = without_targets(self.teach(images, 1 - index), empty)
        mine = Lesson(images, labels, weights, drawn, taught)
        if unlabeled and _chance() < options.exchange:
            mine = exchange_boxes(mine, labeled)
        scores = self.networks[index](mine.images.contiguous(memory_format=torch.channels_last_3d))
        return (
            segmentation_loss(scores, mine.labels, mine.weights),
            teaching_loss(scores, mine.taught, 1.0 - mine.weights, dice=options.dice),
            edge_loss(scores, mine.images, options.edge_spread),
            hard_dice(scores, mine.labels, mine.drawn),
        )

    def known(self, batch: Batch, progress: float) -> tuple[Tensor, ...]:
        """Labels, their weights, what was drawn and what is surely empty, of all patches; nothing
        of unlabelled ones.
        """
        fused, weight = batch.views[0], self.label_weight(batch, progress)
        nothing = weight.new_zeros((batch.sizes[1], *weight.shape[1:]))
        labels = torch.cat([fused.label, nothing.to(fused.label.dtype)])
        drawn = torch.cat([fused.distance == 0, nothing.bool()])
        views = self.label_source(self.settings) != "drawn"  # that know of all that is in a scan
        empty = surely_empty(fused) if views else torch.zeros_like(fused.label, dtype=torch.bool)
        return labels, torch.cat([weight, nothing]), drawn, torch.cat([empty, nothing.bool()])

    def label_weight(self, batch: Batch, progress: float) -> Float[Tensor, "L I J K"]:
        """α ** distance, and `doubt` times that where a plane's own view does not say the same of
        whether there is a target; which one is for all planes together to say.
        """
        fused, *planes = batch.views
        weight = slice_weight(fused.distance, self.slice_decay(progress))
        disputed = torch.zeros_like(fused.label, dtype=torch.bool)
        for plane in planes:
            apart = (plane.label > 0) != (fused.label > 0)
            disputed |= apart & (plane.distance != NEVER)
        doubted = torch.where(disputed, self.settings.plus.doubt * weight, weight)
        return torch.where(fused.distance == 0, weight, doubted)

    def slice_decay(self, progress: float) -> float:
        """α, which falls in a line."""
        options = self.settings.plus
        return options.decay + (options.decay_end - options.decay) * progress

    @torch.no_grad()
    def teach(self, image: Float[Tensor, "B C I J K"], index: int) -> Float[Tensor, "B C2 I J K"]:
        """What one teacher says, made sharper: a softmax of a lower temperature."""
        teacher = self.teachers[index]
        assert isinstance(teacher, Teacher)
        scores = teacher.scores(image.contiguous(memory_format=torch.channels_last_3d))
        return (scores[:, : self.classes] / self.settings.plus.temperature).softmax(dim=1)

    def after_step(self, progress: float) -> None:
        """The teachers follow."""
        for teacher, network in zip(self.teachers, self.networks, strict=True):
            assert isinstance(teacher, Teacher)
            teacher.follow(network)


def surely_empty(view: View) -> Bool[Tensor, "L I J K"]:
    """Where a view that knows all of a scan rules a target out: more than `_FAR` voxels, along some
    axis, from all that it calls one, and beyond the scan, whose border a patch repeats.
    """
    near = view.label > 0
    for axis in (1, 2, 3):
        near = spread(near, axis, _FAR)
    return ~near | (view.distance == NEVER)


def spread(marked: Bool[Tensor, "..."], axis: int, reach: int) -> Bool[Tensor, "..."]:
    """Marked and all within `reach` voxels of it along an axis: reaches that double are joined, so
    eight voxels cost four steps in place of seventeen.
    """
    done = 0
    while done < reach:
        step = min(done + 1, reach - done)
        wider = marked.clone()
        length = marked.shape[axis] - step
        if length > 0:
            low, high = marked.narrow(axis, 0, length), marked.narrow(axis, step, length)
            wider.narrow(axis, 0, length).logical_or_(high)
            wider.narrow(axis, step, length).logical_or_(low)
        marked, done = wider, done + step
    return marked


def without_targets(
    taught: Float[Tensor, "B C I J K"], empty: Bool[Tensor, "B I J K"]
) -> Float[Tensor, "B C I J K"]:
    """Probabilities that are certain of background in the empty voxels."""
    certain = torch.zeros_like(taught)
    certain[:, 0] = 1.0
    return torch.where(empty[:, None], certain, taught)


def own_part(batch: Batch, index: int) -> Batch:
    """The patches of network `index`: every second of each kind, all where there is but one."""
    labeled, unlabeled = (
        slice(index, None, 2) if count > 1 else slice(None) for count in batch.sizes
    )
    views = tuple(View(view.label[labeled], view.distance[labeled]) for view in batch.views)
    first, second = batch.cases[: batch.sizes[0]], batch.cases[batch.sizes[0] :]
    cases = (*first[labeled], *second[unlabeled])
    return Batch(batch.labeled[labeled], batch.unlabeled[unlabeled], views, cases)


def exchange_boxes(lesson: Lesson, labeled: int) -> Lesson:
    """Each labelled patch and an unlabelled one exchange what lies in the same random box."""
    mixed = Lesson(*(each.clone() for each in lesson))
    for one in range(min(labeled, len(lesson.images) - labeled)):
        other, box = labeled + one, _box(lesson.images.shape[2:])
        for new, old in zip(mixed, lesson, strict=True):
            new[one][box] = old[other][box]
            new[other][box] = old[one][box]
    return mixed


def _box(shape: Sequence[int]) -> tuple[Any, ...]:
    """A random box within a patch, whatever its channels."""
    sides: list[Any] = [...]
    for side in shape:
        low, high = _BOX
        length = max(1, int(side * (low + (high - low) * _chance())))
        start = int((side - length + 1) * _chance())
        sides.append(slice(start, start + length))
    return tuple(sides)


def _chance() -> float:
    """A number from 0 to 1, without the 1."""
    return torch.rand((), generator=generator()).item()
