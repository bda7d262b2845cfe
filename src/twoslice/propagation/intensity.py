"""What the drawn slices say about intensities: a common scale, and how each class looks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from twoslice.errors import ScanError
from twoslice.propagation.operators import smooth

LOW, HIGH = 0.01, 0.995
BINS = 32
_NEAR = 10  # pixels around the target in which background counts: what lies far off is never met
_SMOOTHING = 1.0  # pixels, before intensities are looked up


def normalize(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each channel of (C, I, J, K) clipped to its 1st and 99.5th percentile and brought to 0–1."""
    scaled = np.empty(image.shape, dtype=np.float32)
    for channel, values in enumerate(image):
        if not np.isfinite(values).all():
            raise ScanError(
                f"channel {channel} of the image holds values that are not finite. Export the scan "
                f"again, or set them to the background's value."
            )
        low, high = _percentiles(values)
        if not high > low:
            raise ScanError(
                f"channel {channel} of the image is constant ({float(values.flat[0]):g}): no slice "
                f"can be registered to its neighbour. Export the scan again."
            )
        np.clip(values, low, high, out=scaled[channel])
        scaled[channel] -= low
        scaled[channel] /= high - low
    return scaled


def _percentiles(values: NDArray[np.float32]) -> tuple[float, float]:
    """The two clipping bounds by counting, twice: no sorted copy, no order of the voxels."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        return low, high
    bounds = [_by_counting(values, low, high, share) for share in (LOW, HIGH)]
    # All but a few voxels alike (a mask, an empty scan with a bright dot): keep the full range.
    return (bounds[0], bounds[1]) if bounds[1] > bounds[0] else (low, high)


def _by_counting(values: NDArray[np.float32], low: float, high: float, share: float) -> float:
    """The value below which `share` of the voxels lie, to a millionth of the range."""
    below, total = 0, values.size
    for _ in range(2):
        counts, edges = np.histogram(values, bins=1024, range=(low, high))
        reached = np.cumsum(counts) + below
        place = int(np.searchsorted(reached, share * total))
        place = min(place, len(counts) - 1)
        below = int(reached[place] - counts[place])
        low, high = float(edges[place]), float(edges[place + 1])
        if not high > low:
            break
    return (low + high) / 2


@dataclass(frozen=True, eq=False)
class Appearance:
    """How likely each class shows each intensity, as seen on drawn slices.

    `log_density` is (channels, classes, bins); a class that no slice showed is even.
    """

    log_density: Tensor

    @classmethod
    def seen_on(cls, drawn: list[tuple[Tensor, Tensor]], classes: int) -> Appearance:
        """From pairs of a slice (C, H, W) and its drawn classes (H, W)."""
        channels = drawn[0][0].shape[0]
        counts = torch.zeros(channels, classes, BINS)
        for slice_, label in drawn:
            target = (label > 0).float()[None, None]
            near = F.max_pool2d(target, 2 * _NEAR + 1, 1, _NEAR)[0, 0] > 0
            bins = quantize(slice_[None])[0].long()
            for channel in range(channels):
                for value in range(classes):
                    found = bins[channel][near & (label == value)]
                    counts[channel, value] += torch.bincount(found, minlength=BINS)
        return cls(_log_density(counts))

    def evidence(self, slices: Tensor) -> Tensor:
        """(N, classes - 1, H, W): log odds of each class against background, by intensity."""
        return self.evidence_of(quantize(slices))

    def evidence_of(self, bins: Tensor) -> Tensor:
        """The same from slices that `quantize` prepared."""
        odds = (self.log_density[:, 1:] - self.log_density[:, :1]) / len(self.log_density)
        count, channels, height, width = bins.shape
        total = torch.zeros(count, odds.shape[1], height, width)
        for channel in range(channels):
            where = bins[:, channel].reshape(-1).int()
            for value, table in enumerate(odds[channel]):
                total[:, value] += table.index_select(0, where).view(count, height, width)
        return total


def quantize(slices: Tensor) -> Tensor:
    """(N, C, H, W) as uint8: the histogram bin of each pixel, after a light smoothing."""
    bins = torch.empty(slices.shape, dtype=torch.uint8)
    for start in range(0, len(slices), 16):  # float copies of a few slices at a time
        part = slices[start : start + 16].contiguous()
        bins[start : start + 16] = (smooth(part, _SMOOTHING).clamp(0, 1) * (BINS - 1)).round()
    return bins


def _log_density(counts: Tensor) -> Tensor:
    """Counts to log densities: smoothed over bins, never 0, even where nothing was counted."""
    channels, classes, _ = counts.shape
    kernel = torch.tensor([0.25, 0.5, 0.25]).view(1, 1, 3)
    smoothed = counts.reshape(-1, 1, BINS)
    for _ in range(2):
        smoothed = F.conv1d(F.pad(smoothed, (1, 1), mode="replicate"), kernel)
    smoothed = smoothed.reshape(channels, classes, BINS)
    total = smoothed.sum(-1, keepdim=True)
    density = torch.where(total > 0, smoothed / total.clamp_min(1e-9), torch.tensor(1 / BINS))
    # A tenth is even, so that one odd voxel never rules a class out.
    return (0.9 * density + 0.1 / BINS).log()
