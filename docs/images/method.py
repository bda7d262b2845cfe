"""The pictures of docs/method.md, from made-up scans: label views, weight maps, an uncertainty
mask, the schedules. The same on every call; about two minutes on two cores.

    python docs/images/method.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from numpy.typing import NDArray

from twoslice.annotation.reading import read_annotation
from twoslice.annotation.simulate import simulate
from twoslice.demo.phantom import write_phantoms
from twoslice.io.dataset import Dataset
from twoslice.objectives import schedules
from twoslice.objectives.uncertainty import entropy, monte_carlo_probabilities
from twoslice.objectives.weights import slice_weight
from twoslice.planes import Plane
from twoslice.progress import for_stderr
from twoslice.propagation.dataset import propagate_dataset
from twoslice.propagation.views import read_views
from twoslice.settings import parse_settings
from twoslice.training.loop import train
from twoslice.training.recipes import RECIPES
from twoslice.training.volumes import prepare_image

HERE = Path(__file__).parent
SHAPE = (64, 64, 40)
ORGAN, GLAND, TRUTH, LINE = "#f28e2b", "#2fb5e9", "#ffffff", "#ffe14d"
INK, SOFT = "#1c2126", "#5b6570"
LINES = ("#0b6e6e", "#c25a12", "#6a51a3", "#3182bd", "#a1356b", "#5d7a1f")
STYLE = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 110,
}


class Slice:
    """One slice of a scan on an axis, voxels in their right shape."""

    def __init__(self, axes: Axes, plane: Plane, index: int, spacing: tuple[float, ...]) -> None:
        self.axes, self.plane, self.index = axes, plane, index
        self.across, self.down = (spacing[axis] for axis in range(3) if axis != plane.axis)
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_visible(False)

    def show(self, volume: NDArray[Any], **options: Any) -> Any:
        """The volume's values as colours."""
        pixels = self.plane.facing(volume, self.index)
        self.extent = (0, pixels.shape[1] * self.across, pixels.shape[0] * self.down, 0)
        return self.axes.imshow(pixels, extent=self.extent, **options)

    def scan(self, image: NDArray[Any]) -> None:
        """The scan in grey."""
        low, high = np.percentile(image, (0.5, 99.7))
        self.show(image, cmap="gray", vmin=low, vmax=high, interpolation="bicubic")

    def outline(self, labels: NDArray[Any], *, colours: tuple[str, ...], **options: Any) -> None:
        """The outlines of labels 1, 2, …"""
        pixels = self.plane.facing(labels, self.index)
        x = (np.arange(pixels.shape[1]) + 0.5) * self.across
        y = (np.arange(pixels.shape[0]) + 0.5) * self.down
        for value, colour in enumerate(colours, start=1):
            inside = (pixels == value).astype(float)
            if inside.any():
                self.axes.contour(x, y, inside, levels=[0.5], colors=[colour], **options)

    def mark(self, plane: Plane, index: int, shape: tuple[int, ...]) -> None:
        """Where another plane's drawn slice crosses."""
        share = (shape[plane.axis] - index - 0.5) / shape[plane.axis]
        upright = plane.axis == min(axis for axis in range(3) if axis != self.plane.axis)
        line = self.axes.axvline if upright else self.axes.axhline
        line(share * (self.extent[1] if upright else self.extent[2]), color=LINE, lw=1, ls=":")


class Scene:
    """One labelled phantom: image, truth, drawn slices and the two label views."""

    def __init__(self, dataset: Dataset, truth: Dataset) -> None:
        case = dataset.labeled[0]
        volume = dataset.read_image(case)
        self.image, self.spacing = volume.data[0], volume.spacing
        self.truth = truth.read_labels(case).data
        self.slices = read_annotation(dataset, case).slices
        views = read_views(dataset, case)
        self.views = {source.plane: views[str(source.plane)] for source in self.slices}
        self.middle = {source.plane: source.index for source in self.slices}


