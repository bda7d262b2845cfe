"""Random annotations, and small dense datasets on disk, for the tests of this folder."""

from __future__ import annotations

import json
from itertools import permutations, product
from pathlib import Path

import nibabel as nib
import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from twoslice.annotation.cover import Slot
from twoslice.annotation.reading import annotation_at
from twoslice.annotation.types import SparseAnnotation
from twoslice.planes import Plane

IGNORE = 3


@st.composite
def slots_within(draw: st.DrawFn, shape: tuple[int, int, int], most: int = 2) -> list[Slot]:
    """One or more slices, at least one slice of every plane left undrawn."""
    slots: list[Slot] = []
    for plane in Plane:
        side = shape[plane.axis]
        indices = st.sets(st.integers(0, side - 1), max_size=min(most, side - 1))
        slots += [(plane, index) for index in sorted(draw(indices))]
    if not slots:
        slots = [(Plane.AXIAL, draw(st.integers(0, shape[2] - 1)))]
    return slots


@st.composite
def annotations(draw: st.DrawFn) -> SparseAnnotation:
    """Any few slices, of any labels from 0 up to, but without, IGNORE."""
    side = st.integers(2, 7)
    shape = (draw(side), draw(side), draw(side))
    slots = draw(slots_within(shape))
    seed = draw(st.integers(0, 2**32 - 1))
    labels = np.random.default_rng(seed).integers(0, IGNORE, shape)
    return annotation_at(labels, slots)


@st.composite
def affines(draw: st.DrawFn) -> NDArray[np.float64]:
    """Every axis order and flip, with unequal spacing."""
    order = draw(st.sampled_from(list(permutations(range(3)))))
    signs = draw(st.sampled_from(list(product((-1.0, 1.0), repeat=3))))
    affine = np.eye(4)
    affine[:3, :3] = np.eye(3)[:, list(order)] * np.array(signs) * np.array([0.7, 1.1, 2.5])
    affine[:3, 3] = (12.0, -30.0, 5.5)
    return affine


def layout(annotation: SparseAnnotation) -> list[Slot]:
    """The slices of an annotation without what is drawn on them."""
    return [(drawn.plane, drawn.index) for drawn in annotation.slices]


def equal(one: SparseAnnotation, other: SparseAnnotation) -> bool:
    """The same slices with the same pixels, in whatever order."""
    first = {(drawn.plane, drawn.index): drawn.mask for drawn in one.slices}
    second = {(drawn.plane, drawn.index): drawn.mask for drawn in other.slices}
    return (
        one.shape == other.shape
        and first.keys() == second.keys()
        and all(np.array_equal(first[slot], second[slot]) for slot in first)
    )


def ball(
    shape: tuple[int, int, int], centre: tuple[float, float, float], radius: float
) -> NDArray[np.bool_]:
    """A ball of voxels."""
    offset = np.indices(shape) - np.reshape(centre, (3, 1, 1, 1))
    return np.asarray((offset**2).sum(axis=0) <= radius**2)


def two_balls(shape: tuple[int, int, int] = (20, 18, 16)) -> NDArray[np.uint8]:
    """A dense label of two classes that share slices of every plane."""
    labels = np.zeros(shape, dtype=np.uint8)
    labels[ball(shape, (7, 8, 7), 4.5)] = 1
    labels[ball(shape, (13, 11, 9), 3.5)] = 2
    return labels


def write_dense(
    root: Path,
    labels: dict[str, NDArray[np.uint8] | None],
    *,
    names: tuple[str, ...] = ("background", "left", "right"),
    ignore: int | None = None,
    affine: NDArray[np.float64] | None = None,
) -> Path:
    """A dataset folder written with nibabel alone; a case whose label is None is unlabelled."""
    affine = np.diag([-1.0, -1.0, 2.5, 1.0]) if affine is None else affine
    for folder in ("imagesTr", "labelsTr"):
        (root / folder).mkdir(parents=True)
    for number, (case, label) in enumerate(labels.items()):
        shape = (20, 18, 16) if label is None else label.shape
        noise = np.random.default_rng(number).normal(100, 10, shape).astype(np.float32)
        nib.save(nib.Nifti1Image(noise, affine), root / "imagesTr" / f"{case}_0000.nii.gz")
        if label is not None:
            nib.save(nib.Nifti1Image(label, affine), root / "labelsTr" / f"{case}.nii.gz")
    numbered = {name: value for value, name in enumerate(names)}
    if ignore is not None:
        numbered["ignore"] = ignore
    description = {
        "channel_names": {"0": "MRI"},
        "labels": numbered,
        "numTraining": len(labels),
        "file_ending": ".nii.gz",
    }
    (root / "dataset.json").write_text(json.dumps(description), encoding="utf-8")
    return root
