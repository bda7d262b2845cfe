"""One volume through a trained run, and back onto its own grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from twoslice.errors import ScanError, SettingsError
from twoslice.io.volume import Volume
from twoslice.memory import PROGRAM_BYTES, available_memory, refuse_beyond_bound
from twoslice.methods.base import Method
from twoslice.networks.regrid import regrid
from twoslice.networks.windows import Slab, Triple, Window, choose_window, sweep, window_bytes
from twoslice.objectives.uncertainty import entropy
from twoslice.settings import InferenceSettings
from twoslice.training.devices import available_device
from twoslice.training.planner import Plan
from twoslice.training.run import Run
from twoslice.training.volumes import resample_image, shape_at


@dataclass(frozen=True, eq=False)
class VolumePrediction:
    """On the scan's RAS grid: `labels` (I, J, K), `probabilities` (C, I, J, K), and two kinds of
    uncertainty, each from 0 to 1: the entropy of the mean, and what the networks disagree about.
    """

    labels: NDArray[np.uint8]
    probabilities: NDArray[np.float32]
    entropy: NDArray[np.float32]
    disagreement: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Piece:
    """Some slices along `axis` of a prediction, on the scan's RAS grid: `where` they lie in it, the
    mean `probabilities` (C, …), and, if they were asked for, `entropy` and `disagreement`.
    """

    axis: int
    where: tuple[slice, slice, slice]
    probabilities: NDArray[np.float32]
    entropy: NDArray[np.float32] | None
    disagreement: NDArray[np.float32] | None


class Predictor:
    """A loaded run that predicts volume after volume.

    Args:
        run: the trained run.
        device: where its networks run; the best of this machine if not given.
        options: flips, networks, window and pieces; the run's own settings if not given.
        window: a window of one's own, in place of the one that `options.window` names.
    """

    def __init__(
        self,
        run: Run,
        *,
        device: torch.device | None = None,
        options: InferenceSettings | None = None,
        window: Window | None = None,
    ) -> None:
        self.run, self.device = run, device or available_device()
        self.plan: Plan = run.plan
        self.options = options or run.settings.inference
        self.window = window
        self.thinned = run.thinned(self.options.largest_component)
        self.method: Method = run.load_method().to(self.device)
        if self.options.network != "both":
            _keep_one(self.method, self.options.network)

    def __call__(self, volume: Volume, *, name: str = "the scan") -> VolumePrediction:
        """Predict one volume, all maps held in memory; `name` is what a fault calls it."""
        classes = self.plan.network.classes
        labels = np.empty(volume.shape, np.uint8)
        probabilities = np.empty((classes, *volume.shape), np.float32)
        uncertain, apart = (np.empty(volume.shape, np.float32) for _ in range(2))
        for piece in self.pieces(volume, uncertainty=True, name=name):
            assert piece.entropy is not None
            assert piece.disagreement is not None
            labels[piece.where] = piece.probabilities.argmax(axis=0)
            probabilities[(slice(None), *piece.where)] = piece.probabilities
            uncertain[piece.where], apart[piece.where] = piece.entropy, piece.disagreement
        return VolumePrediction(self.finish(labels), probabilities, uncertain, apart)

    def labels(self, volume: Volume, *, name: str = "the scan") -> NDArray[np.uint8]:
        """The label map of one volume, on its RAS grid."""
        labels = np.empty(volume.shape, np.uint8)
        for piece in self.pieces(volume, name=name):
            labels[piece.where] = piece.probabilities.argmax(axis=0)
        return self.finish(labels)

    def pieces(
        self, volume: Volume, *, uncertainty: bool = False, name: str = "the scan"
    ) -> Iterator[Piece]:
        """Predict one volume a few slices at a time, in bounded memory, however large it is."""
        image = self.prepare(volume, name=name)
        return self.pieces_of(image, volume.shape, uncertainty=uncertainty, name=name)

    def prepare(self, volume: Volume, *, name: str = "the scan") -> Tensor:
        """The volume as the networks take it, (1, C, I, J, K) on the device."""
        refuse_channels(self.run, volume.channels, name)
        shape = shape_at(volume.shape, volume.spacing, self.plan.spacing)
        try:
            scaled = self.run.normalise(volume.data)
        except ScanError as error:
            raise ScanError(f"{name}: {error}") from None
        prepared = resample_image(scaled, shape)
        image = torch.from_numpy(np.ascontiguousarray(prepared))[None].to(self.device)
        return image.contiguous(memory_format=torch.channels_last_3d)

    def finish(self, labels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """What is done to a whole label map: of some labels, the largest piece alone is kept."""
        return keep_largest(labels, self.thinned) if self.thinned else labels

    def choose_window(self, shape: Triple, *, maps: int = 2) -> Window:
        """The window for a prepared volume of `shape`, in the memory that is free now."""
        if self.window is not None:
            return self.window
        memory = available_memory()
        if self.device.type == "cuda":
            memory = torch.cuda.mem_get_info(self.device)[0]
        plan = self.plan
        return choose_window(
            self.options.window, shape, plan.patch, plan.network, memory=memory, maps=maps
        )

    def pieces_of(
        self, image: Tensor, target: Triple, *, uncertainty: bool = False, name: str = "the scan"
    ) -> Iterator[Piece]:
        """The same of a prepared volume, whose scan has `target` voxels; the scan's own intensities
        need not be held any more.
        """
        source = _triple(image.shape[2:])
        members = len(self.method.predicting)
        maps = self.plan.network.classes * (members if uncertainty else 1)
        window = self.choose_window(source, maps=maps)
        axis = source.index(max(source))
        if self.device.type == "cpu":
            held = PROGRAM_BYTES + image.nbytes + int(np.prod(target))
            sweeping = window_bytes(window, source, axis, self.plan.network, maps=maps)
            refuse_beyond_bound(held + sweeping, f"{name}: to predict it")
        with torch.inference_mode():
            function = self._members if uncertainty else self._mean
            slabs = sweep(function, image, window, axis=axis)
            known = (_with_uncertainty(slab, members) if uncertainty else slab for slab in slabs)
            on_cpu = (Slab(slab.start, slab.stop, slab.maps.cpu()) for slab in known)
            for slab in regrid(on_cpu, source=source, target=target, axis=axis):
                yield _piece(slab, axis, uncertainty=uncertainty)

    def _mean(self, image: Tensor) -> Tensor:
        """The mean of the networks' softmax, (1, C, I, J, K)."""
        return self._softmax(image).mean(dim=0)

    def _members(self, image: Tensor) -> Tensor:
        """Each network's softmax, one after another in (1, N C, I, J, K)."""
        return self._softmax(image).transpose(0, 1).flatten(1, 2)

    def _softmax(self, image: Tensor) -> Tensor:
        """Each network's softmax (N, 1, C, I, J, K); with flips the mean of all mirrorings."""
        every = [axes for count in range(4) for axes in combinations((2, 3, 4), count)]
        mirrored = every if self.options.flips else every[:1]
        total: Tensor | None = None
        for axes in mirrored:
            out = self.method.member_probabilities(image.flip(axes) if axes else image)
            out = out.flip([axis + 1 for axis in axes]) if axes else out
            total = out if total is None else total.add_(out)
        assert total is not None
        return total.div_(len(mirrored)) if len(mirrored) > 1 else total


