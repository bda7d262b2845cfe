"""Cheaper estimates of where a teacher is certain, beside Monte-Carlo dropout with eight passes.

python bench/uncertainty.py RUN DATASET [--cases 20] [--progress 0.5]

RUN is a training of DeSCO with dropout (the paper's recipe) on DATASET, which `twoslice simulate`
made, so that the dense truth of its unlabelled scans is at hand: it is read here alone, to see how
well each estimate finds the teacher's errors. One patch a scan, around the target; the networks as
they teach, with dropout and batch statistics on. Columns: passes that an estimate costs beyond the
one in which the teacher learned, and its time in such passes; how the mask agrees with that of the
eight passes (Dice of the voxels left out, and share of all voxels alike); how the entropy ranks
the teacher's errors (area under the ROC curve); voxels kept, and errors among them. The last row is
eight passes once more with other draws: no estimate can be expected to agree better than that.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from twoslice.allocator import keep_freed_memory
from twoslice.io.dataset import Dataset
from twoslice.io.scans import read_label_map
from twoslice.networks.vnet import VNet
from twoslice.objectives import schedules
from twoslice.objectives.uncertainty import entropy, monte_carlo_probabilities, softmax_entropy
from twoslice.training.poses import Pose, cut_image, cut_labels
from twoslice.training.run import Run
from twoslice.training.sources import image_cache
from twoslice.training.volumes import resample_view

REFERENCE = "8 passes (UA-MT)"
AGAIN = "8 passes, other draws"


class Look(NamedTuple):
    """One patch: image, truth, the scores that teacher and learner gave in the shared pass."""

    image: Tensor
    truth: Tensor
    scores: Tensor
    learner: Tensor


def last_layer_entropy(network: VNet, look: Look) -> Tensor:
    """One pass without noise up to the last convolution, then eight draws of dropout before it."""
    features: list[Tensor] = []
    handle = network.block_nine.register_forward_hook(lambda _m, _i, out: features.append(out))
    with torch.no_grad():
        network(look.image)
        handle.remove()
        scale = network.dropout.scale(features[0].expand(8, -1, -1, -1, -1))
        draws = [network.out_conv(features[0], each[None]) for each in scale]
        shape = look.image.shape[2:]
        mean = torch.stack([draw.softmax(dim=1) for draw in draws]).mean(dim=0)
    return entropy(mean[..., : shape[0], : shape[1], : shape[2]])


def passes_of(count: int) -> Callable[[VNet, Look], Tensor]:
    """The entropy of the mean of `count` stochastic passes."""
    return lambda network, look: entropy(
        monte_carlo_probabilities(network, look.image, passes=count)
    )


def both_networks(_network: VNet, look: Look) -> Tensor:
    """The entropy of the two networks' mean softmax, each from the pass in which it learned."""
    return entropy((look.scores.softmax(dim=1) + look.learner.softmax(dim=1)) / 2)


ESTIMATES: dict[str, tuple[int, Callable[[VNet, Look], Tensor]]] = {
    REFERENCE: (8, passes_of(8)),
    "4 passes": (4, passes_of(4)),
    "2 passes": (2, passes_of(2)),
    "dropout of the last layer, 8 draws": (1, last_layer_entropy),
    "softmax of the shared pass (fast)": (0, lambda _network, look: softmax_entropy(look.scores)),
    "mean softmax of both networks": (0, both_networks),
    AGAIN: (8, passes_of(8)),
}


def cut(run: Run, dataset: Dataset, case: str) -> tuple[Tensor, Tensor]:
    """A patch around the target of a scan, and its dense truth."""
    image = image_cache(dataset, run.plan, run.folder).get(case)
    truth = read_label_map(dataset.root / "dense" / f"{case}.nii.gz").data
    label, _ = resample_view(truth, np.zeros(truth.shape, np.int16), image.shape[1:])
    half = (np.array(run.plan.patch) - 1) / 2
    middle = np.argwhere(label > 0).mean(axis=0)
    centre = np.floor(middle - half + 0.5) + half
    pose = Pose(centre, np.eye(3), None)
    labels = cut_labels(label[None].astype(np.int16), pose, run.plan.patch, outside=0)
    return cut_image(image, pose, run.plan.patch)[None], labels.round().long()


