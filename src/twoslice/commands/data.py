"""Commands about data: into a dataset folder, down to two slices, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from twoslice import options as o
from twoslice.console import millimetres, words
from twoslice.progress import for_stderr

if TYPE_CHECKING:
    from pathlib import Path

    from twoslice.io.benchmark_layouts import BenchmarkName
    from twoslice.io.dataset import Dataset


def import_command(
    sources: o.Sources,
    out: o.OutDataset,
    labels: o.LabelFiles = None,
    no_labels: o.NoLabels = False,
    names: o.LabelNames = None,
    channels: o.ChannelNames = None,
    name: o.DatasetName = None,
    series: o.Series = None,
    spacing: o.Millimetres = None,
    dataset: o.Benchmark = None,
    seed: o.Seed = 0,
) -> None:
    """Turn scans of any supported format into a dataset folder.

    With --dataset, one of the paper's data sets as it is downloaded, prepared and split.
    """
    from twoslice.io.importing import import_scans

    if dataset is not None:
        given = (labels, names, channels, name, series, spacing, no_labels or None)
        _import_benchmark(sources, out, dataset, seed, others=any(x is not None for x in given))
        return
    made = import_scans(
        sources,
        out,
        labels=labels,
        with_labels=not no_labels,
        label_names=words(names),
        channel_names=words(channels),
        name=name,
        series=series,
        spacing=millimetres(spacing),
        progress=for_stderr(),
    )
    typer.echo(
        f"{out}: {len(made.cases)} scans, {len(made.labeled)} with labels.\n"
        f"Next: twoslice check {out}"
    )


def _import_benchmark(
    sources: list[Path], out: Path, name: BenchmarkName, seed: int, *, others: bool
) -> None:
    from twoslice.errors import SettingsError
    from twoslice.io.benchmarks import import_benchmark

    if others:
        raise SettingsError(
            f"--dataset {name} says how files, labels and names lie. Leave --labels, --names, "
            f"--channels, --name, --series, --spacing and --no-labels out."
        )
    made = import_benchmark(sources, out, dataset=name, seed=seed, progress=for_stderr())
    typer.echo(
        f"{out}: {len(made.cases)} scans to train, {len(made.test_cases)} to test; folds in "
        f"splits.json.\nNext: twoslice simulate {out} --out DATASET --labeled 5"
    )


def simulate(
    dense: o.DenseFolder,
    out: o.OutDataset,
    labeled: o.Labeled,
    planes: o.Planes = "axial,coronal",
    scheme: o.Scheme = "orthogonal",
    choice: o.SliceChoice = "spread",
    labels: o.KeptLabels = None,
    cases: o.KeptCases = None,
    choose: o.CaseChoice = "first",
    slices: o.FixedSlices = None,
    whole: o.Whole = False,
    seed: o.Seed = 0,
) -> None:
    """Keep a few slices of a dense dataset, hide the rest.

    The hidden labels lie in OUT/dense and serve evaluation only.
    """
    from twoslice.annotation.choice import parse_slice
    from twoslice.annotation.simulate import simulate as run
    from twoslice.io.dataset import Dataset
    from twoslice.planes import Plane

    dataset = run(
        Dataset.open(dense),
        out,
        labeled=labeled,
        planes=[Plane.parse(plane) for plane in words(planes) or ()],
        scheme=scheme,
        choice=choice,
        labels=words(labels),
        cases=words(cases),
        choose=choose,
        whole=whole,
        slices=[parse_slice(text) for text in words(slices) or ()],
        seed=seed,
        progress=for_stderr(),
    )
    kept = "labels" if whole else "slices"
    typer.echo(
        f"{out}: {kept} of {len(dataset.labeled)} scans ({', '.join(dataset.labeled)}), "
        f"{len(dataset.unlabeled)} scans without. Dense labels, for evaluation only: "
        f"{out / 'dense'}\nNext: twoslice check {out}"
    )


def check(
    dataset: o.DatasetFolder, settings: o.SettingsFile = None, assign: o.Assignments = None
) -> None:
    """Check scans, labels and drawn slices: a line a fault.

    Geometry, label values, and the line where the slices of a scan cross.
    """
    from twoslice.annotation.check import check_dataset
    from twoslice.io.dataset import Dataset
    from twoslice.settings import load_settings

    wanted = load_settings(file=settings, assignments=assign or ()).annotation
    # Unless a scheme is asked for, the one that simulate wrote down counts.
    scheme = wanted.scheme if "scheme" in wanted.model_fields_set else None
    faults = check_dataset(dataset, scheme=scheme, progress=for_stderr())
    for fault in faults:
        line = f"case {fault.case}: {fault.message}" if fault.case else fault.message
        typer.echo(f"error: {line}", err=True)
    if faults:
        raise typer.Exit(2)
    opened = Dataset.open(dataset)
    targets = ", ".join(opened.class_names[1:])
    typer.echo(
        f"{dataset}: no fault. {len(opened.cases)} scans, {len(opened.labeled)} of them labelled; "
        f"targets: {targets}.\nNext: {_after_check(opened)}"
    )


def _after_check(dataset: Dataset) -> str:
    """What to do with a sound dataset depends on what is drawn in it."""
    from twoslice.annotation.reading import DenseLabelError, read_annotation

    if not dataset.labeled:
        return f"draw two slices in a few of the scans: twoslice annotate {dataset.root}"
    try:
        read_annotation(dataset, dataset.labeled[0])
    except DenseLabelError:
        return (
            f"its labels are dense: twoslice simulate {dataset.root} --out DATASET --labeled 5, or "
            f"twoslice train {dataset.root} --out RUN --set training.setting=full"
        )
    return f"twoslice propagate {dataset.root}"
