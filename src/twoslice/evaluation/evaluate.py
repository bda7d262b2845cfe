"""Predictions against dense labels: a row a case and label, and the summary over them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twoslice.errors import AnnotationError, InputError
from twoslice.evaluation.metrics import TOLERANCE_MM, compare
from twoslice.io import atomic
from twoslice.io.description import read_description
from twoslice.io.scans import read_label_map
from twoslice.progress import Progress, Silent

Row = dict[str, Any]
ENDINGS = (".nii.gz", ".nii", ".nrrd", ".mha", ".mhd")
SUMMARISED = (
    "dice",
    "jaccard",
    "hd95_mm",
    "hd95_voxel",
    "asd_mm",
    "asd_voxel",
    "assd_mm",
    "assd_voxel",
    "nsd",
    "volume_difference_ml",
    "volume_difference_voxel",
)
_RESAMPLES = 2000
_COVER = 0.95


@dataclass(frozen=True)
class Evaluation:
    """`cases` holds a row a case and label; `summary` mean, std, count and bootstrap interval of
    each metric, a label each and overall.
    """

    cases: tuple[Row, ...]
    summary: dict[str, Any]

    @property
    def mean_dice(self) -> float:
        """The mean over cases of the mean over labels, between 0 and 1."""
        return float(self.summary["overall"]["dice"]["mean"])

    def write(self, path: Path) -> None:
        """Write both as JSON, whole or not at all."""
        atomic.write_json(path, {"cases": list(self.cases), "summary": self.summary})

    @classmethod
    def read(cls, path: Path) -> Evaluation:
        """What `write` wrote, or a line on what the file is instead."""
        try:
            tree = json.loads(path.read_text(encoding="utf-8"))
            return cls(tuple(tree["cases"]), tree["summary"])
        except FileNotFoundError:
            raise InputError(f"{path}: there is no such file. Check the path.") from None
        except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError):
            raise InputError(
                f"{path}: not a file that 'twoslice evaluate' wrote. Evaluate again."
            ) from None


def evaluate(
    predictions: Path,
    labels: Path,
    *,
    class_names: Sequence[str] | None = None,
    cases: Sequence[str] | None = None,
    tolerance_mm: float = TOLERANCE_MM,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Score every label map in `predictions` against the one of the same name in `labels`.

    Both folders must hold the same cases, unless `cases` names those to score. `class_names` are
    in the order of the label values, background first; without them they are sought in a
    `dataset.json` in or beside the folders, and otherwise made up from the values found.
    """
    ours, theirs = label_files(predictions), label_files(labels)
    chosen = _matched(ours, theirs, predictions, labels, cases)
    names, ignore = _names(class_names, (labels, predictions))
    return evaluate_files(
        {case: (ours[case], theirs[case]) for case in chosen},
        class_names=names,
        ignore=ignore,
        tolerance_mm=tolerance_mm,
        seed=seed,
        progress=progress,
    )


def evaluate_files(
    pairs: Mapping[str, tuple[Path, Path]],
    *,
    class_names: Sequence[str] | None,
    ignore: int | None = None,
    tolerance_mm: float = TOLERANCE_MM,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Score each case's prediction file against its label file, wherever they lie."""
    rows: list[Row] = []
    with (progress or Silent()).task("evaluate", len(pairs)) as task:
        for case, (prediction, label) in pairs.items():
            rows += _score(case, prediction, label, class_names, ignore, tolerance_mm)
            task.advance(note=case)
    if class_names is None:
        rows = _complete(rows)
    return Evaluation(tuple(rows), summarise(rows, tolerance_mm=tolerance_mm, seed=seed))


def label_files(folder: Path) -> dict[str, Path]:
    """The label maps in a folder, by case; a single file is a folder of one."""
    if folder.is_file():
        return {_stem(folder): folder}
    try:
        files = sorted(folder.iterdir())
    except FileNotFoundError:
        raise InputError(f"{folder}: there is no such folder. Check the path.") from None
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}. Make the folder readable.") from None
    found: dict[str, Path] = {}
    for path in files:
        if path.name.endswith(ENDINGS) and not path.name.startswith("."):
            first = found.setdefault(_stem(path), path)
            if first != path:
                raise InputError(
                    f"{folder}: {first.name} and {path.name} are both case {_stem(path)}. Keep one."
                )
    if not found:
        raise InputError(f"{folder}: holds no label map ({', '.join(ENDINGS)}). Check the path.")
    return found


def summarise(
    rows: Iterable[Row], *, tolerance_mm: float = TOLERANCE_MM, seed: int = 0
) -> dict[str, Any]:
    """Mean, standard deviation over cases, count, and the 95 % bootstrap interval of the mean: a
    label each, and over the labels' mean. The same seed gives the same interval.
    """
    rows = list(rows)
    by_label: dict[str, list[Row]] = {}
    by_case: dict[str, list[Row]] = {}
    for row in rows:
        by_label.setdefault(row["label"], []).append(row)
        by_case.setdefault(row["case"], []).append(row)
    means = [
        {metric: float(np.mean([row[metric] for row in group])) for metric in SUMMARISED}
        for group in by_case.values()
    ]
    return {
        "overall": _spread(means, seed),
        "labels": {label: _spread(group, seed) for label, group in by_label.items()},
        "cases": len(by_case),
        "flagged": [
            {"case": row["case"], "label": row["label"], "flag": row["flag"]}
            for row in rows
            if row["flag"]
        ],
        "nsd_tolerance_mm": tolerance_mm,
        "interval": {"cover": _COVER, "resamples": _RESAMPLES, "seed": seed},
    }