def area_under_curve(score: Tensor, wrong: Tensor) -> float:
    """The chance that a wrong voxel has a higher score than a right one; ties count half."""
    _, place, count = torch.unique(score, return_inverse=True, return_counts=True)
    rank = (count.cumsum(0) - (count - 1) / 2)[place].double()
    bad = int(wrong.sum())
    good = wrong.numel() - bad
    return float((rank[wrong].sum() - bad * (bad + 1) / 2) / (bad * good))


def looks_at(run: Run, dataset: Dataset, cases: int, networks: nn.ModuleList) -> list[list[Look]]:
    """For each scan, both networks as teachers."""
    found = []
    patches = [cut(run, dataset, case) for case in sorted(dataset.unlabeled)[:cases]]
    for index, (image, truth) in enumerate(patches):
        other = patches[index - 1][0]  # a batch has two patches, as in training
        with torch.no_grad():
            scores = [network(torch.cat([other, image]))[1:] for network in networks]
        found.append([Look(image, truth, scores[i], scores[1 - i]) for i in range(2)])
    return found


def main() -> None:
    """Measure every estimate on the same patches and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--progress", type=float, default=0.5, help="sets the threshold")
    arguments = parser.parse_args()
    keep_freed_memory()
    torch.manual_seed(0)
    run, dataset = Run.open(arguments.run), Dataset.open(arguments.dataset)
    networks = run.load_method().train().networks
    looks = looks_at(run, dataset, arguments.cases, networks)
    limit = schedules.uncertainty_threshold(arguments.progress, classes=2)
    teachers = [(networks[i], pair[i]) for pair in looks for i in range(2)]
    wrong = [look.scores.max(dim=1).indices != look.truth for _, look in teachers]
    share = float(torch.stack(wrong).double().mean())
    print(f"step {run.step}, {len(looks)} scans, two teachers; threshold {limit:.3f} (progress")
    print(f"{arguments.progress:g}); {100 * share:.2f} % of the teachers' voxels are wrong\n")
    print("| estimate | passes | time | Dice | alike, % | AUROC | kept, % | wrong of these, % |")
    print("|" + " --- |" * 8)
    pass_time = _pass_time(*teachers[0])
    reference: list[Tensor] = []
    for name, (passes, estimate) in ESTIMATES.items():
        start = time.process_time()
        values = [estimate(network, look) for network, look in teachers]
        spent = (time.process_time() - start) / len(teachers) / pass_time
        if not reference:
            reference = [value >= limit for value in values]
        out = [value >= limit for value in values]
        overlap = sum(int((a & b).sum()) for a, b in zip(out, reference, strict=True))
        sizes = sum(int(a.sum() + b.sum()) for a, b in zip(out, reference, strict=True))
        alike = np.mean(
            [float((a == b).double().mean()) for a, b in zip(out, reference, strict=True)]
        )
        curve = np.mean([area_under_curve(v, w) for v, w in zip(values, wrong, strict=True)])
        kept = sum(int((~a).sum()) for a in out)
        missed = sum(int((~a & w).sum()) for a, w in zip(out, wrong, strict=True))
        print(
            f"| {name} | {passes} | {spent:.2f} | {2 * overlap / max(sizes, 1):.3f} | "
            f"{100 * alike:.2f} | {curve:.4f} | {100 * kept / wrong[0].numel() / len(wrong):.1f} | "
            f"{100 * missed / max(kept, 1):.2f} |",
            flush=True,
        )


def _pass_time(network: nn.Module, look: Look) -> float:
    """CPU seconds of one patch through one network, without gradients."""
    times = []
    for _ in range(3):
        start = time.process_time()
        with torch.no_grad():
            network(torch.cat([look.image, look.image]))
        times.append((time.process_time() - start) / 2)
    return min(times)


if __name__ == "__main__":
    main()
