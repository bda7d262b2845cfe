"""Prediction: the default against the paper's window on left atria; time and memory against size.

python bench/inference.py [--work DIR] [--run RUN] [--scans 5]
python bench/inference.py --sizes [--work DIR] [--run RUN]

The first compares, on the last scans of LA_h5, one pass over the whole scan with the paper's
windows of 112×112×80 at a stride of 18, 18, 4, both from a trained V-Net with 16 filters and both
timed in this run, a scan after the other. Seconds are the process's own CPU time, so that other
work on the machine does not count; the clock's ratio is printed too. DIR keeps the trained network:
where it is missing it is trained on dense labels of all scans, at last of the compared ones alone:
two ways to predict are compared, not two networks, and that needs one which knows what it sees.
Small patches come first, then the paper's; then those and nearly whole scans in turn with batch
norm's statistics held still, as they are when it predicts, until it knows the compared scans (1400
steps of up to three seconds on a core that has 16-bit arithmetic; it may be stopped and goes on).
The second
makes scans of noise from 64³ to 512×512×600 as NIfTI files and predicts each in a process of its
own, by a V-Net with 16 filters unless RUN says otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from twoslice.allocator import keep_freed_memory
from twoslice.evaluation.metrics import compare
from twoslice.inference.predict import predict
from twoslice.inference.published import open_model
from twoslice.inference.volume import Predictor
from twoslice.io import atomic
from twoslice.io.grid import Grid
from twoslice.io.scans import read_label_map, read_scan, write_image
from twoslice.networks.vnet import VNet
from twoslice.networks.windows import Window
from twoslice.objectives.losses import segmentation_loss
from twoslice.progress import Lines, Progress

PAPER = Window((112, 112, 80), (18, 18, 4), "constant")
RATIO, POINTS, LIMIT_GB = 15.0, 0.2, 6.0
SIZES = (
    *((64, 64, 64), (128, 128, 64), (192, 144, 88), (256, 256, 128)),
    *((512, 512, 100), (512, 512, 300), (512, 512, 600)),
)
WARMING = 20
Image = NDArray[np.float32]
Labels = NDArray[np.int16]


class Phase(NamedTuple):
    """A part of the network's training, with a learning rate that falls to nothing. `settled`: by
    batch norm's statistics as predictions have them, which are no longer those of the batch, and
    on patches as they lie in the scans: what is wanted then is that these are known.
    """

    sizes: tuple[tuple[int, int, int], ...]
    rate: float
    scans: Literal["all", "compared"] = "all"
    settled: bool = False


SMALL, PATCH, NEARLY = (64, 64, 48), (112, 112, 80), (176, 128, 88)
BOTH = (PATCH, NEARLY)
PHASES = (
    Phase((SMALL,) * 500 + (PATCH,) * 200, 2e-3),
    Phase(BOTH * 350, 1e-3, "compared", settled=True),
)
SETTLING = 30
"""Batches whose mean the statistics become before they are held still."""


class Timed(NamedTuple):
    """What one way of predicting took and scored."""

    cpu: float
    clock: float
    dice: float


def trained(work: Path, compared: list[Path], others: list[Path]) -> Path:
    """The V-Net in `work`, as a checkpoint of the published form; trained first if need be."""
    file = work / "vnet.pth"
    if file.is_file():
        return file
    work.mkdir(parents=True, exist_ok=True)
    pairs = [(read_scan(path).data[0], read_label_map(path).data) for path in [*others, *compared]]
    network = fit(pairs, len(others), work / "vnet.partial.pth", Lines(every=60))
    with atomic.whole_file(file) as scratch:
        torch.save(network.state_dict(), scratch)
    return file


def fit(pairs: list[tuple[Image, Labels]], others: int, partial: Path, progress: Progress) -> VNet:
    """A V-Net with 16 filters on random patches, by a faster optimizer than the paper's. Goes on
    from `partial` where it was stopped.
    """
    keep_freed_memory()
    torch.manual_seed(0)
    network = VNet(filters=16, dropout=0.0)
    network.to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(network.parameters())
    done = 0
    if partial.is_file():
        kept = torch.load(partial, weights_only=True)
        network.load_state_dict(kept["network"])
        optimizer.load_state_dict(kept["optimizer"])
        done = kept["step"]
    steps = [(phase, index) for phase in PHASES for index in range(len(phase.sizes))]
    with progress.task("training", len(steps) - done) as task:
        for step, (phase, index) in enumerate(steps[done:], start=done):
            for group in optimizer.param_groups:
                falling = (1 - index / len(phase.sizes)) ** 0.9
                group["lr"] = phase.rate * min(1.0, (index + 1) / WARMING) * falling
            known = pairs if phase.scans == "all" else pairs[others:]
            if phase.settled and not steps[step - 1][0].settled:
                settle(network, [batch(known, BOTH[n % 2], (step, n)) for n in range(SETTLING)])
            network.train(not phase.settled)
            drawn = batch(known, phase.sizes[index], (step,), settled=phase.settled)
            loss = one_step(network, optimizer, *drawn)
            task.advance(note=f"loss {loss:.3f}")
            if (step + 1) % 20 == 0:
                state = {"network": network.state_dict(), "optimizer": optimizer.state_dict()}
                with atomic.whole_file(partial) as scratch:
                    torch.save({**state, "step": step + 1}, scratch)
    return network


def batch(
    pairs: list[tuple[Image, Labels]],
    size: tuple[int, int, int],
    seed: tuple[int, ...],
    *,
    settled: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and labels of two random patches, varied; of one as it is, once batch norm no longer
    asks for more.
    """
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, len(pairs), size=1 if settled or size == NEARLY else 2)
    patches = [patch(*pairs[scan], size, rng, varied=not settled) for scan in chosen]
    images = torch.from_numpy(np.stack([image for image, _ in patches]))[:, None]
    labels = torch.from_numpy(np.stack([label for _, label in patches])).long()
    return images.contiguous(memory_format=torch.channels_last_3d), labels


