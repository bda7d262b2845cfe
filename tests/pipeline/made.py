"""A dataset of many tiny scans, some of them broken, and settings of a run that takes seconds."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np

from training import tiny
from twoslice.settings import Settings, parse_settings


def settings(iterations: int = 4, folds: int = 2, method: str = "desco") -> Settings:
    base = tiny.settings(method, iterations=iterations, checkpoint_every=2, pictures=False)
    quality = {"folds": folds, "share": 0.5}
    return parse_settings({**base.model_dump(mode="json"), "quality": quality})


def broken_dataset(root: Path, *, cases: int, labeled: int) -> dict[str, str]:
    """The last five scans of the dataset, broken in a way each; returns a word of each reason."""
    tiny.make_dataset(root, cases=cases, labeled=labeled, views=False)
    names = [f"tiny_{index}" for index in range(cases - 5, cases)]
    images = [root / "imagesTr" / f"{name}_0000.nii.gz" for name in names]
    cut_short, empty, same, endless, _ = images
    cut_short.write_bytes(cut_short.read_bytes()[:200])
    empty.write_bytes(b"")
    affine = nib.load(same).affine
    nib.save(nib.Nifti1Image(np.full(tiny.SHAPE, 7, np.float32), affine), same)
    nib.save(nib.Nifti1Image(np.full(tiny.SHAPE, np.nan, np.float32), affine), endless)
    shifted = affine.copy()
    shifted[0, 3] += 5  # a label that lies beside its image
    drawn = np.full(tiny.SHAPE, tiny.IGNORE, np.uint8)
    drawn[:, :, 7], drawn[:, 9, :] = 0, 0
    label = root / "labelsTr" / f"{names[4]}.nii.gz"
    nib.save(nib.Nifti1Image(drawn, shifted), label)
    words = ("cut short", "is empty", "same value", "finite", "another grid")
    return dict(zip(names, words, strict=True))
