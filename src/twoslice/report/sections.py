"""The sections of the page, each a function from the sources to words, pictures and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.reading import read_annotation
from twoslice.annotation.types import SparseAnnotation
from twoslice.io.scans import read_label_map
from twoslice.io.volume import Volume
from twoslice.planes import Plane
from twoslice.propagation.views import read_view
from twoslice.report.curves import Curve, chart, smoothed
from twoslice.report.figures import Mark, Outline, fullest_slice, slice_picture, window
from twoslice.report.parts import Block, Card, Diagram, Picture, Section
from twoslice.report.sources import Sources
from twoslice.report.tables import (
    Rival,
    rivals_table,
    scores_table,
    sizes_table,
    worst_first,
)

MOST_CARDS = 12
PLANES = (Plane.AXIAL, Plane.CORONAL, Plane.SAGITTAL)


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
            _picture(
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
                _three_planes(volume, [Outline(labels, "propagated")], labels, marks=marks),
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
    order = worst_first(sources.evaluation) if sources.evaluation else []
    order += [case for case in sources.predictions if case not in order]
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
        cards.append(
            Card(case, _three_planes(volume, outlines, labels), figure=_dice(sources, case))
        )
    words = (
        "Each scan on the slices that show the most of its targets"
        + (", the lowest Dice first." if sources.evaluation else "."),
        _left_out(len(order)),
        f"Scans not found: {', '.join(unseen)}. Name them with --scans." if unseen else "",
    )
    return Section("predictions", "Predictions", _said(words), cards=tuple(cards))


def scans_table(sources: Sources) -> Section | None:
    """A row a predicted scan: metrics where dense labels were given, else volumes."""
    if not sources.predictions:
        return None
    if sources.evaluation is not None:
        words = ("Scored against the dense labels that were given; the lowest Dice first.",)
        return Section("scans", "Scans", words, scores_table(sources.evaluation))
    sizes = {}
    for case, path in sources.predictions.items():
        labels = read_label_map(path)
        counts = np.bincount(labels.data.ravel(), minlength=sources.dataset.classes)
        sizes[case] = (counts, float(np.prod(labels.grid.spacing)) / 1000.0)
    words = ("No dense labels were given, so nothing is scored; these are the predicted volumes.",)
    table = sizes_table(sizes, sources.dataset.class_names)
    return Section("scans", "Scans", words, table)


def settings_block(sources: Sources) -> Section:
    """How to do it again."""
    text = sources.run.settings.to_yaml()
    words = (f"The run folder {sources.run.folder} holds checkpoints, curves and these settings.",)
    return Section("settings", "Settings", words, blocks=(Block("All settings of the run", text),))


def _three_planes(
    volume: Volume,
    outlines: Sequence[Outline],
    labels: NDArray[np.integer],
    marks: Sequence[Mark] = (),
) -> tuple[Picture, ...]:
    return tuple(
        _picture(
            volume,
            plane,
            fullest_slice(labels, plane),
            outlines=outlines,
            marks=[mark for mark in marks if mark.plane != plane],
        )
        for plane in PLANES
    )


def _picture(
    volume: Volume,
    plane: Plane,
    index: int,
    *,
    outlines: Sequence[Outline],
    marks: Sequence[Mark],
) -> Picture:
    image = volume.data[0]
    caption = f"{plane} {index}"
    svg = slice_picture(
        image,
        plane=plane,
        index=index,
        spacing=volume.spacing,
        grey=window(image),
        outlines=outlines,
        marks=marks,
        title=caption,
    )
    across, down = (axis for axis in range(3) if axis != plane.axis)
    extent = np.array(volume.shape) * volume.spacing
    return Picture(svg, caption, float(extent[across] / extent[down]))


def _only(labels: NDArray[np.uint8], plane: Plane, index: int) -> NDArray[np.uint8]:
    """The labels of one drawn slice, without the line that another one leaves across it."""
    kept = np.zeros_like(labels)
    kept[plane.slice(index)] = labels[plane.slice(index)]
    return kept


def _dice(sources: Sources, case: str) -> str:
    if sources.evaluation is None:
        return ""
    scores = [row["dice"] for row in sources.evaluation.cases if row["case"] == case]
    return f"Dice {100 * float(np.mean(scores)):.1f}" if scores else "no dense label"


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
