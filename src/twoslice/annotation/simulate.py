"""From a densely labelled dataset to a sparse one: keep a few slices of N cases, hide the rest.

The new dataset holds the images byte for byte (as .nii.gz where one image is not one file that can
be copied and written, as in .mhd), `labelsTr` with nothing but the chosen slices (and
`ignore` everywhere else) for the labelled cases alone, `simulate.json` with what was chosen, and
`dense/` with every dense label, which only evaluation may read. `imagesTs` is not carried over.
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.choice import Choice, Scheme, Wish, choose_slices, wishes
from twoslice.annotation.cover import Slot
from twoslice.annotation.reading import annotation_at, annotation_from_labels, describe
from twoslice.annotation.relabeling import Relabeling
from twoslice.errors import AnnotationError, SettingsError
from twoslice.io import atomic
from twoslice.io.dataset import Dataset, write_description
from twoslice.io.importing import ENDING, compact
from twoslice.io.scans import is_writable, read_scan, write_image, write_labels
from twoslice.planes import Plane
from twoslice.progress import Progress, Silent

DENSE = "dense"
RECORD = "simulate.json"


def simulate(
    dense: Dataset,
    out: Path,
    *,
    labeled: int,
    planes: Sequence[Plane] = (Plane.AXIAL, Plane.CORONAL),
    choice: Choice = "middle",
    scheme: Scheme = "orthogonal",
    seed: int = 0,
    cases: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    choose: Literal["first", "random"] = "first",
    whole: bool = False,
    slices: Sequence[Slot] | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Write to `out` a dataset that keeps the slices of `labeled` cases and hides all other labels.

    `cases` keeps only these cases, in this order; the first `labeled` of them (or as many at
    random) get slices. `labels` keeps only these labels, numbered anew; others become background.
    With `whole` the labelled cases keep their labels whole: for `training.setting: full`. `slices`
    are the same in every case, whatever scheme, planes and choice say.
    """
    progress = progress or Silent()
    _refuse_inside(dense, out)
    if slices:
        scheme, planes = _scheme_of(slices)
    names = _kept_cases(dense, cases)
    relabel = Relabeling.keeping(dense, labels)
    wanted = wishes(scheme, planes)
    chosen_cases = _labeled_cases(dense, names, labeled, choose, seed)
    chosen: dict[str, _Chosen] = {}
    if not whole:
        chooser = _Chooser(dense, relabel, wanted, choice, seed, tuple(slices or ()))
        chosen = chooser.in_cases(chosen_cases)
    with atomic.whole_folder(out) as folder:
        with progress.task("simulate", total=len(names)) as task:
            for name in names:
                kept = _WHOLE if whole and name in chosen_cases else chosen.get(name)
                _write_case(dense, name, folder, relabel, kept)
                task.advance(note=name)
        write_description(
            folder,
            name=out.name,
            channel_names=dense.channel_names,
            labels=relabel.labels,
            ignore=relabel.ignore,
            file_ending=_ending(dense),
        )
        record = {"from": dense.name, "scheme": scheme, "choice": choice, "seed": seed}
        if whole:
            record = {"from": dense.name, "scheme": "whole", "seed": seed}
        cases_kept = chosen_cases if whole else _in_words(chosen, relabel)
        atomic.write_json(folder / RECORD, record | {"cases": cases_kept})
    return Dataset.open(out)


def _scheme_of(slices: Sequence[Slot]) -> tuple[Scheme, tuple[Plane, ...]]:
    """How given slices lie."""
    if len(set(slices)) < len(slices):
        raise SettingsError(f"slices are {describe(slices)}. Name each slice once.")
    planes = tuple(dict.fromkeys(plane for plane, _ in slices))
    return "orthogonal" if len(planes) > 1 else "parallel" if len(slices) > 1 else "single", planes


def _refuse_inside(dense: Dataset, out: Path) -> None:
    if out.resolve().is_relative_to(dense.root.resolve()):
        raise SettingsError(
            f"{out}: lies in the dataset that the slices are taken from. Name an --out beside it."
        )


def _ending(dense: Dataset) -> str:
    """How the new files end: as the old ones do, if such a file can be copied and written."""
    return dense.file_ending if is_writable(f"a{dense.file_ending}") else ENDING


def _kept_cases(dense: Dataset, cases: Sequence[str] | None) -> list[str]:
    if cases is None:
        return list(dense.cases)
    strange = [name for name in cases if name not in dense.cases]
    if strange:
        raise SettingsError(f"{dense.root}: has no case '{strange[0]}'. See imagesTr.")
    twice = [name for name in cases if list(cases).count(name) > 1]
    if twice:
        raise SettingsError(f"case '{twice[0]}' is named twice. Name each case once.")
    return list(cases)


def _labeled_cases(
    dense: Dataset,
    names: Sequence[str],
    labeled: int,
    choose: Literal["first", "random"],
    seed: int,
) -> list[str]:
    """The cases that get slices."""
    able = [name for name in names if dense.cases[name].label is not None]
    if not 1 <= labeled <= len(able):
        raise SettingsError(
            f"{dense.root}: {labeled} labelled case(s) asked for, but {len(able)} of {len(names)} "
            f"case(s) have a dense label. Ask for 1 to {len(able)}."
        )
    if choose == "first":
        return able[:labeled]
    order = np.random.default_rng(seed).permutation(len(able))
    return [able[index] for index in sorted(order[:labeled])]


