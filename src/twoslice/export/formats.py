"""`twoslice export`: a run, or the labels made with it, in another tool's form."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from twoslice.errors import InputError, SettingsError
from twoslice.export.bundle import write_bundle
from twoslice.export.nnunet import write_nnunet
from twoslice.export.onnx_model import write_onnx
from twoslice.io.dataset import Dataset
from twoslice.progress import Progress, Silent
from twoslice.training.run import Run

MODELS: dict[str, Callable[[Run, Path], str]] = {
    "monai-bundle": write_bundle,
    "onnx": write_onnx,
}
NNUNET = "nnunet"
LEAST_TRUST = 0.5


@dataclass(frozen=True)
class LabelOptions:
    """What only an export of labels asks for; None and nothing where it was not said."""

    predictions: Path | None = None
    dataset: Path | None = None
    scans: Sequence[Path] = ()
    trust: float | None = None


def export(
    run: Path,
    out: Path,
    *,
    to: str,
    options: LabelOptions | None = None,
    progress: Progress | None = None,
) -> str:
    """Write the folder `out` whole, or nothing; says in words what was made."""
    options = options or LabelOptions()
    if to == NNUNET:
        return _export_labels(run, out, options, progress or Silent())
    if to not in MODELS:
        known = [*MODELS, NNUNET]
        close = difflib.get_close_matches(to, known, n=1)
        hint = f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(known)}."
        raise SettingsError(f"--to {to}: there is no such form. {hint}")
    if options != LabelOptions():
        raise SettingsError(
            f"--predictions, --dataset, --scans and --trust are for --to {NNUNET}: a model has no "
            f"labels. Leave them out."
        )
    return MODELS[to](Run.open(run), out)


def _export_labels(run: Path, out: Path, options: LabelOptions, progress: Progress) -> str:
    """RUN may also be a dataset folder here: propagated labels need no training."""
    if options.scans and options.predictions is None:
        raise SettingsError("--scans says what was predicted. Add --predictions DIR.")
    root = options.dataset
    if root is None and (run / "dataset.json").is_file():
        root = run
    if root is None:
        opened = Run.open(run)
        root = Path(opened.data.root)
        if not root.is_dir():
            raise InputError(
                f"{run}: its dataset is no longer in {root}. Say where it is with --dataset."
            )
    return write_nnunet(
        Dataset.open(root),
        out,
        predictions=options.predictions,
        scans=options.scans,
        least=LEAST_TRUST if options.trust is None else options.trust,
        progress=progress,
    )
