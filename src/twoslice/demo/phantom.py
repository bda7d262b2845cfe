"""Phantoms: scans of a made-up body, with two targets and with neighbours that resemble them.

Each scan shows a lobed *organ* and a *gland* in its hollow. A neighbour of nearly the organ's
intensity touches the organ, a vessel of nearly the gland's touches the gland. Pose, size,
lobes and a smooth deformation differ from scan to scan; so do contrast, bias field and noise. Like
much of what comes from scanners, the voxels are not cubes and the files are not stored in RAS.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial.transform import Rotation

from twoslice.io import atomic
from twoslice.io.dataset import Dataset, write_description
from twoslice.io.grid import Grid, Shape
from twoslice.io.scans import write_image, write_labels
from twoslice.progress import Progress, Silent

Field = NDArray[np.float64]
LABELS = {"background": 0, "organ": 1, "gland": 2}
SHAPE: Shape = (48, 48, 24)
EXTENT = (62.4, 62.4, 76.8)
"""Millimetres that the grid spans; voxels are 1.3 × 1.3 × 3.2 mm at the usual shape."""


@dataclass(frozen=True, eq=False)
class Phantom:
    """One scan: image and labels (I, J, K) in RAS, and the LPS grid that files get."""

    image: NDArray[np.float32]
    labels: NDArray[np.uint8]
    grid: Grid


def make_phantom(seed: int | tuple[int, ...], *, shape: Shape = SHAPE) -> Phantom:
    """The phantom of `seed`, the same on every call. The body fills the grid, whatever `shape`."""
    random = np.random.default_rng(seed)
    body = _Body(random, shape)
    return Phantom(
        image=body.image(),
        labels=body.labels(),
        grid=Grid(shape, _lps_affine(shape, body.spacing)),
    )


def write_phantoms(
    out: Path,
    *,
    seed: int = 0,
    training: int = 8,
    test: int = 4,
    shape: Shape = SHAPE,
    progress: Progress | None = None,
) -> Dataset:
    """Write a densely labelled dataset of phantoms: `training` in imagesTr, `test` in imagesTs."""
    with atomic.whole_folder(out) as folder:
        with (progress or Silent()).task("phantoms", training + test) as task:
            for index in range(training + test):
                part, number = ("Tr", index) if index < training else ("Ts", index - training)
                case = f"{'scan' if part == 'Tr' else 'test'}_{number:02d}"
                phantom = make_phantom((seed, index), shape=shape)
                write_image(
                    folder / f"images{part}" / f"{case}_0000.nii.gz", phantom.image, phantom.grid
                )
                write_labels(
                    folder / f"labels{part}" / f"{case}.nii.gz", phantom.labels, phantom.grid
                )
                task.advance(note=case)
        write_description(
            folder,
            name="phantoms",
            channel_names=("phantom",),
            labels=LABELS,
            ignore=None,
        )
    return Dataset.open(out)


class _Body:
    """The shapes of one scan as fields over the grid: positive inside, in about millimetres."""

    def __init__(self, random: np.random.Generator, shape: Shape) -> None:
        self.random, self.shape = random, shape
        spacing = np.array(EXTENT) / shape
        self.spacing = (float(spacing[0]), float(spacing[1]), float(spacing[2]))
        # Where each voxel lies in the body's own, undeformed frame.
        straight = self._coordinates()
        self.at = self._posed(straight + self._displacement(length=12.0, size=3.0))
        self.bent = self.at + np.stack([0.012 * self.at[2] ** 2, *np.zeros((2, *shape))])
        self.torso = _ellipsoid(straight, (0, 0, 0), (31, 28, 60))
        self._place_targets()
        self._place_neighbours()

    def image(self) -> NDArray[np.float32]:
        """Tissue after tissue painted over one another, then what the scanner adds."""
        image = np.full(self.shape, 0.05)
        tissues = (
            (self.torso, 0.50, 0.03, 4.0),
            (self.spine, 1.05, 0.05, 2.0),
            (self.neighbour, 0.63, 0.02, 4.0),
            (self.pouch, 0.30, 0.03, 2.0),
            (self.vessel, 0.80, 0.02, 4.0),
            (self.organ, 0.63, 0.12, 1.0),
            (self.gland, 0.80, 0.12, 1.0),
        )
        for field, value, grain, length in tissues:
            inside = 1.0 / (1.0 + np.exp(-np.clip(field / 0.7, -30, 30)))
            image += inside * (value + grain * self._noise(length) - image)
        bias = 1.0 + 0.12 * self._noise(22.0)
        gain, offset = self.random.uniform(0.8, 1.25), self.random.uniform(-0.05, 0.1)
        noisy = image * bias * gain + offset + 0.03 * self.random.normal(size=self.shape)
        return (1000.0 * noisy).astype(np.float32)

    def labels(self) -> NDArray[np.uint8]:
        """1 in the organ, 2 in the gland."""
        labels = np.zeros(self.shape, dtype=np.uint8)
        labels[self.organ > 0] = LABELS["organ"]
        labels[self.gland > 0] = LABELS["gland"]
        return labels

    def _place_targets(self) -> None:
        """Three lobes around a hollow, and a bent gland in the hollow."""
        jitter = self._jitter
        lobes = (
            _ellipsoid(self.at, jitter((-9, 4, 4), 1.5), jitter((11, 12, 20), 1.5)),
            _ellipsoid(self.at, jitter((5, 11, -6), 1.5), jitter((13, 7, 12), 1.2)),
            _ellipsoid(self.at, jitter((-6, -9, -14), 1.5), jitter((9, 9, 14), 1.2)),
        )
        self.organ = _joined(lobes, smooth=1.5)
        self.gland = _ellipsoid(self.bent, jitter((10, -2, 2), 1.2), jitter((9, 8.5, 17), 0.8))

    def _place_neighbours(self) -> None:
        """What resembles the targets and touches them, and two landmarks."""
        jitter = self._jitter
        self.neighbour = _joined(
            (
                _ellipsoid(self.at, jitter((-9, 3, -28), 2.0), jitter((12, 12, 14), 1.5)),
                _ellipsoid(self.at, jitter((-9, 3, 32), 2.0), jitter((11, 11, 13), 1.5)),
                _ellipsoid(self.at, jitter((15, 13, 10), 2.0), jitter((9, 9, 18), 1.5)),
            ),
            smooth=1.0,
        )
        wave = 3.0 * np.sin(self.at[2] / 11.0 + self.random.uniform(0, 6))
        across = self.at[:2] - np.array([18.0, -4.0])[:, None, None, None] + np.stack([wave, -wave])
        self.vessel = _joined(
            (
                4.0 - np.hypot(*across),
                _ellipsoid(self.bent, jitter((10, -1, 24), 1.2), jitter((6, 6, 12), 0.8)),
                _ellipsoid(self.bent, jitter((10, -1, -20), 1.2), jitter((6, 6, 12), 0.8)),
            ),
            smooth=0.5,
        )
        self.spine = _ellipsoid(self.at, (0, -22, 0), (7, 6, 200))
        self.pouch = _ellipsoid(self.at, jitter((8, -2, 27), 2.0), jitter((10, 9, 8), 1.5))

    def _coordinates(self) -> Field:
        """Millimetres from the grid's middle, (3, I, J, K)."""
        axes = [
            (np.arange(side) - (side - 1) / 2.0) * step
            for side, step in zip(self.shape, self.spacing, strict=True)
        ]
        return np.stack(np.meshgrid(*axes, indexing="ij"))

    def _posed(self, at: Field) -> Field:
        """Turned, shifted and scaled a little, as patients are."""
        turn = Rotation.from_euler("xyz", self.random.normal(0, (4, 4, 9)), degrees=True)
        scale = self.random.uniform(0.92, 1.1, size=3)
        shift = self.random.normal(0, 2.0, size=3)
        turned = np.einsum("ab,b...->a...", turn.as_matrix(), at)
        return np.asarray((turned - shift[:, None, None, None]) / scale[:, None, None, None])

    def _displacement(self, *, length: float, size: float) -> Field:
        """A smooth random displacement of about `size` mm that varies over `length` mm."""
        return size * np.stack([self._noise(length) for _ in range(3)])

    def _noise(self, length: float) -> Field:
        """Smooth noise of mean 0 and deviation 1 that varies over `length` mm."""
        sigma = [length / 2.0 / step for step in self.spacing]
        smooth = ndimage.gaussian_filter(self.random.normal(size=self.shape), sigma)
        return np.asarray((smooth - smooth.mean()) / smooth.std())

    def _jitter(self, values: tuple[float, float, float], size: float) -> NDArray[np.float64]:
        return np.array(values) + self.random.uniform(-size, size, size=3)


def _ellipsoid(at: Field, centre: object, radii: object) -> Field:
    """About the distance to the surface of an ellipsoid, positive inside."""
    sizes = np.asarray(radii, dtype=float)
    offset = at - np.asarray(centre, dtype=float)[:, None, None, None]
    reach = np.sqrt((offset**2 / (sizes**2)[:, None, None, None]).sum(axis=0))
    return np.asarray((1.0 - reach) * sizes.min())


def _joined(fields: tuple[Field, ...], *, smooth: float) -> Field:
    """The union of shapes, rounded over `smooth` mm where they meet."""
    return np.asarray(smooth * np.logaddexp.reduce([field / smooth for field in fields], axis=0))


def _lps_affine(shape: Shape, spacing: tuple[float, float, float]) -> NDArray[np.float64]:
    """Voxel to millimetres of a grid stored from right to left and from front to back."""
    affine = np.diag([-spacing[0], -spacing[1], spacing[2], 1.0])
    middle = [(side - 1) / 2.0 * step for side, step in zip(shape, spacing, strict=True)]
    affine[:3, 3] = [middle[0], middle[1], -middle[2]]
    return affine