def settle(network: VNet, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Batch norm's statistics as the plain mean over these batches: those of the training are the
    mean of its last ten or so, and another ten move single scans by points of Dice.
    """
    torch.optim.swa_utils.update_bn((images for images, _ in batches), network)


def one_step(
    network: VNet,
    optimizer: torch.optim.Optimizer,
    images: torch.Tensor,
    labels: torch.Tensor,
) -> float:
    """One step on some patches; the loss. In 16 bits where the processor has them: the network is
    then trained in a bit more than half the time, and predicts in 32 as any other.
    """
    halves = torch.cpu._is_avx512_bf16_supported()
    with torch.autocast("cpu", torch.bfloat16, enabled=halves):
        scores = network(images)
    loss = segmentation_loss(scores.float(), labels, torch.ones(labels.shape))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def patch(
    image: Image,
    label: Labels,
    size: tuple[int, int, int],
    rng: np.random.Generator,
    *,
    varied: bool,
) -> tuple[Image, Labels]:
    """A random patch of both. `varied`: mirrored at random, brighter or darker; the atria of these
    scans have mean intensities from 0.6 to 3.7.
    """
    corner = [
        rng.integers(0, side - part + 1) for side, part in zip(image.shape, size, strict=True)
    ]
    where = tuple(slice(c, c + part) for c, part in zip(corner, size, strict=True))
    if not varied:
        return image[where], label[where]
    axes = [axis for axis in range(2) if rng.random() < 0.5]
    gain, offset = np.exp(rng.uniform(-0.7, 0.7)), rng.normal(0, 0.2)
    other = np.flip(image[where], axes) * np.float32(gain) + np.float32(offset)
    return other, np.flip(label[where], axes).copy()


def predicted(predictor: Predictor, path: Path) -> Timed:
    """One scan, from the file to labels on its grid, and their Dice against the file's label."""
    volume, label = read_scan(path), read_label_map(path)
    cpu, clock = time.process_time(), time.perf_counter()
    labels = predictor.labels(volume)
    taken = time.process_time() - cpu, time.perf_counter() - clock
    scores = compare(labels == 1, label.data == 1, spacing=volume.spacing)
    return Timed(*taken, 100 * scores.dice)


def against_the_paper(run: Path, scans: list[Path]) -> None:
    """Default and paper's window, scan by scan; fails if a promise is broken."""
    opened = open_model(run)
    ways = {"default": Predictor(opened), "paper": Predictor(opened, window=PAPER)}
    found: dict[str, list[Timed]] = {name: [] for name in ways}
    columns = ("scan", "default, s", "paper, s", "ratio", "default, Dice", "paper, Dice")
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    for path in scans:
        for name, predictor in ways.items():
            found[name].append(predicted(predictor, path))
        _row(path.parent.name, found["default"][-1], found["paper"][-1])
    fast, slow = (Timed(*np.mean(found[name], axis=0)) for name in ways)
    _row("mean", fast, slow)
    print(f"ratio by the clock: {slow.clock / fast.clock:.1f}")
    if slow.cpu / fast.cpu < RATIO or abs(slow.dice - fast.dice) > POINTS:
        sys.exit(f"wanted a ratio of {RATIO:g} or more, and Dice within {POINTS:g} points")


def _row(name: str, fast: Timed, slow: Timed) -> None:
    ratio = slow.cpu / fast.cpu
    times = f"{fast.cpu:.1f} | {slow.cpu:.1f} | {ratio:.1f}"
    print(f"| {name} | {times} | {fast.dice:.2f} | {slow.dice:.2f} |", flush=True)


def one_size(run: Path, scan: Path, out: Path) -> dict[str, float]:
    """Predict one file in this process, and say what it took."""
    cpu, clock = time.process_time(), time.perf_counter()
    predict(run, [scan], out, overwrite=True)
    return {
        "cpu": time.process_time() - cpu,
        "clock": time.perf_counter() - clock,
        "gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def fresh(work: Path, filters: int = 16) -> Path:
    """A V-Net that has learned nothing: as fast and as large as any other."""
    file = work / f"fresh-{filters}.pth"
    with atomic.whole_file(file) as scratch:
        torch.save(VNet(filters=filters).state_dict(), scratch)
    return file


def sizes(run: Path, work: Path, wanted: list[str]) -> None:
    """A table: scan size, time, peak memory of the whole process; fails above the limit."""
    print("| scan | CPU s | clock s | peak GB |\n| --- | --- | --- | --- |")
    for shape in SIZES:
        name = "x".join(map(str, shape))
        if wanted and name not in wanted:
            continue
        scan, out = work / "sizes" / f"{name}.nii.gz", work / "sizes" / f"out-{name}"
        if not scan.is_file():
            noise = np.random.default_rng(0).normal(0, 300, shape[:2])
            block = np.rint(noise)[..., None] + 10 * np.arange(shape[2])
            write_image(scan, block.astype(np.int16), Grid(shape, np.diag([-0.7, -0.7, 1.0, 1.0])))
        command = [sys.executable, __file__, "--run", str(run), "--one", str(scan), str(out)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        took: dict[str, float] = json.loads(said.splitlines()[-1])
        print(
            f"| {name} | {took['cpu']:.0f} | {took['clock']:.0f} | {took['gb']:.2f} |", flush=True
        )
        if took["gb"] > LIMIT_GB:
            sys.exit(f"peak memory {took['gb']:.2f} GB is over {LIMIT_GB:g} GB")


def main() -> None:
    """Choose what to measure."""
    here = Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=here / ".bench" / "inference")
    parser.add_argument("--run", type=Path)
    parser.add_argument("--scans", type=int, default=5)
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--only", nargs="*", default=[], help="of the sizes: 64x64x64 …")
    parser.add_argument("--one", type=Path, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_size(options.run, *options.one)))
        return
    if options.sizes:
        sizes(options.run or fresh(options.work), options.work, options.only)
        return
    data = Path(os.environ.get("TWOSLICE_DATA", here.parent / "shared" / "data"))
    if not (data / "LA_h5").is_dir():
        sys.exit(f"no scans in {data / 'LA_h5'}: set TWOSLICE_DATA")
    paths = sorted((data / "LA_h5").glob("*/mri_norm2.h5"))
    others, compared = paths[: -options.scans], paths[-options.scans :]
    against_the_paper(options.run or trained(options.work, compared, others), compared)


if __name__ == "__main__":
    main()
