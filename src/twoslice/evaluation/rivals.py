"""Rivals of a label map: maps of the same scan come by in another way, which should look the same.

`folds` are the trainings that left some of the labelled scans out: other networks, taught by other
slices. `carried` is made of two slices of the label map itself, carried through the scan by
registration as drawn ones are: where outlines do not follow the image, the two part.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.choice import choose_slices, wishes
from twoslice.annotation.reading import annotation_at
from twoslice.errors import AnnotationError
from twoslice.planes import Plane
from twoslice.propagation.views import FUSED
from twoslice.settings import PropagationSettings

Labels = NDArray[np.uint8]


def dice_by_label(one: Labels, other: Labels, classes: int) -> list[float]:
    """The Dice of two label maps, a value a foreground label; 0 where neither shows it."""
    shared = np.bincount(one[one == other].ravel(), minlength=classes)
    both = np.bincount(one.ravel(), minlength=classes) + np.bincount(
        other.ravel(), minlength=classes
    )
    return [round(float(2 * s / max(1, b)), 5) for s, b in zip(shared[1:], both[1:], strict=True)]


def carried(
    image: NDArray[np.float32],
    labels: Labels,
    *,
    classes: int,
    spacing: tuple[float, float, float],
    planes: Sequence[Plane],
) -> list[float]:
    """How well two slices of a label map, carried through the image (C, I, J, K), give it back."""
    from twoslice.propagation.propagate import propagate_scan

    try:
        slots = choose_slices(labels, classes=classes, wanted=wishes("orthogonal", planes))
        found = propagate_scan(
            image,
            annotation_at(labels, slots),
            classes=classes,
            spacing=spacing,
            settings=PropagationSettings(cycle=False),
        )
    except AnnotationError:  # nothing was found in the scan, so there is nothing to carry
        return [0.0] * (classes - 1)
    return dice_by_label(labels, found.views[FUSED].label, classes)
