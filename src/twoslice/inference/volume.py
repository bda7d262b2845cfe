"""One volume through a trained run, and back onto its own grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from twoslice.errors import ScanError
from twoslice.io.volume import Volume
from twoslice.methods.base import Method
from twoslice.objectives.uncertainty import entropy
from twoslice.training.devices import available_device
from twoslice.training.planner import Plan
from twoslice.training.run import Run
from twoslice.training.volumes import prepare_image, resample_image

_WHOLE = 1.0
"""A volume of up to this many patches goes through in one pass: instance norm takes its
statistics from what it sees, so a larger field than in training is not the same to it. Measured
on one seed of phantoms: 79.0 Dice in one pass, 80.3 in windows of the patch's size."""


@dataclass(frozen=True, eq=False)
class VolumePrediction:
    """On the scan's RAS grid: `labels` (I, J, K), `probabilities` (C, I, J, K), and two kinds of
    uncertainty, each from 0 to 1: the entropy of the mean, and what the networks disagree about.
    """

    labels: NDArray[np.uint8]
    probabilities: NDArray[np.float32]
    entropy: NDArray[np.float32]
    disagreement: NDArray[np.float32]


class Predictor:
    """A loaded run that predicts volume after volume."""

    def __init__(self, run: Run, *, device: torch.device | None = None) -> None:
        self.run, self.device = run, device or available_device()
        self.plan: Plan = run.plan
        self.method: Method = run.load_method().to(self.device)
        self.options = run.settings.inference

    def __call__(self, volume: Volume, *, name: str = "the scan") -> VolumePrediction:
        """Predict one volume; `name` is what a fault calls it."""
        expected = len(self.run.data.channel_names)
        if volume.channels != expected:
            raise ScanError(
                f"{name}: {volume.channels} channel(s), but the run was trained on {expected} "
                f"({', '.join(self.run.data.channel_names)}). Give each scan these channels, in "
                f"this order, {_channel_files(expected)}."
            )
        prepared = prepare_image(volume.data, volume.spacing, self.plan.spacing)
        image = torch.from_numpy(np.ascontiguousarray(prepared))[None].to(self.device)
        with torch.inference_mode():
            members = self._members(image.contiguous(memory_format=torch.channels_last_3d))
            mean = members.mean(dim=0)
            uncertain, apart = _uncertainty(members, mean)
        maps = torch.cat([mean, uncertain[:, None], apart[:, None]], dim=1)[0].cpu().numpy()
        maps = resample_image(maps, volume.shape)
        probabilities = maps[:-2]
        labels = probabilities.argmax(axis=0).astype(np.uint8)
        if self.options.largest_component:
            labels = keep_largest(labels, classes=probabilities.shape[0])
        return VolumePrediction(labels, probabilities, maps[-2], maps[-1])

    def _members(self, image: Tensor) -> Tensor:
        """Each network's softmax (N, B, C, I, J, K), the mean over mirrored passes if asked."""
        if not self.options.flips:
            return self._pass(image)
        total: Tensor | None = None
        axes = [
            [a for a, used in zip((2, 3, 4), choice, strict=True) if used]
            for choice in product((False, True), repeat=3)
        ]
        for flipped in axes:
            back = [axis + 1 for axis in flipped]
            out = self._pass(image.flip(flipped)).flip(back)
            total = out if total is None else total + out
        assert total is not None
        return total / len(axes)

    def _pass(self, image: Tensor) -> Tensor:
        """The whole volume at once when it is small, else window by window."""
        patch = self.plan.patch
        if image.shape[2:].numel() <= _WHOLE * np.prod(patch):
            return self.method.member_probabilities(_at_least(image, patch))[
                ..., : image.shape[2], : image.shape[3], : image.shape[4]
            ]
        return _sliding(self.method.member_probabilities, image, patch)


def predict_volume(run: Run, volume: Volume) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Labels (I, J, K) and probabilities (C, I, J, K) of one volume, on its RAS grid."""
    prediction = Predictor(run)(volume)
    return prediction.labels, prediction.probabilities


def keep_largest(labels: NDArray[np.uint8], *, classes: int) -> NDArray[np.uint8]:
    """The largest connected piece of every foreground class; the others become background."""
    from skimage import measure

    kept = np.zeros_like(labels)
    for value in range(1, classes):
        pieces = measure.label(labels == value, connectivity=1)
        if pieces.any():
            sizes = np.bincount(pieces.ravel())
            sizes[0] = 0
            kept[pieces == sizes.argmax()] = value
    return kept


def _channel_files(count: int) -> str:
    if count == 1:
        return "as a single file"
    names = "CASE_0000.nii.gz and CASE_0001.nii.gz"
    return f"as the files {names}" + (" and so on" if count > 2 else "")


def _uncertainty(members: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Entropy of the mean, and its excess over the members' own entropy, over ln C."""
    scale = float(np.log(mean.shape[1]))
    total = entropy(mean) / scale
    own = torch.stack([entropy(member) for member in members]).mean(dim=0) / scale
    return total, (total - own).clamp_min(0.0)


def _at_least(image: Tensor, patch: tuple[int, int, int]) -> Tensor:
    """The image grown at its far sides to at least the size of a patch, the border repeated."""
    missing = [max(0, side - have) for side, have in zip(patch, image.shape[2:], strict=True)]
    i, j, k = missing
    return F.pad(image, (0, k, 0, j, 0, i), mode="replicate") if any(missing) else image


def _sliding(
    members: Callable[[Tensor], Tensor], image: Tensor, patch: tuple[int, int, int]
) -> Tensor:
    """Windows of the patch size that overlap by half, their middles weighing most."""
    from monai.inferers import sliding_window_inference

    count = 0

    def flat(window: Tensor) -> Tensor:
        nonlocal count
        out = members(window)
        count = out.shape[0]
        return out.transpose(0, 1).flatten(1, 2)

    joined: Tensor = sliding_window_inference(
        image, patch, 1, flat, overlap=0.5, mode="gaussian", padding_mode="replicate"
    )
    classes = joined.shape[1] // count
    return joined.view(-1, count, classes, *joined.shape[2:]).transpose(0, 1)
