"""What a trained network computes right before its scores: features (C, I, J, K) of whole scans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from twoslice.io.dataset import Dataset
from twoslice.io.grid import Shape
from twoslice.networks.convolutions import Scores
from twoslice.training.run import Run
from twoslice.training.volumes import prepare_image, shape_at


class FeatureReader:
    """The first predicting network of a run, and the input of its classification layer."""

    def __init__(self, run: Path) -> None:
        self.run = Run.open(run)
        self.network = self.run.load_method().predicting[0]
        layers = [layer for layer in self.network.modules() if isinstance(layer, Scores)]
        self.layer: nn.Module = layers[-1]

    def image(self, dataset: Dataset, case: str) -> NDArray[np.float32]:
        """A scan as the network takes it (C, I, J, K)."""
        volume = dataset.read_image(case)
        return prepare_image(volume.data, volume.spacing, self.run.plan.spacing)

    def shape(self, dataset: Dataset, case: str) -> Shape:
        """The voxels of that image; only the scan's header is read."""
        grid = dataset.read_grid(case).ras
        return shape_at(grid.shape, grid.spacing, self.run.plan.spacing)

    def features(self, image: NDArray[np.float32]) -> NDArray[np.float32]:
        """The feature maps of an image, on its own grid."""
        with torch.no_grad(), self._listening() as heard:
            self.network(torch.from_numpy(np.ascontiguousarray(image))[None])
        sides = tuple(slice(side) for side in image.shape[1:])
        out: NDArray[np.float32] = heard[-1][0].float().numpy()[:, *sides]
        return out

    @contextmanager
    def _listening(self) -> Iterator[list[Tensor]]:
        heard: list[Tensor] = []

        def listen(_: nn.Module, arguments: tuple[Any, ...]) -> None:
            heard.append(arguments[0])

        handle = self.layer.register_forward_pre_hook(listen)
        try:
            yield heard
        finally:
            handle.remove()
