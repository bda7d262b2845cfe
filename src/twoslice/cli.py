"""The commands. Each one loads settings, calls one function, prints; the work is done elsewhere.

Everything heavy is imported inside the command that needs it, so that `twoslice --help` answers
at once. Exit 0 is success, 2 is the user's to mend (one line on stderr), 130 is Ctrl-C; anything
else is our bug and keeps its traceback.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from twoslice import __version__
from twoslice.console import align_rows, millimetres, words
from twoslice.errors import TwosliceError
from twoslice.progress import for_stderr

app = typer.Typer(
    name="twoslice",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: drawing boxes takes longer than everything else together
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Seed = Annotated[int, typer.Option(min=0, help="Same seed, same result.")]
DatasetFolder = Annotated[Path, typer.Argument(metavar="DATASET", help="A dataset folder.")]
SettingsFile = Annotated[Path | None, typer.Option(help="A YAML file of settings.")]
Assignments = Annotated[
    list[str] | None, typer.Option("--set", metavar="A.B=C", help="Change one setting.")
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A folder that train made.")]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a fault that the user can mend becomes one line and exit 2."""
    try:
        app(arguments)
    except TwosliceError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        raise SystemExit(2) from None
    except SystemExit as ending:
        if ending.code == 130:
            line = "stopped: what was finished is kept; the same command goes on from there."
            print(line, file=sys.stderr)  # noqa: T201
        raise


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"twoslice {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Segment a set of 3-D scans from two labelled slices in a handful of them.

    Start with `twoslice demo`: it runs everything on made-up scans in under four minutes.
    """


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where everything goes.")] = Path("twoslice-demo"),
    seed: Seed = 0,
) -> None:
    """Run everything on made-up scans, to the report.

    Phantoms, two slices in three of them, propagation, training, prediction, scores and a page
    with pictures, in under four minutes. Stopped and typed again, it goes on where it was.
    """
    from twoslice.demo.pipeline import run_demo

    typer.echo(run_demo(out, seed=seed, progress=for_stderr()).in_words())


@app.command("import")
def import_command(
    sources: Annotated[
        list[Path], typer.Argument(metavar="SRC...", help="Files or folders of scans.")
    ],
    out: Annotated[Path, typer.Option(help="The dataset folder to make.")],
    labels: Annotated[
        list[Path] | None, typer.Option(help="Label files named as the cases, or their folder.")
    ] = None,
    no_labels: Annotated[
        bool, typer.Option("--no-labels", help="Leave the labels of imported datasets out.")
    ] = False,
    names: Annotated[
        str | None, typer.Option(help="Names of the labels 1, 2, …: 'liver,spleen'.")
    ] = None,
    channels: Annotated[str | None, typer.Option(help="Names of the channels: 'T1,FLAIR'.")] = None,
    name: Annotated[str | None, typer.Option(help="The dataset's name.")] = None,
    series: Annotated[
        str | None, typer.Option(help="Which DICOM series, if a folder holds several.")
    ] = None,
    spacing: Annotated[
        str | None, typer.Option(help="Millimetres a voxel for files without: '0.6,0.6,1.2'.")
    ] = None,
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
    dense: Annotated[Path, typer.Argument(metavar="DENSE", help="A densely labelled dataset.")],
    out: Annotated[Path, typer.Option(help="The dataset folder to make.")],
    labeled: Annotated[int, typer.Option(min=1, help="How many cases keep slices.")],
    planes: Annotated[str, typer.Option(help="Planes of the slices.")] = "axial,coronal",
    scheme: Annotated[
        Literal["orthogonal", "parallel", "single"], typer.Option(help="How the slices lie.")
    ] = "orthogonal",
    choice: Annotated[
        Literal["middle", "random", "largest"], typer.Option(help="Which slice of a plane.")
    ] = "middle",
    labels: Annotated[
        str | None, typer.Option(help="Keep only these labels: 'liver,spleen'.")
    ] = None,
    cases: Annotated[
        str | None, typer.Option(help="Keep only these cases; the first ones are labelled.")
    ] = None,
    choose: Annotated[
        Literal["first", "random"], typer.Option(help="Which cases keep slices.")
    ] = "first",
    seed: Seed = 0,
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
    dataset: DatasetFolder,
    settings: SettingsFile = None,
    assign: Assignments = None,
) -> None:
    """Check scans, labels and drawn slices: a line a fault.

    Geometry, label values, and the line where the slices of a scan cross. Exit 2 if anything is
    at fault.
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
        f"targets: {targets}.\nNext: twoslice propagate {dataset}"
    )


