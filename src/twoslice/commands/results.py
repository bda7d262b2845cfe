"""Commands about results: label maps, scores, the page."""

from __future__ import annotations

import typer

from twoslice import options as o
from twoslice.console import words
from twoslice.progress import for_stderr


def predict(
    run: o.Model,
    inputs: o.Inputs,
    out: o.OutLabels,
    probabilities: o.Probabilities = False,
    uncertainty: o.Uncertainty = False,
    largest_component: o.LargestComponent = None,
    flips: o.Flips = None,
    network: o.WhichNetwork = None,
    window: o.WindowName = None,
    series: o.Series = None,
    overwrite: o.Overwrite = False,
    engine: o.EngineName = None,
    workers: o.Workers = None,
    memory: o.WorkerMemory = None,
    scheduler: o.Scheduler = None,
    cluster: o.ClusterName = None,
) -> None:
    """Segment scans with a trained run.

    Each label map lies on exactly the grid of its scan. What is finished is not made again.
    """
    from twoslice.engines.choose import EngineOptions
    from twoslice.inference.predict import predict as infer

    asked = {
        "flips": flips,
        "largest_component": largest_component,
        "network": int(network) if network in ("1", "2") else network,
        "window": window,
    }
    made = infer(
        run,
        inputs,
        out,
        probabilities=probabilities,
        uncertainty=uncertainty,
        series=series,
        changes={name: value for name, value in asked.items() if value is not None},
        overwrite=overwrite,
        progress=for_stderr(),
        engine=EngineOptions(engine, workers, memory, scheduler, cluster),
    )
    report = f"twoslice report {run} --predictions {out}, or, " if run.is_dir() else ""
    typer.echo(
        f"{out}: {len(made.predicted)} label maps, {len(made.already)} were there already.\n"
        f"Next: {report}with dense labels, twoslice evaluate {out} LABELS --out scores.json"
    )


def evaluate(
    predictions: o.LabelMaps,
    labels: o.DenseLabels,
    out: o.OutScores,
    csv: o.CsvFile = None,
    table: o.TableFile = None,
    names: o.ClassNames = None,
    cases: o.ScoredCases = None,
    tolerance: o.Tolerance = 2.0,
    seed: o.Seed = 0,
) -> None:
    """Score label maps against dense labels.

    Writes a row a case and label, and the summary, as JSON.
    """
    from twoslice.evaluation import tables
    from twoslice.evaluation.evaluate import evaluate as score

    for path, option in ((out, "--out"), (csv, "--csv"), (table, "--table")):
        if path is not None:
            tables.refuse_other_ending(path, option)
    evaluation = score(
        predictions,
        labels,
        class_names=words(names),
        cases=words(cases),
        tolerance_mm=tolerance,
        seed=seed,
        progress=for_stderr(),
    )
    evaluation.write(out)
    if csv is not None:
        tables.write_csv(evaluation, csv)
    if table is not None:
        tables.write_table(evaluation, table)
    typer.echo(tables.summary_table(evaluation))
    typer.echo(f"{out}: {len(evaluation.cases)} rows over {evaluation.summary['cases']} cases.")


def report(
    run: o.RunFolder,
    out: o.OutPage = None,
    dataset: o.MovedDataset = None,
    predictions: o.ShownLabels = None,
    labels: o.ScoringLabels = None,
    scans: o.ShownScans = None,
) -> None:
    """Write one self-contained HTML page about a run.

    RUN may also be what `twoslice run` made: its page is then written again.
    """
    from twoslice.report.page import write_report

    if (run / "run.json").is_file():
        from twoslice.pipeline.record import Record
        from twoslice.pipeline.run import write_page

        record = Record.open(run)
        made = write_page(record, more=scans or (), labels=labels, page=out, progress=for_stderr())
        typer.echo(f"{made}: open it in a browser.")
        return
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


def export(
    run: o.RunFolder,
    to: o.ExportForm,
    out: o.ExportOut,
    predictions: o.ExportedLabels = None,
    dataset: o.MovedDataset = None,
    scans: o.ShownScans = None,
    trust: o.LeastTrust = None,
) -> None:
    """Hand a run or its labels on to other tools.

    To MONAI as a bundle, to ONNX as a model, to nnU-Net as a dataset (RUN may be a dataset then).
    """
    from twoslice.export.formats import LabelOptions
    from twoslice.export.formats import export as write

    options = LabelOptions(predictions, dataset, tuple(scans or ()), trust)
    said = write(run, out, to=to, options=options, progress=for_stderr())
    typer.echo(f"{out}: {said}.")
