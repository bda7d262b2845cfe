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
    k, m = _centred(_kernel(x)), _centred(_kernel(y))
    return float((k * m).sum()) / (len(k) - 1) ** 2


def alignment(x: Samples, y: Samples) -> float:
    """The unbiased estimate of HSIC (Song et al., 2012) over the geometric mean of each one's own.

    1 for equal kernels, 0 on average for independent samples, however few they are and however
    many values each has; `hsic` grows with the latter by itself, since a sample resembles itself.
    """
    k, m = _kernel(x), _kernel(y)
    own = _unbiased(k, k) * _unbiased(m, m)
    return _unbiased(k, m) / float(np.sqrt(own)) if own > 0 else 0.0


def _unbiased(k: Matrix, m: Matrix) -> float:
    """From kernels of n > 3 samples."""
    n = len(k)
    k, m = k - np.diag(np.diag(k)), m - np.diag(np.diag(m))
    rows = k.sum(axis=0) @ m.sum(axis=0)
    both = (k * m).sum() + k.sum() * m.sum() / ((n - 1) * (n - 2)) - 2 * rows / (n - 2)
    return float(both) / (n * (n - 3))


def _kernel(x: Samples) -> Matrix:
    flat = np.asarray(x, np.float64).reshape(len(x), -1)
    squares = (flat**2).sum(axis=1)
    distance = np.maximum(squares[:, None] + squares[None] - 2 * flat @ flat.T, 0.0)
    np.fill_diagonal(distance, 0.0)
    apart = distance[np.triu_indices(len(flat), 1)]
    width = float(np.median(apart[apart > 0])) if (apart > 0).any() else 1.0
    out: Matrix = np.exp(-distance / (2 * width))
    return out


def _centred(kernel: Matrix) -> Matrix:
    """H K H: centred in both directions."""
    rows = kernel.mean(axis=0)
    out: Matrix = kernel - rows[None] - rows[:, None] + rows.mean()
    return out
