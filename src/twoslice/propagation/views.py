"""LabelView: one plane's dense pseudo label, and how far each voxel is from its source slice."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.types import SparseAnnotation
from twoslice.errors import DatasetError
from twoslice.io.dataset import Dataset
from twoslice.io.grid import Shape
from twoslice.io.scans import read_label_map
from twoslice.planes import Plane

FUSED = "fused"
FOLDER = "propagated"


@dataclass(frozen=True, eq=False)
class LabelView:
    """`label` is (I, J, K), RAS: the dense pseudo label mixed with the drawn slices. `distance`
    is as large: slices to the source slice, 0 on every drawn voxel; of the fused view, the
    smallest over the planes. `name` is a plane's, or `fused`.
    """

    name: str
    label: NDArray[np.uint8]
    distance: NDArray[np.int16]


def mix(label: NDArray[np.uint8], annotation: SparseAnnotation) -> NDArray[np.uint8]:
    """Eq. 1: the drawn slices of all planes take the place of the dense pseudo label."""
    mixed = label.copy()
    for drawn in annotation.slices:
        mixed[drawn.plane.slice(drawn.index)] = drawn.mask
    return mixed


def distance_map(
    shape: Shape, slots: Iterable[tuple[Plane, int]], planes: Iterable[Plane]
) -> NDArray[np.int16]:
    """The distance m of Eq. 2: slices to the nearest drawn one in any of `planes`, and 0 on every
    drawn voxel, of whatever plane. The weight α ** m is computed where it is used.
    """
    known = list(slots)
    distance = np.full(shape, np.iinfo(np.int16).max, dtype=np.int16)
    for plane in planes:
        indices = [index for drawn, index in known if drawn == plane]
        if not indices:
            continue
        away = np.abs(np.subtract.outer(np.arange(shape[plane.axis]), indices)).min(axis=1)
        along = [1, 1, 1]
        along[plane.axis] = -1
        np.minimum(distance, away.astype(np.int16).reshape(along), out=distance)
    for plane, index in known:
        distance[plane.slice(index)] = 0
    return distance


def view_path(folder: Path, case: str, name: str) -> Path:
    """Where a view lies."""
    return folder / f"{case}_{name}.nii.gz"


def record_path(folder: Path, case: str) -> Path:
    """Where a case's slices and quality lie; written last, so that its being there means done."""
    return folder / f"{case}.json"


def read_record(folder: Path, case: str) -> dict[str, Any]:
    """What propagation wrote down about a case."""
    path = record_path(folder, case)
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DatasetError(
            f"case {case}: has no label views in {folder}. Run 'twoslice propagate' first."
        ) from None
    except (OSError, ValueError):
        tree = None
    if not isinstance(tree, dict) or "slices" not in tree or "views" not in tree:
        raise DatasetError(f"{path}: is damaged. Delete it and run 'twoslice propagate' again.")
    return tree


def read_view(dataset: Dataset, case: str, name: str) -> LabelView:
    """One view of a case, `axial`, `coronal`, `sagittal` or `fused`."""
    folder = dataset.root / FOLDER
    record = read_record(folder, case)
    if name not in record["views"]:
        known = ", ".join(record["views"])
        raise DatasetError(f"case {case}: has no {name} view. There are: {known}.")
    return _read(dataset, case, name, record)


def read_views(dataset: Dataset, case: str) -> dict[str, LabelView]:
    """All views of a case by name: one a drawn plane, in the order drawn, and the fused one."""
    record = read_record(dataset.root / FOLDER, case)
    return {name: _read(dataset, case, name, record) for name in record["views"]}


def _read(dataset: Dataset, case: str, name: str, record: dict[str, Any]) -> LabelView:
    path = view_path(dataset.root / FOLDER, case, name)
    labels = read_label_map(path)
    image = dataset.read_grid(case)
    if not labels.grid.same_as(image):
        raise DatasetError(
            f"{path}: lies on another grid than its image. Delete it and run 'twoslice propagate' "
            f"again."
        )
    slots = [(Plane(each["plane"]), int(each["index"])) for each in record["slices"]]
    planes = list(dict.fromkeys(plane for plane, _ in slots)) if name == FUSED else [Plane(name)]
    distance = distance_map(labels.shape, slots, planes)
    return LabelView(name, labels.data.astype(np.uint8), distance)
