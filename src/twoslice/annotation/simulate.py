"""From a densely labelled dataset to a sparse one: keep a few slices of N cases, hide the rest.

The new dataset holds the images byte for byte (as .nii.gz where one image is not one file that can
be copied and written, as in .mhd), `labelsTr` with nothing but the chosen slices (and
`ignore` everywhere else) for the labelled cases alone, `simulate.json` with what was chosen, and
`dense/` with every dense label, which only evaluation may read. `imagesTs` is not carried over.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from twoslice.annotation.choice import Choice, Scheme, wishes
from twoslice.annotation.chooser import WHOLE, Chooser, Chosen
from twoslice.annotation.cover import Slot
from twoslice.annotation.reading import annotation_at, describe
from twoslice.annotation.relabeling import Relabeling
from twoslice.errors import SettingsError
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
    choice: Choice = "spread",
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
    chosen: dict[str, Chosen] = {}
    if not whole:
        chooser = Chooser(dense, relabel, wanted, choice, seed, tuple(slices or ()))
        chosen = chooser.in_cases(chosen_cases)
    with atomic.whole_folder(out) as folder:
        with progress.task("simulate", total=len(names)) as task:
            for name in names:
                kept = WHOLE if whole and name in chosen_cases else chosen.get(name)
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


def _write_case(
    dense: Dataset,
    name: str,
    folder: Path,
    relabel: Relabeling,
    chosen: Chosen | None,
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
    if chosen is WHOLE:
        write_labels(folder / "labelsTr" / f"{name}{ending}", labels, grid)
    elif chosen is not None:
        sparse = annotation_at(labels, chosen.slots).label_map(elsewhere=relabel.ignore)
        write_labels(folder / "labelsTr" / f"{name}{ending}", sparse, grid)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _in_words(chosen: Mapping[str, Chosen], relabel: Relabeling) -> dict[str, Any]:
    """What was chosen, for a person to read."""
    names = {value: name for name, value in relabel.labels.items()}
    return {
        case: {
            "slices": [{"plane": plane.value, "index": index} for plane, index in each.slots],
            "shows": [names[value] for value in sorted(each.shown) if value in names],
        }
        for case, each in chosen.items()
    }