@app.command()
def propagate(
    dataset: DatasetFolder,
    registrar: Annotated[
        Literal["batched", "ants"] | None, typer.Option(help="What registers the slices.")
    ] = None,
    settings: SettingsFile = None,
    assign: Assignments = None,
) -> None:
    """Carry the drawn slices through their scans.

    Makes a dense pseudo label a plane (a label view), with its quality, in DATASET/propagated.
    """
    from twoslice.io.dataset import Dataset
    from twoslice.propagation.dataset import (
        PropagationPartialError,
        propagate_dataset,
        summary_table,
    )
    from twoslice.settings import load_settings

    more = [f"propagation.registrar={registrar}"] if registrar else []
    loaded = load_settings(file=settings, assignments=[*(assign or ()), *more])
    try:
        summary = propagate_dataset(
            Dataset.open(dataset), settings=loaded.propagation, progress=for_stderr()
        )
    except PropagationPartialError as error:
        typer.echo(align_rows(summary_table(error.summary)))
        raise
    typer.echo(align_rows(summary_table(summary)))
    typer.echo(f"{dataset / 'propagated'}: label views.\nNext: twoslice train {dataset} --out RUN")


@app.command()
def train(
    dataset: DatasetFolder,
    out: Annotated[Path, typer.Option(help="The run folder to make.")],
    method: Annotated[str | None, typer.Option(help="desco, supervised, …")] = None,
    preset: Annotated[str | None, typer.Option(help="A named set of settings.")] = None,
    settings: SettingsFile = None,
    assign: Assignments = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a stopped run.")] = False,
) -> None:
    """Train networks on a dataset and its label views."""
    from twoslice.io.dataset import Dataset
    from twoslice.settings import load_settings
    from twoslice.training.loop import train as run

    loaded = load_settings(preset=preset, file=settings, assignments=assign or (), method=method)
    run(Dataset.open(dataset), out, loaded, resume=resume, progress=for_stderr())
    typer.echo(
        f"{out}: trained with {loaded.method}.\nNext: twoslice predict {out} SCANS --out DIR"
    )


@app.command()
def predict(
    run: RunFolder,
    inputs: Annotated[
        list[Path], typer.Argument(metavar="INPUT...", help="Scans, or folders of scans.")
    ],
    out: Annotated[Path, typer.Option(help="Where the label maps go.")],
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Write each label's probability too.")
    ] = False,
    uncertainty: Annotated[
        bool, typer.Option("--uncertainty", help="Write entropy and disagreement too.")
    ] = False,
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
        progress=for_stderr(),
    )
    typer.echo(
        f"{out}: {len(made.predicted)} label maps, {len(made.already)} were there already.\n"
        f"Next: twoslice report {run} --predictions {out}, or, with dense labels, "
        f"twoslice evaluate {out} LABELS --out scores.json"
    )


@app.command()
def evaluate(
    predictions: Annotated[Path, typer.Argument(metavar="PREDICTIONS", help="Label maps.")],
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="Dense labels.")],
    out: Annotated[Path, typer.Option(help="The JSON file to write.")],
    names: Annotated[
        str | None, typer.Option(help="Label names, background first, if none are found.")
    ] = None,
    cases: Annotated[str | None, typer.Option(help="Score only these cases.")] = None,
    tolerance: Annotated[float, typer.Option(min=0.0, help="Of the surface Dice, in mm.")] = 2.0,
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
    for entry in evaluation.summary["flagged"]:
        typer.echo(f"note: case {entry['case']}, {entry['label']}: {entry['flag']}.")
    typer.echo(f"{out}: {len(evaluation.cases)} rows over {evaluation.summary['cases']} cases.")


@app.command()
def report(
    run: RunFolder,
    out: Annotated[Path | None, typer.Option(help="The page; RUN/report.html if unsaid.")] = None,
    dataset: Annotated[
        Path | None, typer.Option(help="The dataset folder, if it moved since training.")
    ] = None,
    predictions: Annotated[Path | None, typer.Option(help="Label maps to show.")] = None,
    labels: Annotated[Path | None, typer.Option(help="Dense labels to score them with.")] = None,
    scans: Annotated[
        list[Path] | None, typer.Option(help="Predicted scans that are not in the dataset.")
    ] = None,
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