def _spread(rows: Sequence[Mapping[str, Any]], seed: int) -> dict[str, dict[str, Any]]:
    spread: dict[str, dict[str, Any]] = {}
    drawn = np.random.default_rng(seed).integers(0, len(rows), (_RESAMPLES, len(rows)))
    tails = [50 * (1 - _COVER), 50 * (1 + _COVER)]
    for metric in SUMMARISED:
        values = np.array([row[metric] for row in rows], dtype=float)
        several = values.size > 1  # one case says nothing about others
        low, high = np.percentile(values[drawn].mean(axis=1), tails)
        spread[metric] = {
            "mean": float(values.mean()),
            "std": float(values.std(ddof=1)) if several else 0.0,
            "count": values.size,
            "interval": [float(low), float(high)] if several else None,
        }
    return spread


def _score(
    case: str,
    prediction: Path,
    label: Path,
    names: Sequence[str] | None,
    ignore: int | None,
    tolerance_mm: float,
) -> list[Row]:
    ours, theirs = read_label_map(prediction), read_label_map(label)
    if not ours.grid.ras.same_as(theirs.grid.ras):  # the same voxels, in whatever axis order
        raise AnnotationError(
            f"case {case}: {prediction} lies on another grid ({ours.grid.shape}, "
            f"{ours.grid.orientation}) than {label} ({theirs.grid.shape}, "
            f"{theirs.grid.orientation}). Predict on the scan that the label was drawn on."
        )
    found = sorted({*np.unique(ours.data).tolist(), *np.unique(theirs.data).tolist()})
    if ignore is not None and ignore in found:
        raise AnnotationError(
            f"case {case}: {label} holds the ignore label {ignore}: these are drawn slices, not "
            f"dense labels. Give a folder of dense labels."
        )
    if names is not None and found[-1] >= len(names):
        raise AnnotationError(
            f"case {case}: holds label value {found[-1]}, but only {', '.join(names)} are known. "
            f"Check that both folders are of one dataset."
        )
    values = range(1, len(names)) if names is not None else [value for value in found if value]
    rows: list[Row] = []
    for value in values:
        metrics = compare(
            ours.data == value,
            theirs.data == value,
            spacing=theirs.grid.ras.spacing,
            tolerance_mm=tolerance_mm,
        )
        label_name = names[value] if names is not None else f"label {value}"
        rows.append({"case": case, "label": label_name, "value": value, **asdict(metrics)})
    return rows


def _complete(rows: list[Row]) -> list[Row]:
    """Refuse to average over labels that only some cases show, when no names were given."""
    by_case: dict[str, set[str]] = {}
    for row in rows:
        by_case.setdefault(row["case"], set()).add(row["label"])
    if not rows:
        raise AnnotationError("neither the predictions nor the labels hold a target voxel.")
    every = set.union(*by_case.values())
    for case, found in by_case.items():
        if found != every:
            missing = ", ".join(sorted(every - found))
            raise AnnotationError(
                f"case {case}: {missing} shows in neither file, but in other cases. Name the "
                f"labels, background first, with --names, so that absent ones are scored too."
            )
    return rows


def _matched(
    ours: Mapping[str, Path],
    theirs: Mapping[str, Path],
    predictions: Path,
    labels: Path,
    cases: Sequence[str] | None,
) -> list[str]:
    """The cases to score; every one must be in both folders."""
    wanted = list(dict.fromkeys(cases)) if cases else sorted({*ours, *theirs})
    for folder, found, other in ((predictions, ours, labels), (labels, theirs, predictions)):
        missing = [case for case in wanted if case not in found]
        if missing:
            shown = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
            raise InputError(
                f"{folder}: lacks {len(missing)} of {len(wanted)} cases ({shown})"
                + ("." if cases else f" that {other} has.")
                + " Add them, or name the cases to score with --cases."
            )
    return wanted


def _names(
    given: Sequence[str] | None, folders: Sequence[Path]
) -> tuple[tuple[str, ...] | None, int | None]:
    """Class names and the ignore value, given or from a dataset.json in or above a folder."""
    if given is not None:
        return tuple(given), None
    for folder in folders:
        for place in (folder, folder.parent):
            if (place / "dataset.json").is_file():
                found = read_description(place)
                names = {value: name for name, value in found.labels.items()}
                return tuple(names[value] for value in range(len(names))), found.ignore
    return None, None


def _stem(path: Path) -> str:
    for ending in ENDINGS:
        if path.name.endswith(ending):
            return path.name[: -len(ending)]
    return path.name
