"""Scans of each format, with slices drawn in each way, go through `import` and then `check`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813
from numpy.typing import NDArray

from scan_files import AXES, affine_of, write_series
from twoslice.cli import main
from twoslice.io.grid import Grid
from twoslice.io.scans import read_grid, write_image, write_labels

SHAPE = (24, 22, 20)
GRID = Grid(SHAPE, affine_of(AXES[29], (1.0, 1.2, 1.5), (-30, 12, 8)))
IGNORE = 2


def image(grid: Grid) -> NDArray[np.float32]:
    """A bright ball in noise, in RAS."""
    noise = np.random.default_rng(0).normal(100, 10, grid.ras.shape)
    return np.rint(noise + 80 * ball(grid.ras.shape)).astype(np.float32)


def ball(shape: tuple[int, ...]) -> NDArray[np.int16]:
    centred = np.indices(shape) - np.array(shape).reshape(3, 1, 1, 1) / 2
    return ((centred**2).sum(axis=0) < 49).astype(np.int16)


def drawn(grid: Grid, elsewhere: int) -> NDArray[np.int16]:
    """The ball's middle axial and coronal slice, in RAS."""
    dense = ball(grid.ras.shape)
    labels = np.full(dense.shape, elsewhere, np.int16)
    j, k = dense.shape[1] // 2, dense.shape[2] // 2
    labels[:, j], labels[:, :, k] = dense[:, j], dense[:, :, k]
    return labels


def as_file(ending: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        write_image(folder / f"scan{ending}", image(GRID), GRID)
        return folder / f"scan{ending}"

    return write


def as_mhd(folder: Path) -> Path:
    write_image(folder / "model.mha", image(GRID), GRID)
    sitk.WriteImage(sitk.ReadImage(str(folder / "model.mha")), str(folder / "scan.mhd"))
    return folder / "scan.mhd"


def as_dicom(folder: Path) -> Path:
    voxels = image(Grid(SHAPE, np.diag([-1.0, -1.0, 1.0, 1.0])))[::-1, ::-1]
    write_series(folder / "scan", voxels.astype(np.int16))
    return folder / "scan"


def as_h5(folder: Path) -> Path:
    path = folder / "scan" / "mri_norm2.h5"
    path.parent.mkdir(parents=True)
    with h5py.File(path, "w") as file:
        file["image"] = image(Grid(SHAPE, np.eye(4)))
    return path


FORMATS: dict[str, Callable[[Path], Path]] = {
    **{ending: as_file(ending) for ending in (".nii", ".nii.gz", ".nrrd", ".mha")},
    ".mhd": as_mhd,
    "DICOM": as_dicom,
    ".h5": as_h5,
}


def run(*command: str | Path) -> object:
    with pytest.raises(SystemExit) as stopped:
        main([str(part) for part in command])
    return stopped.value.code


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("elsewhere", [0, IGNORE], ids=["painted", "ignore"])
def test_each_format_is_imported_and_passes_the_check(
    tmp_path: Path, name: str, elsewhere: int, capsys: pytest.CaptureFixture[str]
) -> None:
    source = FORMATS[name](tmp_path / "in")
    grid = read_grid(source)
    label = tmp_path / "labels" / "scan.nii.gz"
    write_labels(label, drawn(grid, elsewhere), grid)
    out = tmp_path / "set"
    names = "organ,ignore" if elsewhere == IGNORE else "organ"
    code = run("import", source, "--out", out, "--labels", label, "--names", names)
    assert code in (0, None), capsys.readouterr().err
    assert run("check", out) in (0, None), capsys.readouterr()