def draw_label_views(scene: Scene) -> None:
    """Two rows, a label view each: on its source slice, some slices off, and from the side."""
    figure, grid = plt.subplots(2, 4, figsize=(9.6, 5.9), layout="constrained")
    for row, (plane, view) in zip(grid, scene.views.items(), strict=True):
        source = scene.middle[plane]
        offs = [0, 5, 10] if plane is Plane.AXIAL else [0, 7, 12]
        panels = [(plane, source + off) for off in offs] + [
            (Plane.SAGITTAL, scene.image.shape[0] // 2 - 8)
        ]
        for axes, (seen, index) in zip(row, panels, strict=True):
            drawn = Slice(axes, seen, index, scene.spacing)
            drawn.scan(scene.image)
            drawn.outline(scene.truth, colours=(TRUTH, TRUTH), linewidths=0.9, linestyles="--")
            drawn.outline(view.label, colours=(ORGAN, GLAND), linewidths=1.8)
            for other, at in scene.middle.items():
                if other is not seen:
                    drawn.mark(other, at, scene.image.shape)
            off = abs(index - source)
            title = "drawn by hand" if off == 0 else f"{off} slices further"
            axes.set_title(title if seen is plane else "from the side")
        row[0].set_ylabel(f"{plane} label view", color=INK)
    save(figure, "label-views")


def draw_weights(scene: Scene) -> None:
    """Weights of both views on a sagittal slice, which both drawn slices cross, for three α."""
    figure, grid = plt.subplots(2, 4, figsize=(9.6, 6.1), layout="constrained")
    index, shown = scene.image.shape[0] // 2 - 8, None
    for row, (plane, view) in zip(grid, scene.views.items(), strict=True):
        side = Slice(row[0], Plane.SAGITTAL, index, scene.spacing)
        side.scan(scene.image)
        side.outline(view.label, colours=(ORGAN, GLAND), linewidths=1.6)
        for other, at in scene.middle.items():
            side.mark(other, at, scene.image.shape)
        row[0].set_ylabel(f"{plane} label view", color=INK)
        distance = torch.from_numpy(view.distance.astype(np.int64))
        for axes, alpha in zip(row[1:], (0.95, 0.5, 0.0), strict=True):
            weight = slice_weight(distance, alpha).numpy()
            side = Slice(axes, Plane.SAGITTAL, index, scene.spacing)
            shown = side.show(weight, cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
            side.outline(view.label, colours=("#ffffff", "#ffffff"), linewidths=0.7)
            axes.set_title(f"α = {alpha:g}")
    grid[0, 0].set_title("the view, from the side")
    figure.colorbar(shown, ax=grid[:, 1:], shrink=0.6, label="weight of a voxel", pad=0.02)
    save(figure, "weights")


def draw_uncertainty(dataset: Dataset, folder: Path) -> None:
    """A network early in its training on a scan without labels: T = 8 noisy passes, and the mask.

    One class: between two classes the doubt can pass the threshold, between three it hardly does.
    """
    volume = dataset.read_image(dataset.unlabeled[0])
    settings = parse_settings(
        {
            "training": {
                "iterations": 150, "patch": (32, 32, 16), "spacing": volume.spacing,
                "device": "cpu", "pictures": False,
            },
        }
    )  # fmt: skip
    run = train(dataset, folder, settings, progress=for_stderr())
    peer = run.load_method().networks[1]
    image = torch.from_numpy(prepare_image(volume.data, volume.spacing, run.plan.spacing))[None]
    torch.manual_seed(0)
    with torch.no_grad():
        pseudo = peer(image).argmax(dim=1)[0].numpy()
        doubt = entropy(monte_carlo_probabilities(peer, image, passes=8))[0].numpy()
    _draw_doubt(volume.data[0], volume.spacing, pseudo, doubt)


def _draw_doubt(
    image: NDArray[Any], spacing: tuple[float, ...], pseudo: NDArray[Any], doubt: NDArray[Any]
) -> None:
    index = int((pseudo > 0).sum(axis=(0, 1)).argmax())
    figure, row = plt.subplots(1, 4, figsize=(9.6, 3.0), layout="constrained")
    panels = [Slice(axes, Plane.AXIAL, index, spacing) for axes in row]
    largest = float(np.log(2))
    shown = panels[1].show(doubt / largest, cmap="magma", vmin=0, vmax=1)
    figure.colorbar(shown, ax=row[1], shrink=0.75, pad=0.02, ticks=[0, 0.5, 1])
    row[1].set_title("entropy / ln C, T = 8")
    for panel in (panels[0], *panels[2:]):
        panel.scan(image)
        panel.outline(pseudo, colours=(ORGAN,), linewidths=1.6)
    row[0].set_title("the peer's hard label")
    for panel, progress in zip(panels[2:], (0.0, 0.7), strict=True):
        limit = schedules.uncertainty_threshold(progress, classes=2)
        left_out = np.where(doubt >= limit, 1.0, np.nan)
        panel.show(left_out, cmap="Reds", vmin=0, vmax=1.3, alpha=0.75, interpolation="nearest")
        panel.axes.set_title(f"left out at {100 * progress:.0f} % ({limit / largest:.2f} ln C)")
    save(figure, "uncertainty")


def draw_schedules() -> None:
    """α, λ, the threshold and both recipes' learning rates over a training."""
    at = np.linspace(0, 1, 2001)
    figure, grid = plt.subplots(2, 2, figsize=(9.6, 5.0), layout="constrained", sharex=True)
    (alpha, cross), (threshold, rate) = grid
    alpha.plot(at, [schedules.slice_decay(t) for t in at], color=LINES[0])
    alpha.set_title("decay rate α: dense to sparse")
    cross.plot(at, [schedules.cross_weight(t) for t in at], color=LINES[0])
    cross.set_title("λ, weight of the cross supervision")
    limits = [schedules.uncertainty_threshold(t, classes=2) / np.log(2) for t in at]
    threshold.plot(at, limits, color=LINES[0])
    threshold.set_title("uncertainty threshold, as a share of ln C")
    threshold.set_ylim(0.7, 1.02)
    for colour, (name, recipe) in zip(LINES, RECIPES.items(), strict=False):
        rates = [recipe.learning_rate * recipe.rate(t) for t in at[:-1]]
        rate.plot(at[:-1], rates, color=colour, label=f"recipe {name}")
    rate.set_yscale("log")
    rate.set_ylim(3e-5, 3e-2)
    rate.set_title("learning rate")
    rate.legend(frameon=False, loc="lower left")
    for axes in grid.flat:
        axes.grid(color="#e6e9eb", lw=0.8)
    for axes in grid[1]:
        axes.set_xlabel("share of the training that is done")
    for axes in (alpha, cross):
        axes.set_ylim(0, 1)
    save(figure, "schedules")


def save(figure: Any, name: str) -> None:
    """Write a figure without a date in it, so that the same picture is the same file."""
    figure.savefig(HERE / f"method-{name}.png", metadata={"Software": None}, facecolor="white")
    plt.close(figure)


def make(folder: Path) -> None:
    """Scans, two slices in three of them, label views, a short training, four pictures."""
    draw_schedules()
    dense = write_phantoms(folder / "dense", seed=3, training=6, test=0, shape=SHAPE)
    dataset = simulate(dense, folder / "data", labeled=3, planes=[Plane.AXIAL, Plane.CORONAL])
    propagate_dataset(dataset, progress=for_stderr())
    scene = Scene(dataset, dense)
    draw_label_views(scene)
    draw_weights(scene)
    organ = simulate(dense, folder / "organ", labeled=3, labels=["organ"])
    propagate_dataset(organ, progress=for_stderr())
    draw_uncertainty(organ, folder / "run")


if __name__ == "__main__":
    torch.set_num_threads(1)
    plt.rcParams.update(STYLE)
    with tempfile.TemporaryDirectory() as scratch:
        make(Path(scratch))
