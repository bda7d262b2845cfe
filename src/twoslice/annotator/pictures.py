"""Scans as the page shows them: codes of one or two bytes a voxel, slices of them compressed.

The window is applied in the browser, so a slice is sent once, whatever window it is seen in.
Whole numbers, as in CT, keep their exact values; all else is rounded to one of 65536 steps.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twoslice.annotator.runs import letters, to_screen
from twoslice.io.dataset import Dataset
from twoslice.io.grid import Grid, Shape
from twoslice.planes import Plane

Codes = NDArray[np.uint8] | NDArray[np.uint16]

_MOST_BYTES = 2 << 30
"""Of scans kept in memory; the one in use and the next are kept whatever their size."""
_MOST_SLICE_BYTES = 256 << 20
_SAMPLE = 400_000


@dataclass(frozen=True, eq=False)
class Channel:
    """One channel (I, J, K): the value of a voxel is `offset + step * code`."""

    codes: Codes
    offset: float
    step: float
    window: tuple[float, float]
    hounsfield: bool

    @classmethod
    def of(cls, data: NDArray[np.float32], *, name: str) -> Channel:
        """Code one channel of finite numbers."""
        low, high = float(data.min()), float(data.max())
        sample = data.reshape(-1)[:: max(1, data.size // _SAMPLE)]
        whole = bool((data == np.rint(data)).all()) and high - low < 65536
        step = 1.0 if whole else max((high - low) / 65535, float(np.finfo(np.float32).tiny))
        scaled = data - np.float32(low)
        if not whole:
            scaled /= np.float32(step)
            np.rint(scaled, out=scaled)
        np.clip(scaled, 0, 65535, out=scaled)
        small = whole and high - low < 256
        codes: Codes = scaled.astype(np.uint8) if small else scaled.astype(np.uint16)
        looks_like_ct = name.strip().upper() == "CT" and low <= -200
        return cls(codes, low, step, _window(sample), looks_like_ct)


@dataclass(frozen=True, eq=False)
class Picture:
    """One scan, coded, with the grid that its labels are written on."""

    channels: tuple[Channel, ...]
    grid: Grid
    stamp: str

    @property
    def shape(self) -> Shape:
        """Voxels along I, J, K."""
        i, j, k = self.channels[0].codes.shape
        return i, j, k

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return sum(channel.codes.nbytes for channel in self.channels)

    def slice_bytes(self, channel: int, plane: Plane, index: int) -> bytes:
        """The codes of one slice in the screen's rows, little-endian, gzipped."""
        rows = np.ascontiguousarray(to_screen(plane.take(self.channels[channel].codes, index)))
        little = rows.astype(rows.dtype.newbyteorder("<"), copy=False)
        return packed(little.tobytes())

    def describe(self) -> dict[str, object]:
        """What the page needs to know of the scan."""
        spacing = self.grid.ras.spacing
        planes = {}
        for plane in Plane:
            across, along = (axis for axis in range(3) if axis != plane.axis)
            planes[plane.value] = {
                "slices": self.shape[plane.axis],
                "width": self.shape[across],
                "height": self.shape[along],
                "spacing": [spacing[across], spacing[along]],
                "letters": letters(plane),
            }
        channels = [
            {
                "bytes": each.codes.dtype.itemsize,
                "offset": each.offset,
                "step": each.step,
                "window": each.window,
                "hounsfield": each.hounsfield,
            }
            for each in self.channels
        ]
        return {
            "planes": planes,
            "channels": channels,
            "shape": self.shape,
            "spacing": spacing,
            "stamp": self.stamp,
        }


def packed(content: bytes) -> bytes:
    """A gzip stream made in a hurry: runs alone are sought, which noise has none other of."""
    made = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS, 9, zlib.Z_RLE)
    return made.compress(content) + made.flush()


def load_picture(dataset: Dataset, case: str) -> Picture:
    """Read and code one scan."""
    volume = dataset.read_image(case)
    channels = tuple(
        Channel.of(data, name=name)
        for data, name in zip(volume.data, dataset.channel_names, strict=True)
    )
    return Picture(channels, volume.grid, _stamp(dataset, case))


class Pictures:
    """Scans by case, read when first asked for; the least recently used are dropped."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._kept: OrderedDict[str, Picture] = OrderedDict()
        self._slices: OrderedDict[tuple[str, int, Plane, int], bytes] = OrderedDict()
        self._slice_bytes = 0
        self._lock = threading.Lock()
        self._loading: dict[str, threading.Lock] = {}

    def get(self, case: str) -> Picture:
        """The picture of a case. Two requests for it read it once."""
        with self._lock:
            found = self._kept.get(case)
            if found is not None:
                self._kept.move_to_end(case)
                return found
            loading = self._loading.setdefault(case, threading.Lock())
        with loading:
            with self._lock:
                found = self._kept.get(case)
            if found is None:
                found = load_picture(self.dataset, case)
                self._keep(case, found)
        return found

    def slice_bytes(self, case: str, channel: int, plane: Plane, index: int) -> bytes:
        """One compressed slice, from memory if it was asked for lately."""
        key = (case, channel, plane, index)
        with self._lock:
            known = self._slices.get(key)
            if known is not None:
                self._slices.move_to_end(key)
                return known
        made = self.get(case).slice_bytes(channel, plane, index)
        with self._lock:
            if key not in self._slices:
                self._slices[key] = made
                self._slice_bytes += len(made)
            while self._slice_bytes > _MOST_SLICE_BYTES:
                _, dropped = self._slices.popitem(last=False)
                self._slice_bytes -= len(dropped)
        return made

    def _keep(self, case: str, picture: Picture) -> None:
        with self._lock:
            self._kept[case] = picture
            while len(self._kept) > 2 and sum(p.size for p in self._kept.values()) > _MOST_BYTES:
                self._kept.popitem(last=False)


def _window(sample: NDArray[np.float32]) -> tuple[float, float]:
    """From the darkest to the brightest of what is not the emptiness around the body."""
    low = float(sample.min())
    body = sample[sample > low]
    if body.size < sample.size // 100 or body.size == 0:
        body = sample
    first, last = (float(value) for value in np.percentile(body, (1, 99.5)))
    return (first, last) if last > first else (low, low + 1.0)


def _stamp(dataset: Dataset, case: str) -> str:
    """Changes when a scan's files do: the browser may keep slices under it for ever."""
    stats = [path.stat() for path in dataset.case(case).images]
    return "-".join(f"{stat.st_mtime_ns:x}.{stat.st_size:x}" for stat in stats)