def predict_volume(run: Run, volume: Volume) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Labels (I, J, K) and probabilities (C, I, J, K) of one volume, on its RAS grid."""
    prediction = Predictor(run)(volume)
    return prediction.labels, prediction.probabilities


def refuse_channels(run: Run, channels: int, name: str) -> None:
    """A scan must have the channels that the run was trained on."""
    expected = len(run.data.channel_names)
    if channels != expected:
        raise ScanError(
            f"{name}: {channels} channel(s), but the run was trained on {expected} "
            f"({', '.join(run.data.channel_names)}). Give each scan these channels, in this "
            f"order, {_channel_files(expected)}."
        )


def keep_largest(labels: NDArray[np.uint8], which: Sequence[int]) -> NDArray[np.uint8]:
    """Of each of the labels `which`, the largest connected piece; the rest becomes background."""
    from scipy import ndimage

    kept = labels.copy()
    boxes = ndimage.find_objects(labels, max_label=max(which, default=1))
    for value in which:
        box = boxes[value - 1]
        if box is None:
            continue
        mine = labels[box] == value
        numbered = np.zeros(mine.shape, np.int32)
        ndimage.label(mine, output=numbered)
        sizes = np.bincount(numbered.ravel())
        sizes[0] = 0
        kept[box][mine & (numbered != sizes.argmax())] = 0
    return kept


def _keep_one(method: Method, number: int) -> None:
    """Leave network `number`, counted from 1, alone in the method."""
    found = len(method.predicting)
    if number > found:
        raise SettingsError(
            f"--network {number}: this run has {found} network(s). Name one of them, or both."
        )
    method.networks = nn.ModuleList([method.networks[number - 1]])


def _channel_files(count: int) -> str:
    if count == 1:
        return "as a single file"
    names = "CASE_0000.nii.gz and CASE_0001.nii.gz"
    return f"as the files {names}" + (" and so on" if count > 2 else "")


def _with_uncertainty(slab: Slab, members: int) -> Slab:
    """The members' mean, its entropy, and the excess over their own entropies, over ln C."""
    each = slab.maps.reshape(members, -1, *slab.maps.shape[1:])
    mean = each.mean(dim=0, keepdim=True)
    scale = float(np.log(mean.shape[1]))
    total = entropy(mean)[0] / scale
    own = entropy(each).mean(dim=0) / scale
    apart = (total - own).clamp_min(0.0)
    return Slab(slab.start, slab.stop, torch.cat([mean[0], total[None], apart[None]]))


def _piece(slab: Slab, axis: int, *, uncertainty: bool) -> Piece:
    where = [slice(None)] * 3
    where[axis] = slice(slab.start, slab.stop)
    maps = slab.maps.numpy()
    place = (where[0], where[1], where[2])
    if not uncertainty:
        return Piece(axis, place, maps, None, None)
    return Piece(axis, place, maps[:-2], maps[-2], maps[-1])


def _triple(sides: torch.Size) -> Triple:
    i, j, k = sides
    return i, j, k