@dataclass(frozen=True)
class _Chooser:
    """Chooses the slices of one case after the other."""

    dense: Dataset
    relabel: Relabeling
    wanted: Sequence[Wish]
    choice: Choice
    seed: int
    fixed: tuple[Slot, ...] = ()

    def in_case(self, case: str, prefer: frozenset[int] = frozenset()) -> _Chosen:
        """The slices of one case and the classes that they show."""
        labels, _ = self.relabel.read(self.dense, case)
        self._refuse_sparse(case, labels)
        slots = self._within(case, labels) if self.fixed else self._choose(case, labels, prefer)
        values = {int(v) for plane, index in slots for v in np.unique(plane.take(labels, index))}
        return _Chosen(slots, frozenset(values - {0}))

    def _choose(
        self, case: str, labels: NDArray[np.uint8], prefer: frozenset[int]
    ) -> tuple[Slot, ...]:
        try:
            return choose_slices(
                labels,
                classes=self.relabel.ignore,
                wanted=self.wanted,
                choice=self.choice,
                # The case's own name is in the seed: its slices do not depend on the other cases.
                seed=(self.seed, zlib.crc32(case.encode())),
                prefer=prefer,
            )
        except AnnotationError as error:
            raise AnnotationError(f"case {case}: {error}") from None

    def _within(self, case: str, labels: NDArray[np.uint8]) -> tuple[Slot, ...]:
        """The fixed slices, if the case is large enough for them."""
        for plane, index in self.fixed:
            if not 0 <= index < labels.shape[plane.axis]:
                raise AnnotationError(
                    f"case {case}: has {labels.shape[plane.axis]} {plane} slices, so none of index "
                    f"{index}. Name one that every labelled case has."
                )
        return self.fixed

    def _refuse_sparse(self, case: str, labels: NDArray[np.uint8]) -> None:
        """Refuse a label that reads as drawn slices amid `ignore`; a few ignored voxels may be."""
        if not (labels == self.relabel.ignore).any():
            return
        try:
            drawn = annotation_from_labels(labels, ignore=self.relabel.ignore).slices
        except AnnotationError:
            return  # more than drawn slices: a dense label with some of it ignored
        if drawn:
            slices = describe((each.plane, each.index) for each in drawn[:6])
            raise AnnotationError(
                f"{self.dense.cases[case].label}: is sparse already ({slices}"
                f"{', …' if len(drawn) > 6 else ''}; all else is ignore). Simulate needs dense "
                f"labels: train on this dataset as it is."
            )

    def in_cases(self, cases: Sequence[str]) -> dict[str, _Chosen]:
        """The slices of all cases, such that every class shows on at least one of them."""
        chosen = {case: self.in_case(case) for case in cases}
        everything = frozenset(range(1, self.relabel.ignore))
        for case in cases:
            others = _shown([chosen[other] for other in cases if other != case])
            if everything <= others | chosen[case].shown:
                break
            better = self.in_case(case, prefer=everything - others)
            if len(others | better.shown) > len(others | chosen[case].shown):
                chosen[case] = better
        missing = everything - _shown(chosen.values())
        if missing:
            names = [name for name, value in self.relabel.labels.items() if value in missing]
            raise AnnotationError(
                f"{self.dense.root}: {', '.join(names)} would show on no slice of the "
                f"{len(cases)} labelled case(s), so nothing could learn it. Label more cases, or "
                f"leave that label out."
            )
        return chosen


@dataclass(frozen=True)
class _Chosen:
    """The slices of one case, and the classes that show on them."""

    slots: tuple[Slot, ...]
    shown: frozenset[int]


_WHOLE = _Chosen((), frozenset())
"""A case that keeps its label whole."""


def _shown(chosen: Iterable[_Chosen]) -> frozenset[int]:
    """The classes that show on any of the chosen slices."""
    return frozenset().union(*(each.shown for each in chosen))


def _write_case(
    dense: Dataset,
    name: str,
    folder: Path,
    relabel: Relabeling,
    chosen: _Chosen | None,
) -> None:
    """One case: its images, its sparse label if it is to have one, its dense label out of sight."""
    case = dense.cases[name]
    ending = _ending(dense)
    for channel, image in enumerate(case.images):
        target = folder / "imagesTr" / f"{name}_{channel:04d}{ending}"
        if image.name.endswith(ending):
            _copy(image, target)
        else:
            volume = read_scan(image)
            write_image(target, compact(volume.data[0]), volume.grid)
    if case.label is None:
        return
    hidden = folder / DENSE / f"{name}{ENDING}"
    if chosen is None and relabel.keeps_all and case.label.name.endswith(ENDING):
        _copy(case.label, hidden)
        return
    labels, grid = relabel.read(dense, name)
    write_labels(hidden, labels, grid)
    if chosen is _WHOLE:
        write_labels(folder / "labelsTr" / f"{name}{ending}", labels, grid)
    elif chosen is not None:
        sparse = annotation_at(labels, chosen.slots).label_map(elsewhere=relabel.ignore)
        write_labels(folder / "labelsTr" / f"{name}{ending}", sparse, grid)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _in_words(chosen: Mapping[str, _Chosen], relabel: Relabeling) -> dict[str, Any]:
    """What was chosen, for a person to read."""
    names = {value: name for name, value in relabel.labels.items()}
    return {
        case: {
            "slices": [{"plane": plane.value, "index": index} for plane, index in each.slots],
            "shows": [names[value] for value in sorted(each.shown) if value in names],
        }
        for case, each in chosen.items()
    }
