"""The sections of the page, each a function from the sources to words, pictures and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.reading import read_annotation
from twoslice.annotation.types import SparseAnnotation
from twoslice.io.scans import read_label_map
from twoslice.planes import Plane
from twoslice.propagation.views import read_view
from twoslice.report.curves import Curve, chart, smoothed
from twoslice.report.figures import Mark, Outline
from twoslice.report.parts import Block, Card, Diagram, Section, Viewer
from twoslice.report.pictures import doubt_picture, slice_of, three_planes
from twoslice.report.sources import Sources
from twoslice.report.tables import (
    Rival,
    rivals_table,
    scores_table,
    sizes_table,
)
from twoslice.report.viewer import Shown, pack

MOST_CARDS = 12


def comparison(rivals: Sequence[Rival]) -> Section | None:
    """Ways to get labels, side by side."""
    if not rivals:
        return None
    words = "Mean ± standard deviation over scans, each the mean of its labels. The best is bold."
    return Section("comparison", "Side by side", (words,), rivals_table(rivals))


def drawn_slices(sources: Sources, annotations: dict[str, SparseAnnotation]) -> Section:
    """What a person drew, and how little of the scan it is."""
    cards = []
    for case, annotation in _first(annotations.items()):
        volume = sources.dataset.read_image(case)
        labels = annotation.label_map(elsewhere=0)
        pictures = tuple(
            slice_of(
                volume,
                drawn.plane,
                drawn.index,
                outlines=[Outline(_only(labels, drawn.plane, drawn.index), "drawn", filled=True)],
                marks=[
                    Mark(other.plane, other.index)
                    for other in annotation.slices
                    if other.plane != drawn.plane
                ],
            )
            for drawn in annotation.slices
        )
        share = float(annotation.drawn().mean())
        cards.append(Card(case, pictures, figure=f"{100 * share:.1f} % of the scan"))
    words = (
        "Everything that the networks were taught with comes from these slices. Dotted lines show "
        "where the slices of a scan cross.",
        _left_out(len(annotations)),
    )
    return Section("drawn", "Drawn slices", _said(words), cards=tuple(cards))


def propagated_views(sources: Sources, annotations: dict[str, SparseAnnotation]) -> Section | None:
    """The dense pseudo labels that registration made of the drawn slices."""
    cards = []
    for case, annotation in _first(annotations.items()):
        record = sources.propagation(case)
        if not record:
            continue
        volume = sources.dataset.read_image(case)
        labels = read_view(sources.dataset, case, "fused").label
        marks = [Mark(drawn.plane, drawn.index) for drawn in annotation.slices]
        expected = record.get("quality", {}).get("expected_dice")
        cards.append(
            Card(
                case,
                three_planes(volume, [Outline(labels, "propagated")], labels, marks=marks),
                figure="" if expected is None else f"expected Dice {100 * expected:.0f}",
            )
        )
    if not cards:
        return None
    words = (
        "Each drawn slice was carried through its scan, slice by slice, by registration. Away from "
        "the drawn slices (dotted) these labels are guesses, and training trusts them less. The "
        "expected Dice is propagation's own estimate, made without dense labels.",
    )
    return Section("propagated", "Propagated labels", words, cards=tuple(cards))


def training_curves(sources: Sources) -> Section | None:
    """What the losses and the weights did."""
    columns = dict(sources.columns)
    steps = columns.pop("step", None)
    if not steps:
        return None
    weights = {name: values for name, values in columns.items() if name in WEIGHTS}
    losses = {
        name: values
        for name, values in columns.items()
        if name not in WEIGHTS and not name.startswith(NOT_LOSSES)
    }
    loss_curves = [smoothed(Curve(name, steps, values)) for name, values in losses.items()]
    weight_curves = [
        smoothed(Curve(WEIGHTS[name], steps, values)) for name, values in weights.items()
    ]
    diagrams = (
        Diagram("Losses", chart(loss_curves, title="losses"), "Running means over iterations."),
        Diagram(
            "Weights and shares",
            chart(weight_curves, title="weights", unit={"low": 0.0, "high": 1.0}),
            "α falls from dense labels to the drawn slices alone; λ moves trust to the peer."
            if "alpha" in weights
            else "",
        ),
    )
    shown = tuple(diagram for diagram in diagrams if diagram.svg)
    return Section("training", "Training", curves=shown) if shown else None


# Columns of metrics.csv that are weights or shares between 0 and 1, and what the page calls them.
WEIGHTS = {
    "alpha": "α, slice decay",
    "trust": "λ, cross supervision",
    "mask_fraction": "share of certain voxels",
    "dice_drawn": "Dice on drawn voxels of the patches",
}
NOT_LOSSES = ("learning_rate", "seconds")


def predicted_labels(sources: Sources) -> Section | None:
    """Predictions in three planes; with dense labels the worst first."""
    if not sources.predictions:
        return None
    order = sources.order
    cards, unseen = [], []
    for case in order[:MOST_CARDS]:
        volume = sources.read_scan(case)
        if volume is None:
            unseen.append(case)
            continue
        labels = read_label_map(sources.predictions[case]).data
        outlines = [Outline(labels, "predicted")]
        if case in sources.labels:
            outlines.append(Outline(read_label_map(sources.labels[case]).data, "reference"))
        pictures = three_planes(volume, outlines, labels)
        doubt = sources.read_doubt(case)
        if doubt is not None:
            pictures = (*pictures, doubt_picture(volume, labels, doubt))
        cards.append(Card(case, pictures, figure=_dice(sources, case)))
    first = "judged worst" if sources.verdict else "the lowest Dice" if sources.evaluation else ""
    words = (
        "Each scan on the slices that show the most of its targets"
        + (f", {first} first." if first else "."),
        "The last picture of a row shows in yellow where the networks doubt."
        if sources.uncertainty is not None and sources.uncertainty.is_dir()
        else "",
        _left_out(len(order)),
        f"Scans not found: {', '.join(unseen)}. Name them with --scans." if unseen else "",
    )
    return Section("predictions", "Predictions", _said(words), cards=tuple(cards))


def scans_table(sources: Sources) -> Section | None:
    """A row a predicted scan: metrics where dense labels were given, else volumes."""
    if not sources.predictions:
        return None
    if sources.verdict is not None and sources.evaluation is None:
        return None  # the verdict's own table names the scans
    if sources.evaluation is not None:
        words = ("Scored against the dense labels that were given; the lowest Dice first.",)
        return Section("scores", "Measured", words, scores_table(sources.evaluation))
    sizes = {}
    for case, path in sources.predictions.items():
        labels = read_label_map(path)
        counts = np.bincount(labels.data.ravel(), minlength=sources.dataset.classes)
        sizes[case] = (counts, float(np.prod(labels.grid.spacing)) / 1000.0)
    words = ("No dense labels were given, so nothing is scored; these are the predicted volumes.",)
    table = sizes_table(sizes, sources.dataset.class_names)
    return Section("scores", "Scans", words, table)


def scroll(sources: Sources, annotations: dict[str, SparseAnnotation]) -> Section | None:
    """Slices of every predicted scan to scroll through, as far as the page has room."""

    def read(case: str) -> Shown | None:
        volume = sources.read_scan(case)
        if volume is None:
            return None
        drawn = annotations.get(case)
        reference = sources.labels.get(case)
        return Shown(
            case,
            volume.data[0],
            volume.spacing,
            read_label_map(sources.predictions[case]).data,
            reference=read_label_map(reference).data if reference else None,
            doubt=sources.read_doubt(case),
            marks=tuple((each.plane, each.index) for each in drawn.slices) if drawn else (),
        )

    packed = tuple(pack(sources.order, read))
    if not packed:
        return None
    left = len(sources.predictions) - len(packed)
    note = f"{left} further scans did not fit into the page." if left else ""
    words = ("Scroll with the slider, the mouse wheel over a picture, or the arrow keys.",)
    shown = Viewer(packed, bool(sources.labels), note)
    return Section("look", "Slice by slice", words, viewer=shown)


def settings_block(sources: Sources) -> Section:
    """How to do it again."""
    text = sources.run.settings.to_yaml()
    words = (f"The run folder {sources.run.folder} holds checkpoints, curves and these settings.",)
    return Section("settings", "Settings", words, blocks=(Block("All settings of the run", text),))


def _only(labels: NDArray[np.uint8], plane: Plane, index: int) -> NDArray[np.uint8]:
    """The labels of one drawn slice, without the line that another one leaves across it."""
    kept = np.zeros_like(labels)
    kept[plane.slice(index)] = labels[plane.slice(index)]
    return kept


def _dice(sources: Sources, case: str) -> str:
    predicted = {row.case: row.dice for row in sources.verdict.scans} if sources.verdict else {}
    said = f"predicted {100 * predicted[case]:.0f}" if case in predicted else ""
    if sources.evaluation is None:
        return said
    scores = [row["dice"] for row in sources.evaluation.cases if row["case"] == case]
    measured = f"Dice {100 * float(np.mean(scores)):.1f}" if scores else "no dense label"
    return f"{said}, {measured}" if said and scores else said or measured


def annotations_of(sources: Sources) -> dict[str, SparseAnnotation]:
    """What was drawn, case by case."""
    dataset = sources.dataset
    return {case: read_annotation(dataset, case) for case in dataset.labeled}


def _first(items: Iterable[tuple[str, SparseAnnotation]]) -> list[tuple[str, SparseAnnotation]]:
    return list(items)[:MOST_CARDS]


def _left_out(count: int) -> str:
    return f"{count - MOST_CARDS} more are not pictured." if count > MOST_CARDS else ""


def _said(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word)
