"""The datasets of a study: `simulate` and `propagate` on the dense one, and the held-out labels."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twoslice.annotation.relabeling import Relabeling
from twoslice.annotation.simulate import RECORD, simulate
from twoslice.errors import DatasetError, SettingsError
from twoslice.io import atomic
from twoslice.io.dataset import Dataset
from twoslice.io.scans import write_labels
from twoslice.io.splits import read_splits, rotated
from twoslice.propagation.dataset import propagate_dataset
from twoslice.settings import PropagationSettings
from twoslice.studies.files import Data

_ENVIRONMENT = "TWOSLICE_DATA"


@dataclass(frozen=True)
class Cases:
    """The cases of one fold in their order, labelled first, and those held out."""

    train: tuple[str, ...]
    held_out: tuple[str, ...]


def find_dense(name: str, *, data: Path | None, file: Path) -> Path:
    """The folder of a dense dataset: in `data` or $TWOSLICE_DATA, beside the file, or here."""
    places = [data or Path(os.environ.get(_ENVIRONMENT, ".")), file.parent, Path()]
    for place in places:
        if (place / name / "dataset.json").is_file():
            return (place / name).resolve()
    sought = ", ".join(dict.fromkeys(str(place.resolve()) for place in places))
    raise DatasetError(f"{name}: no dataset of that name in {sought}. Name its folder with --data.")


def cases_of(dense: Dataset, data: Data, fold: int) -> Cases:
    """Who trains and who is held out. Cases go by `splits.json`, or by their names."""
    splits = read_splits(dense.root)
    if data.held_out == "test":
        held_out = tuple(sorted(dense.test_cases))
        names = tuple(splits.train) if splits else tuple(sorted(dense.cases))
        if not held_out:
            raise DatasetError(
                f"{dense.root}: has no imagesTs to hold out. Put test scans there, or set held_out "
                f"to how many of the last cases are to be held out."
            )
    else:
        order = tuple(sorted(dense.cases))
        names, held_out = order[: -data.held_out], order[-data.held_out :]
    wanted = len(names) if data.unlabeled is None else data.labeled + data.unlabeled
    if len(names) < max(wanted, data.labeled):
        raise SettingsError(
            f"{dense.root}: {len(names)} cases to train on, but the study asks for {data.labeled} "
            f"labelled and {data.unlabeled or 0} unlabelled. Ask for fewer."
        )
    # Which cases take part is the same in every fold; which of them are labelled is not.
    return Cases(rotated(names[:wanted], fold), held_out)


def prepare(dense: Path, out: Path, data: dict[str, Any], fold: int, propagation: Any) -> None:
    """Make the sparse dataset `out`, with its label views if `propagation` has settings.

    What is there already is kept: the same arguments give the same files.
    """
    spec, opened = Data.model_validate(data), Dataset.open(dense)
    if not (out / "dataset.json").is_file():
        cases = cases_of(opened, spec, fold)
        simulate(
            opened,
            out,
            labeled=spec.labeled,
            planes=spec.planes,
            scheme=spec.scheme,
            choice=spec.choice,
            seed=spec.seed,
            cases=cases.train,
            labels=spec.labels,
            whole=spec.whole,
            slices=spec.slots,
        )
    if propagation is not None:
        settings = PropagationSettings.model_validate(propagation)
        propagate_dataset(Dataset.open(out), settings=settings)


def write_truth(dense: Path, out: Path, data: dict[str, Any]) -> None:
    """The held-out cases' dense labels, as the runs know them; only evaluation reads them."""
    spec, opened = Data.model_validate(data), Dataset.open(dense)
    relabel = Relabeling.keeping(opened, spec.labels)
    for case in cases_of(opened, spec, 0).held_out:
        target = out / f"{case}.nii.gz"
        if not target.is_file():
            labels, grid = relabel.read(opened, case)
            write_labels(target, labels, grid)
    atomic.write_json(out / "labels.json", [*relabel.labels])


def held_out_images(dense: Path, data: Data) -> list[Path]:
    """The scans that a run predicts."""
    opened = Dataset.open(dense)
    return [
        path for case in cases_of(opened, data, 0).held_out for path in opened.case(case).images
    ]


def describe(dataset: Path) -> dict[str, int]:
    """L / U volumes and labelled slices of a sparse dataset, as the paper's tables have them.

    Of a volume that is labelled whole, its axial slices count.
    """
    opened = Dataset.open(dataset)
    kept = json.loads((dataset / RECORD).read_text(encoding="utf-8"))["cases"]
    if isinstance(kept, dict):
        slices = sum(len(each["slices"]) for each in kept.values())
    else:
        slices = sum(opened.read_grid(case).ras.shape[2] for case in kept)
    return {"labeled": len(kept), "unlabeled": len(opened.cases) - len(kept), "slices": slices}
