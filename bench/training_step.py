"""One DeSCO iteration (both networks, the optimizer's step too) beside a plain statement of it.

python bench/training_step.py [--patch 112,112,80] [--filters 16] [--threads 2] [--repeat 3]

The plain statement is the published training, written down below as anyone would: contiguous
memory, eager; each network passes over its own batch (a labelled and an unlabelled patch); its peer
passes once more over the unlabelled patch for the pseudo label and eight times, two patches at a
time, for the uncertainty mask. Every step runs in a process of its own, one after the other, so
that its peak memory is its own. The arithmetic limit is the step's floating-point operations over
the rate at which this machine multiplies matrices. The first two steps of each are not timed: in
them the process still asks the system for memory that later steps find at hand.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from twoslice.allocator import keep_freed_memory
from twoslice.methods.base import Batch, View
from twoslice.methods.desco import Desco
from twoslice.networks.build import NetworkPlan, build_network
from twoslice.objectives import schedules
from twoslice.settings import load_settings
from twoslice.training.planner import choose_levels
from twoslice.training.recipes import find_recipe

PROGRESS = 0.5
WARMING = 2
STEPS = {
    "plain": "plain statement, V-Net",
    "paper": "preset paper, V-Net",
    "fast-vnet": "preset fast, but V-Net",
    "fast": "preset fast, U-Net",
    "fast-8": "preset fast as planned on a CPU, U-Net, 8 filters",
}
Triple = tuple[int, int, int]


class PlainVNet(nn.Module):
    """The V-Net in PyTorch's own layers, with the names of the published checkpoints."""

    NAMES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    DEPTHS = (1, 2, 3, 3, 3, 3, 3, 2, 1)

    def __init__(self, classes: int, filters: int) -> None:
        super().__init__()
        widths = [filters * 2 ** min(level, 8 - level) for level in range(9)]
        for level, (name, depth) in enumerate(zip(self.NAMES, self.DEPTHS, strict=True)):
            layers: list[nn.Module] = []
            for index in range(depth):
                inputs = 1 if level == index == 0 else widths[level]
                layers += _normed(nn.Conv3d(inputs, widths[level], 3, padding=1))
            self.add_module(f"block_{name}", _named_conv(layers))
            if level < 8:
                kind = nn.Conv3d if level < 4 else nn.ConvTranspose3d
                step = kind(widths[level], widths[level + 1], 2, stride=2)
                way = "dw" if level < 4 else "up"
                self.add_module(f"block_{name}_{way}", _named_conv(_normed(step)))
        self.out_conv = nn.Conv3d(filters, classes, 1)
        self.dropout = nn.Dropout3d(0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of patches whose sides are multiples of 16."""
        skips: list[Tensor] = []
        for name in self.NAMES[:4]:
            x = self.get_submodule(f"block_{name}")(x)
            skips.append(x)
            x = self.get_submodule(f"block_{name}_dw")(x)
        x = self.dropout(self.get_submodule("block_five")(x))
        for before, name in zip(self.NAMES[4:8], self.NAMES[5:], strict=True):
            x = self.get_submodule(f"block_{before}_up")(x) + skips.pop()
            x = self.get_submodule(f"block_{name}")(x)
        scores: Tensor = self.out_conv(self.dropout(x))
        return scores


def _normed(step: nn.Conv3d | nn.ConvTranspose3d) -> list[nn.Module]:
    return [step, nn.BatchNorm3d(step.out_channels), nn.ReLU(inplace=True)]


def _named_conv(layers: list[nn.Module]) -> nn.Module:
    block = nn.Sequential()
    block.add_module("conv", nn.Sequential(*layers))
    return block


def plain_losses(networks: list[nn.Module], batches: list[Batch], progress: float) -> Tensor:
    """Eq. 7 for both networks, each on its own batch, as the paper states it."""
    trust, decay = schedules.cross_weight(progress), schedules.slice_decay(progress)
    scores = [
        network(torch.cat([batch.labeled, batch.unlabeled]))
        for network, batch in zip(networks, batches, strict=True)
    ]
    total = torch.zeros(())
    for index, (score, batch) in enumerate(zip(scores, batches, strict=True)):
        peer, view, count = networks[1 - index], batch.views[index], len(batch.labeled)
        p = score[:count].softmax(dim=1)[:, 1]
        weight, y = decay ** view.distance.float(), view.label.float()
        ce = (weight * F.cross_entropy(score[:count], view.label, reduction="none")).sum()
        ce = ce / weight.sum()
        dice = 1 - 2 * (weight * p * y).sum() / (weight * (p**2 + y**2)).sum()
        with torch.no_grad():
            pseudo = peer(batch.unlabeled).argmax(dim=1)
            mean = torch.zeros_like(score[count:])
            for _ in range(4):
                twice = torch.cat([batch.unlabeled, batch.unlabeled])
                noise = torch.clamp(torch.randn_like(twice) * 0.1, -0.2, 0.2)
                passes = peer(twice + noise).softmax(dim=1)
                mean = mean + (passes[:1] + passes[1:]) / 8
            entropy = -(mean * torch.log(mean + 1e-9)).sum(dim=1)
            certain = (entropy < schedules.uncertainty_threshold(progress, classes=2)).float()
        cross = F.cross_entropy(score[count:], pseudo, reduction="none")
        cross = (certain * cross).sum() / certain.sum().clamp_min(1)
        total = total + (1 - trust) * (ce + dice) / 2 + trust * cross
    return total


def make_batch(patch: Triple, seed: int) -> Batch:
    """A labelled and an unlabelled patch of noise, and two label views of noise."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(2, 1, *patch, generator=generator)
    views = [
        View(
            torch.randint(0, 2, (1, *patch), generator=generator),
            torch.randint(0, 40, (1, *patch), generator=generator),
        )
        for _ in range(2)
    ]
    return Batch(images[:1], images[1:], tuple(views), ("labelled", "unlabelled"))


def plan_of(step: str, patch: Triple, filters: int) -> NetworkPlan:
    """The network of a step: the paper's recipe has the V-Net, the modern one the U-Net."""
    recipe = find_recipe("modern" if step in ("fast", "fast-8") else "paper")
    strides, kernels = choose_levels((1.0, 1.0, 1.0), patch)
    return NetworkPlan(
        kind=recipe.network, channels=1, classes=2, filters=8 if step == "fast-8" else filters,
        dropout=recipe.dropout, normalisation=recipe.normalisation,
        strides=strides, kernels=kernels,
    )  # fmt: skip


def prepare(step: str, patch: Triple, filters: int) -> Callable[[], None]:
    """The step, ready to run."""
    torch.manual_seed(0)
    if step == "plain":
        networks: list[nn.Module] = [PlainVNet(2, filters), PlainVNet(2, filters)]
        weights = [weight for network in networks for weight in network.parameters()]
        optimizer = find_recipe("paper").optimizer([{"params": weights}], 0.01)
        batches = [make_batch(patch, 0), make_batch(patch, 1)]
        return lambda: _take(
            optimizer, lambda: plain_losses(networks, batches, PROGRESS).backward()
        )
    keep_freed_memory()
    preset = "paper" if step == "paper" else "fast"
    method = Desco(plan_of(step, patch, filters), load_settings(preset=preset))
    method.to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]
    recipe = find_recipe("modern" if preset == "fast" else "paper")
    optimizer = recipe.optimizer([{"params": [*method.parameters()]}], 0.01)
    batch = make_batch(patch, 0)
    return lambda: _take(optimizer, lambda: method(batch, PROGRESS).backward())


