"""Which labels are one piece, as far as the drawn slices tell."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from twoslice.annotation.types import SparseAnnotation

MOSTLY = 2 / 3
"""The share of a label's slices that must show one piece."""
SPECK = 0.1
"""A piece smaller than this share of the slice's largest one is a slip of the pen, or the tip of
something that the slice grazes."""


def single_labels(annotations: Iterable[SparseAnnotation], classes: int) -> tuple[int, ...]:
    """The labels that nearly every slice which shows them shows in one piece.

    A pair of kidneys under one label, or lesions here and there, come in several pieces on many
    slices, and are none of these.
    """
    from scipy import ndimage

    shown, single = np.zeros(classes), np.zeros(classes)
    for annotation in annotations:
        for drawn in annotation.slices:
            for value in range(1, classes):
                numbered = np.zeros(drawn.mask.shape, np.int32)
                if ndimage.label(drawn.mask == value, np.ones((3, 3)), output=numbered):
                    sizes = np.bincount(numbered.ravel())[1:]
                    shown[value] += 1
                    single[value] += np.count_nonzero(sizes >= SPECK * sizes.max()) == 1
    return tuple(value for value in range(1, classes) if 0 < shown[value] * MOSTLY <= single[value])
