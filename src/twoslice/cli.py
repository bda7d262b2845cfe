"""The commands. Each one loads settings, calls one function, prints; the work is done elsewhere.

Everything heavy is imported inside the command that needs it, so that `twoslice --help` answers
at once. Exit 0 is success, 2 is the user's to mend (one line on stderr), 130 is Ctrl-C; anything
else is our bug and keeps its traceback.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from twoslice import options as o
from twoslice.console import align_rows, millimetres, words
from twoslice.errors import TwosliceError
from twoslice.progress import for_stderr

if TYPE_CHECKING:
    from twoslice.io.dataset import Dataset

app = typer.Typer(
    name="twoslice",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: drawing boxes takes longer than everything else together
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a fault that the user can mend becomes one line and exit 2."""
    try:
        app(arguments)
    except TwosliceError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        raise SystemExit(2) from None
    except SystemExit as ending:
        if ending.code == 130:
            line = "stopped: what was finished is kept."
            print(line, file=sys.stderr)  # noqa: T201
        raise


@app.callback()
def common(version: o.Version = False) -> None:
    """Segment a set of 3-D scans from two labelled slices in a handful of them.

    Start with `twoslice demo`: it runs everything on made-up scans in under four minutes.
    """


@app.command()
def demo(out: o.OutFolder = Path("twoslice-demo"), seed: o.Seed = 0) -> None:
    """Run everything on made-up scans, to the report.

    In under four minutes. Stopped and typed again, it goes on where it was.
    """
    from twoslice.demo.pipeline import run_demo

    typer.echo(run_demo(out, seed=seed, progress=for_stderr()).in_words())


@app.command("import")
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
) -> None:
    """Turn scans of any supported format into a dataset folder."""
    from twoslice.io.importing import import_scans

    dataset = import_scans(
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
        f"{out}: {len(dataset.cases)} scans, {len(dataset.labeled)} with labels.\n"
        f"Next: twoslice check {out}"
    )


@app.command()
def simulate(
    dense: o.DenseFolder,
    out: o.OutDataset,
    labeled: o.Labeled,
    planes: o.Planes = "axial,coronal",
    scheme: o.Scheme = "orthogonal",
    choice: o.SliceChoice = "middle",
    labels: o.KeptLabels = None,
    cases: o.KeptCases = None,
    choose: o.CaseChoice = "first",
    seed: o.Seed = 0,
) -> None:
    """Keep a few slices of a dense dataset, hide the rest.

    The hidden labels lie in OUT/dense and serve evaluation only.
    """
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
        seed=seed,
        progress=for_stderr(),
    )
    typer.echo(
        f"{out}: slices of {len(dataset.labeled)} scans ({', '.join(dataset.labeled)}), "
        f"{len(dataset.unlabeled)} scans without. Dense labels, for evaluation only: "
        f"{out / 'dense'}\nNext: twoslice check {out}"
    )


@app.command()
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
        return "draw two slices in a few of the scans (docs/guide.md tells how)"
    try:
        read_annotation(dataset, dataset.labeled[0])
    except DenseLabelError:
        return f"its labels are dense: twoslice simulate {dataset.root} --out DATASET --labeled 5"
    return f"twoslice propagate {dataset.root}"


@app.command()
def propagate(
    dataset: o.DatasetFolder,
    registrar: o.RegistrarName = None,
    settings: o.SettingsFile = None,
    assign: o.Assignments = None,
) -> None:
    """Carry the drawn slices through their scans.

    Makes a dense pseudo label a plane (a label view), with its quality, in DATASET/propagated.
    """
    from twoslice.io.dataset import Dataset
    from twoslice.propagation import dataset as stage
    from twoslice.settings import load_settings

    more = [f"propagation.registrar={registrar}"] if registrar else []
    loaded = load_settings(file=settings, assignments=[*(assign or ()), *more])
    try:
        summary = stage.propagate_dataset(
            Dataset.open(dataset), settings=loaded.propagation, progress=for_stderr()
        )
    except stage.PropagationPartialError as error:
        typer.echo(align_rows(stage.summary_table(error.summary)))
        raise
    typer.echo(align_rows(stage.summary_table(summary)))
    typer.echo(f"{dataset / 'propagated'}: label views.\nNext: twoslice train {dataset} --out RUN")


@app.command()
def train(
    dataset: o.DatasetFolder,
    out: o.OutRun,
    method: o.MethodName = None,
    preset: o.Preset = None,
    settings: o.SettingsFile = None,
    assign: o.Assignments = None,
    resume: o.Resume = False,
) -> None:
    """Train networks on a dataset and its label views."""
    from twoslice.io.dataset import Dataset
    from twoslice.settings import load_settings
    from twoslice.training.loop import train as run

    loaded = None  # a bare --resume goes on under the settings of the run
    if not resume or preset or settings or assign or method:
        loaded = load_settings(
            preset=preset, file=settings, assignments=assign or (), method=method
        )
    made = run(Dataset.open(dataset), out, loaded, resume=resume, progress=for_stderr())
    typer.echo(
        f"{out}: trained with {made.settings.method}.\nNext: twoslice predict {out} SCANS --out DIR"
    )


@app.command()
def predict(
    run: o.RunFolder,
    inputs: o.Inputs,
    out: o.OutLabels,
    probabilities: o.Probabilities = False,
    uncertainty: o.Uncertainty = False,
    series: o.Series = None,
) -> None:
    """Segment scans with a trained run.

    Each label map lies on exactly the grid of its scan.
    """
    from twoslice.inference.predict import predict as infer

    made = infer(
        run,
        inputs,
        out,
        probabilities=probabilities,
        uncertainty=uncertainty,
        series=series,
        progress=for_stderr(),
    )
    typer.echo(
        f"{out}: {len(made.predicted)} label maps, {len(made.already)} were there already.\n"
        f"Next: twoslice report {run} --predictions {out}, or, with dense labels, "
        f"twoslice evaluate {out} LABELS --out scores.json"
    )


@app.command()
def evaluate(
    predictions: o.LabelMaps,
    labels: o.DenseLabels,
    out: o.OutScores,
    names: o.ClassNames = None,
    cases: o.ScoredCases = None,
    tolerance: o.Tolerance = 2.0,
) -> None:
    """Score label maps against dense labels.

    Writes a row a case and label, and the summary, as JSON.
    """
    from twoslice.evaluation.evaluate import evaluate as score
    from twoslice.evaluation.tables import summary_table

    evaluation = score(
        predictions,
        labels,
        class_names=words(names),
        cases=words(cases),
        tolerance_mm=tolerance,
        progress=for_stderr(),
    )
    evaluation.write(out)
    typer.echo(summary_table(evaluation))
    typer.echo(f"{out}: {len(evaluation.cases)} rows over {evaluation.summary['cases']} cases.")


@app.command()
def report(
    run: o.RunFolder,
    out: o.OutPage = None,
    dataset: o.MovedDataset = None,
    predictions: o.ShownLabels = None,
    labels: o.ScoringLabels = None,
    scans: o.ShownScans = None,
) -> None:
    """Write one self-contained HTML page about a run."""
    from twoslice.report.page import write_report

    page = write_report(
        run,
        out,
        dataset=dataset,
        predictions=predictions,
        labels=labels,
        scans=scans or (),
        progress=for_stderr(),
    )
    typer.echo(f"{page}: open it in a browser.")