def _take(optimizer: torch.optim.Optimizer, find_gradient: Callable[[], None]) -> None:
    optimizer.zero_grad(set_to_none=True)
    find_gradient()
    optimizer.step()


def operations(step: str, patch: Triple, filters: int) -> int:
    """Floating-point operations of a step's passes, counted on shapes alone."""
    network = build_network(plan_of(step, patch, filters)).to("meta")
    image = torch.empty(2, 1, *patch, device="meta")
    with FlopCounterMode(display=False) as learning:
        network(image).sum().backward()
    with FlopCounterMode(display=False) as looking, torch.no_grad():
        network(image[:1])
    looks = 9 if step in ("plain", "paper") else 0  # the pseudo label's and eight of the mask
    return int(2 * (learning.get_total_flops() + looks * looking.get_total_flops()))


def matrix_rate(threads: int) -> float:
    """Operations a second of this machine's matrix multiplication, the best of ten."""
    torch.set_num_threads(threads)
    a, b = torch.randn(2, 2048, 2048)
    times = [_timed(lambda: a @ b) for _ in range(10)]
    return 2 * 2048**3 / min(times)


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    """In a child process: the seconds of some steps and the most memory held."""
    torch.set_num_threads(arguments.threads)
    step = prepare(arguments.step, arguments.patch, arguments.filters)
    for _ in range(WARMING):
        step()
    before = time.process_time()
    seconds = [_timed(step) for _ in range(arguments.repeat)]
    cpu = (time.process_time() - before) / arguments.repeat
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"seconds": min(seconds), "slowest": max(seconds), "cpu": cpu, "peak": peak}


def main() -> None:
    """Measure every step in one run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    sides = lambda text: tuple(map(int, text.split(",")))  # noqa: E731
    parser.add_argument("--patch", type=sides, default=(112, 112, 80))
    parser.add_argument("--filters", type=int, default=16)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default=",".join(STEPS), help="some steps, by comma")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        print(json.dumps(measure(arguments)))
        return
    rate = matrix_rate(arguments.threads)
    shape = "×".join(map(str, arguments.patch))
    print(f"patch {shape}, {arguments.filters} filters, {arguments.threads} thread(s), matrices at")
    print(f"{rate / 1e9:.0f} GFLOP/s; seconds are of the fastest of {arguments.repeat} steps\n")
    columns = ("step", "s", "slowest", "times faster", "CPU s", "GFLOP", "limit, s")
    print(f"| {' | '.join(columns)} | over the limit | peak GB |")
    print("|" + " --- |" * 9)
    plain = None
    for step in arguments.only.split(","):
        options = [f"--{name}={getattr(arguments, name)}" for name in ("filters", "threads")]
        options += [f"--patch={shape.replace('×', ',')}", f"--repeat={arguments.repeat}"]
        command = [sys.executable, __file__, f"--step={step}", *options]
        said = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        work = operations(step, arguments.patch, arguments.filters)
        plain = plain or said["seconds"]
        print(
            f"| {STEPS[step]} | {said['seconds']:.2f} | {said['slowest']:.2f} | "
            f"{plain / said['seconds']:.2f} | "
            f"{said['cpu']:.2f} | {work / 1e9:.0f} | {work / rate:.2f} | "
            f"{said['seconds'] * rate / work:.2f} | {said['peak']:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
