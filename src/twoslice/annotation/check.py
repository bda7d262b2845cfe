"""Everything that can be wrong with a dataset before anything is trained on it, a line a fault.

A fault never stops the check: the next case is looked at, and all faults are listed at the end.
A dataset in which nothing is drawn yet, or in which every label is dense (for `simulate`), is
sound as far as it goes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from twoslice.annotation.choice import SCHEMES, Scheme
from twoslice.annotation.crossing import broken_lines
from twoslice.annotation.reading import DenseLabelError, describe, read_annotation
from twoslice.annotation.simulate import RECORD
from twoslice.annotation.types import SparseAnnotation
from twoslice.errors import InputError
from twoslice.io.dataset import Dataset
from twoslice.io.layout import Case
from twoslice.planes import Plane
from twoslice.progress import Progress, Silent


@dataclass(frozen=True)
class Fault:
    """One thing to mend: in which case ('' for the dataset as a whole), and what and how."""

    case: str
    message: str

    def __str__(self) -> str:
        return f"case {self.case}: {self.message}" if self.case else self.message


def check_dataset(
    root: Path, *, scheme: Scheme | None = None, progress: Progress | None = None
) -> list[Fault]:
    """Read every scan and label of a dataset folder and list what is wrong with them.

    `scheme` says how the slices of a scan should lie; without it, what `simulate` wrote down
    counts, and orthogonal otherwise.
    """
    incomplete: dict[str, str] = {}
    try:
        dataset = Dataset.open(root, faults=incomplete)
    except InputError as error:
        return [Fault("", str(error))]
    scheme = scheme or _recorded_scheme(root)
    faults = [Fault(case, message) for case, message in incomplete.items()]
    drawn: dict[str, SparseAnnotation] = {}
    dense: list[Fault] = []
    cases = [*dataset.cases.values(), *dataset.test_cases.values()]
    with (progress or Silent()).task("check", total=len(cases)) as task:
        for case in cases:
            messages = [*_image_faults(dataset, case)]
            found = _read_drawn(dataset, case) if case.name in dataset.cases else None
            if isinstance(found, DenseLabelError):
                dense.append(Fault(case.name, str(found).removeprefix(f"case {case.name}: ")))
            elif isinstance(found, str):
                messages.append(found)
            elif found is not None:
                drawn[case.name] = found
                messages += annotation_faults(found, scheme)
            # A broken image may be met twice, since a label is compared with its grid.
            faults += [Fault(case.name, message) for message in dict.fromkeys(messages)]
            task.advance(note=case.name)
    if drawn:  # Among scans with a few slices, one that is painted all over is a mistake.
        faults = sorted([*faults, *dense], key=lambda fault: fault.case)
    if not (drawn or dense or faults) and any(case.label for case in dataset.cases.values()):
        faults.append(_nothing_drawn(dataset))
    return [*faults, *_same_drawings(drawn), *_classes_never_shown(dataset, drawn)]


def annotation_faults(annotation: SparseAnnotation, scheme: Scheme) -> Iterator[str]:
    """What is wrong with the drawn slices of one scan."""
    slots = [(each.plane, each.index) for each in annotation.slices]
    if not slots:
        yield "nothing is drawn in its label file. Draw its slices, or remove the file."
        return
    for each in annotation.slices:
        if not each.mask.any():
            yield (
                f"{each.plane} slice {each.index} is drawn without any target on it. Draw a slice "
                f"that shows the target, or set this one to ignore."
            )
    if scheme == "orthogonal" and len(annotation.planes) < 2:
        yield _not_orthogonal(annotation)
    elif scheme != "parallel":
        yield from _copied_slices(annotation)
    yield from broken_lines(annotation)


def _not_orthogonal(annotation: SparseAnnotation) -> str:
    (plane,) = annotation.planes
    indices = [each.index for each in annotation.in_plane(plane)]
    others = " or ".join(other.value for other in reversed(Plane) if other != plane)
    many = {1: "the only drawn slice is", 2: "both drawn slices are"}
    said = many.get(len(indices), f"all {len(indices)} drawn slices are")
    instead = "single" if len(indices) == 1 else "parallel"
    return (
        f"{said} {plane} ({', '.join(map(str, indices))}). Orthogonal annotation needs two planes: "
        f"draw a {others} slice, or set annotation.scheme={instead}."
    )


def _copied_slices(annotation: SparseAnnotation) -> Iterator[str]:
    """Two slices of one plane with exactly the same drawing: one was copied to a wrong index."""
    for plane in annotation.planes:
        for one, other in combinations(annotation.in_plane(plane), 2):
            if one.mask.any() and np.array_equal(one.mask, other.mask):
                yield (
                    f"{plane} slices {one.index} and {other.index} carry the same drawing. Keep "
                    f"the one that belongs there and set the other to ignore."
                )


def _image_faults(dataset: Dataset, case: Case) -> Iterator[str]:
    try:
        image = dataset.read_image(case.name)
    except InputError as error:
        yield str(error)
        return
    for path, channel in zip(case.images, image.data, strict=True):
        if channel.min() == channel.max():
            yield (
                f"{path}: every voxel has the same value, {channel.flat[0]:g}. Export the scan "
                f"again, or leave the case out."
            )


def _read_drawn(dataset: Dataset, case: Case) -> SparseAnnotation | DenseLabelError | str | None:
    """The drawn slices of a case, None if it is unlabelled, or why they cannot be read."""
    try:
        return read_annotation(dataset, case.name) if case.name in dataset.labeled else None
    except DenseLabelError as error:
        return error
    except InputError as error:
        return str(error).removeprefix(f"case {case.name}: ")


def _same_drawings(drawn: dict[str, SparseAnnotation]) -> Iterator[Fault]:
    """Cases that carry exactly another case's slices: a label saved under a wrong name."""
    seen: dict[bytes, str] = {}
    for case, annotation in drawn.items():
        if not any(each.mask.any() for each in annotation.slices):
            continue
        labels = annotation.label_map(elsewhere=255)
        twin = seen.setdefault(bytes(str(labels.shape), "ascii") + labels.tobytes(), case)
        if twin != case:
            slots = describe((each.plane, each.index) for each in annotation.slices)
            yield Fault(
                case,
                f"carries exactly the drawing of case {twin} ({slots}). One of the two was saved "
                f"under a wrong name: draw it anew.",
            )


def _nothing_drawn(dataset: Dataset) -> Fault:
    return Fault(
        "",
        f"{dataset.root / 'labelsTr'}: has label files, but no slice is drawn in any of the "
        f"{len(dataset.cases)} scans. Draw two slices in a few of them.",
    )


def _classes_never_shown(dataset: Dataset, drawn: dict[str, SparseAnnotation]) -> Iterator[Fault]:
    """Labels that nothing could learn, since no drawn slice shows them."""
    slices = [each for annotation in drawn.values() for each in annotation.slices]
    if not slices:
        return
    shown = {int(value) for each in slices for value in np.unique(each.mask)}
    for name, value in dataset.labels.items():
        if value != 0 and value not in shown:
            yield Fault(
                "",
                f"{dataset.root}: label {value} ({name}) shows on none of the {len(slices)} drawn "
                f"slices. Draw a slice that shows it, or take it out of dataset.json.",
            )


def _recorded_scheme(root: Path) -> Scheme:
    """The scheme that `simulate` wrote down, else orthogonal."""
    try:
        written = json.loads((root / RECORD).read_text(encoding="utf-8")).get("scheme")
    except (OSError, ValueError, AttributeError):
        return "orthogonal"
    return next((scheme for scheme in SCHEMES if scheme == written), "orthogonal")
