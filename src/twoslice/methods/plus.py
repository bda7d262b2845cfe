"""Plus: the drawn slices, the fused label view and the unlabelled scans in one network
(docs/plus.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from twoslice.methods.base import Batch, LabelSource, Losses, Method
from twoslice.methods.teacher import Teacher
from twoslice.networks.build import NetworkPlan
from twoslice.objectives.agreement import hard_dice
from twoslice.objectives.losses import segmentation_loss
from twoslice.objectives.weights import NEVER, slice_weight
from twoslice.settings import Settings

_BOX = (0.4, 0.8)
"""The least and the largest share of a patch's side that changes places."""


class Lesson(NamedTuple):
    """Patches, what is said of their voxels, how much each of it counts, and what was drawn."""

    images: Float[Tensor, "B C I J K"]
    labels: Int[Tensor, "B I J K"]
    weights: Float[Tensor, "B I J K"]
    drawn: Bool[Tensor, "B I J K"]


class Plus(Method):
    """One network. Labelled scans teach it by the fused view, the less the farther from a drawn
    slice and the less where the planes disagree; unlabelled ones by the exponential mean of itself,
    the less the less certain that is. Labelled and unlabelled patches exchange boxes, so that
    what was drawn is seen beside tissue of all scans.
    """

    patches: ClassVar[tuple[int, int]] = (2, 2)
    thins: ClassVar[bool] = True

    def __init__(self, plan: NetworkPlan, settings: Settings) -> None:
        super().__init__(plan, settings)
        self.teacher = Teacher(self.networks[0], settings.plus.teacher_decay)

    @classmethod
    def label_source(cls, settings: Settings) -> LabelSource:
        """The fused view, where the other methods take each plane's."""
        source = super().label_source(settings)
        return "fused" if source == "planes" else source

    def losses(self, batch: Batch, progress: float) -> Losses:
        """One weighted loss (Eq. 5) over what labels and teacher say, boxes exchanged."""
        options = self.settings.plus
        trust = options.weight * min(1.0, progress / options.ramp)
        fused, weight = batch.views[0], self.label_weight(batch, progress)
        lesson = Lesson(batch.labeled, fused.label, weight, fused.distance == 0)
        figures = {"alpha": self.slice_decay(progress), "trust": trust}
        if batch.sizes[1]:
            pseudo, certainty = self.teach(batch.unlabeled)
            figures["mask_fraction"] = float(certainty.mean())
            none = torch.zeros_like(pseudo, dtype=torch.bool)
            taught = Lesson(batch.unlabeled, pseudo, trust * certainty, none)
            pairs = zip(lesson, taught, strict=True)
            lesson = Lesson(*(torch.cat(pair) for pair in pairs))
            if torch.rand(()) < options.exchange:
                lesson = exchange_boxes(lesson, batch.sizes[0])
        images = lesson.images.contiguous(memory_format=torch.channels_last_3d)
        scores = self.networks[0](images)
        losses = Losses()
        losses.add(segmentation=segmentation_loss(scores, lesson.labels, lesson.weights))
        losses.log(**figures, dice_drawn=hard_dice(scores, lesson.labels, lesson.drawn))
        return losses

    def label_weight(self, batch: Batch, progress: float) -> Float[Tensor, "L I J K"]:
        """α ** distance, and `doubt` times that where a plane's own view says something else."""
        fused, *planes = batch.views
        weight = slice_weight(fused.distance, self.slice_decay(progress))
        disputed = torch.zeros_like(fused.label, dtype=torch.bool)
        for plane in planes:
            disputed |= (plane.label != fused.label) & (plane.distance != NEVER)
        doubted = torch.where(disputed, self.settings.plus.doubt * weight, weight)
        return torch.where(fused.distance == 0, weight, doubted)

    def slice_decay(self, progress: float) -> float:
        """α, which falls in a line."""
        options = self.settings.plus
        return options.decay + (options.decay_end - options.decay) * progress

    @torch.no_grad()
    def teach(
        self, image: Float[Tensor, "U C I J K"]
    ) -> tuple[Int[Tensor, "U I J K"], Float[Tensor, "U I J K"]]:
        """The teacher's labels, and its certainty: 0 where all classes are alike, 1 at no doubt."""
        best = self.teacher.scores(image)[:, : self.classes].softmax(dim=1).max(dim=1)
        chance = 1.0 / self.classes
        return best.indices, ((best.values - chance) / (1.0 - chance)) ** 2

    def after_step(self, progress: float) -> None:
        """The teacher follows."""
        self.teacher.follow(self.networks[0])


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
    """A random box within a patch, whatever its channels, from PyTorch's random state."""
    sides: list[Any] = [...]
    for side in shape:
        low, high = _BOX
        length = max(1, int(side * (low + (high - low) * torch.rand(()).item())))
        start = int(torch.randint(0, side - length + 1, ()).item())
        sides.append(slice(start, start + length))
    return tuple(sides)
