"""The Hilbert-Schmidt independence criterion of two sets of paired samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.floating]
Matrix = NDArray[np.float64]


def hsic(x: Samples, y: Samples) -> float:
    """tr(K H L H) / (n − 1)² with Gaussian kernels of x (n, p) and y (n, q), whose width is the
    median distance of its samples; 0 if they are independent, in the limit of many samples.
    """
    return float((_centred(x) * _centred(y)).sum()) / (len(x) - 1) ** 2


def alignment(x: Samples, y: Samples) -> float:
    """HSIC over the geometric mean of each one's own: 1 for equal kernels, whatever their scale."""
    k, m = _centred(x), _centred(y)
    own = float(np.linalg.norm(k) * np.linalg.norm(m))
    return float((k * m).sum()) / own if own > 0 else 0.0


def _centred(x: Samples) -> Matrix:
    """H K H: the Gaussian kernel, centred in both directions."""
    flat = np.asarray(x, np.float64).reshape(len(x), -1)
    squares = (flat**2).sum(axis=1)
    distance = np.maximum(squares[:, None] + squares[None] - 2 * flat @ flat.T, 0.0)
    np.fill_diagonal(distance, 0.0)
    apart = distance[np.triu_indices(len(flat), 1)]
    width = float(np.median(apart[apart > 0])) if (apart > 0).any() else 1.0
    kernel = np.exp(-distance / (2 * width))
    rows = kernel.mean(axis=0)
    out: Matrix = kernel - rows[None] - rows[:, None] + rows.mean()
    return out
