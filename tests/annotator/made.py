"""Small datasets to draw on, on every kind of grid, and a running annotator to ask."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import nibabel as nib
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

IGNORE = 3
SHAPE = (36, 30, 20)
CLIENT = "test-client"

LPS = np.diag([-1.5, -1.5, 2.0, 1.0])
ANISOTROPIC = np.diag([0.8, 0.8, 6.0, 1.0])
RAS = np.diag([1.0, 1.0, 1.0, 1.0])


def oblique() -> NDArray[np.float64]:
    """Turned by some 20 degrees, with the axes in another order and flipped."""
    turn = Rotation.from_euler("xyz", [14, -9, 17], degrees=True).as_matrix()
    axes = np.array([[0, 0, -1.0], [1, 0, 0], [0, -1, 0]])
    affine = np.eye(4)
    affine[:3, :3] = turn @ axes @ np.diag([1.2, 2.5, 0.9])
    affine[:3, 3] = [40, -70, 12]
    return affine


GRIDS = {"LPS": LPS, "anisotropic": ANISOTROPIC, "oblique": oblique()}


def write_dataset(
    root: Path,
    *,
    cases: int = 3,
    affine: NDArray[np.float64] = LPS,
    shape: tuple[int, int, int] = SHAPE,
    ignore: bool = True,
    channel: str = "MRI",
) -> Path:
    """Scans of a bright ball in a body, nothing drawn; labels organ 1 and gland 2."""
    (root / "imagesTr").mkdir(parents=True)
    for number in range(cases):
        image = nib.Nifti1Image(scan(shape, number), affine)
        nib.save(image, root / "imagesTr" / f"case_{number}_0000.nii.gz")
    labels = {"background": 0, "organ": 1, "gland": 2} | ({"ignore": IGNORE} if ignore else {})
    content = {
        "name": "made",
        "channel_names": {"0": channel},
        "labels": labels,
        "numTraining": 0,
        "file_ending": ".nii.gz",
    }
    (root / "dataset.json").write_text(json.dumps(content))
    return root


def scan(shape: tuple[int, int, int], seed: int) -> NDArray[np.int16]:
    """A body that fills the middle of the box, with a ball in it."""
    middle = (np.array(shape).reshape(3, 1, 1, 1) - 1) / 2
    reach = np.sqrt((((np.indices(shape) - middle) / (middle + 1)) ** 2).sum(axis=0))
    noise = np.random.default_rng(seed).normal(0, 5, shape)
    image = np.where(reach < 0.9, 100, 0) + np.where(reach < 0.5, 80, 0) + noise
    return image.astype(np.int16)


class Served:
    """A running `twoslice annotate`."""

    def __init__(self, root: Path, *options: str) -> None:
        self.root, self.options = root, options
        self.log = root.parent / f"{root.name}.log"
        self.process: subprocess.Popen[str] | None = None
        self.link = ""

    def start(self) -> Served:
        program = "from twoslice.cli import main; main()"
        command = [sys.executable, "-c", program, "annotate", str(self.root), "--no-browser"]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*command, *(self.options or ("--port", "0"))],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("http"):
                self.link = line.strip()
                return self
        raise AssertionError(f"no link was printed: {self.log.read_text()}")

    @property
    def token(self) -> str:
        return self.link.partition("token=")[2]

    @property
    def base(self) -> str:
        return self.link.partition("/?")[0]

    @property
    def port(self) -> int:
        return int(self.base.rpartition(":")[2])

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        # verify=False: no certificates are loaded, which takes longer than the request.
        return httpx.Client(
            base_url=self.base, headers=headers, timeout=60, trust_env=False, verify=False
        )

    def kill(self) -> None:
        """As a power cut would: nothing is finished, nothing is said."""
        assert self.process is not None
        self.process.kill()
        self.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.wait()

    def wait(self) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        code = self.process.wait(timeout=20)
        self.process.stdout.close()
        return code


@contextmanager
def served(root: Path, *options: str) -> Iterator[Served]:
    """A running annotator for a while."""
    server = Served(root, *options).start()
    try:
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.stop()


def paint(plane: str, index: int, runs: list[int]) -> dict[str, Any]:
    """An edit as the page sends it."""
    return {"kind": "paint", "plane": plane, "index": index, "runs": runs}
