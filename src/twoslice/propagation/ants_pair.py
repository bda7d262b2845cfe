"""One pair through ANTs, in a process of its own kind.

ANTs is reproducible only with one ITK thread, which must be asked for before `ants` is imported,
and ignores its own `random_seed`: the seed goes through the environment. So pairs run in spawned
processes that `start` prepares. Nothing here imports torch: such a process should start fast.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

TRANSFORM = "SyNRA"
"""The paper's: rigid, affine, then symmetric normalization with mutual information."""

SEED = 1


def start() -> None:
    """Make this process ready for reproducible registrations."""
    os.environ["ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS"] = "1"
    os.environ["ANTS_RANDOM_SEED"] = str(SEED)
    import ants  # noqa: F401


def register_pair(
    pair: tuple[NDArray[np.float32], NDArray[np.float32]],
) -> NDArray[np.float32]:
    """(2, H, W): rows and columns in pixels from `fixed` to the same content in `moving`.

    Both slices are (C, H, W); ANTs gets the mean of the channels. Slices without any contrast
    (air outside the body) have nothing to register: they stay where they are.
    """
    fixed, moving = (np.ascontiguousarray(side.mean(axis=0)) for side in pair)
    if np.ptp(fixed) == 0 or np.ptp(moving) == 0:
        return np.zeros((2, *fixed.shape), dtype=np.float32)
    import ants

    target, source = ants.from_numpy(fixed), ants.from_numpy(moving)
    # Each call would leave three files in the temporary folder.
    with tempfile.TemporaryDirectory(prefix="twoslice-ants-") as folder:
        try:
            found = ants.registration(
                fixed=target,
                moving=source,
                type_of_transform=TRANSFORM,
                outprefix=f"{folder}/pair",
            )
        except RuntimeError:
            # Nearly empty slices at the border of a scan: no metric can be computed there.
            return np.zeros((2, *fixed.shape), dtype=np.float32)
        return _field(ants, target, source, found["fwdtransforms"], folder)


def _field(
    ants: Any, target: Any, source: Any, transforms: list[str], folder: str
) -> NDArray[np.float32]:
    """The whole chain of transforms as one field; with spacing 1 its millimetres are pixels."""
    chain = ants.apply_transforms(
        fixed=target, moving=source, transformlist=transforms, compose=f"{folder}/chain"
    )
    field = ants.image_read(chain).numpy()
    return np.ascontiguousarray(np.moveaxis(field, -1, 0), dtype=np.float32)
