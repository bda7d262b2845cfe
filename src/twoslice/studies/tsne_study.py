"""Fig. 4: features of models taught by one slice a volume: t1 and t2 by parallel slices, t1 and c
by orthogonal ones. Are those of the same class closer where the slices share voxels?

The rows of such a study are called t1, t2 and c. All three start from the same weights (one seed).
t-SNE shows it; what is said in figures is measured on the features themselves, since t-SNE keeps no
distances: how far the two models' means of a class are apart, over how far the classes are apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twoslice.errors import SettingsError
from twoslice.evaluation.metrics import compare
from twoslice.io import atomic
from twoslice.io.dataset import Dataset
from twoslice.io.scans import read_label_map
from twoslice.progress import Progress
from twoslice.studies.job import PREDICTIONS

if TYPE_CHECKING:
    from twoslice.studies.study import StudyResult

Features = NDArray[np.float32]
PAIRS = (("t1", "t2"), ("t1", "c"))
# The paper's: red and orange are foreground, blue and aqua background.
_COLOURS = (("blue", "red"), ("aqua", "orange"))


def analyse_features(
    result: StudyResult, dense: Mapping[str, Path], *, progress: Progress
) -> dict[str, Any]:
    """Write `tsne.json` and, with scikit-learn and matplotlib, `tsne.png`."""
    runs = {run.row.name: run for run, _ in result.finished}
    if not {"t1", "t2", "c"} <= runs.keys():
        raise SettingsError(f"rows are {', '.join(runs)}, and a t-SNE study has t1, t2 and c.")
    folders = {name: result.folder(run) for name, run in runs.items()}
    first = runs["t1"]
    opened = Dataset.open(dense[first.data.data.dense])
    truth = result.out / "truth" / first.data.truth
    options = result.study.analysis
    cases = [p.name.removesuffix(".nii.gz") for p in sorted(truth.glob("*.nii.gz"))]
    cases = cases[: options.scans]
    features, classes = sample_features(
        folders, opened, truth, cases, voxels=options.voxels, seed=options.seed, progress=progress
    )
    found = {
        "cases": len(cases),
        "voxels": len(classes),
        "pairs": {
            f"{a} and {b}": {
                **consistency(features[a], features[b], classes),
                "agreement": _agreement(folders[a], folders[b], cases),
            }
            for a, b in PAIRS
        },
    }
    atomic.write_json(result.out / "tsne.json", found)
    progress.say(in_words(found))
    if find_spec("sklearn") is None or find_spec("matplotlib") is None:
        progress.say("no t-SNE picture: pip install 'twoslice[studies]'")
        return found
    _draw(features, classes, options.perplexity, options.seed, result.out / "tsne.png")
    return found


def sample_features(
    folders: Mapping[str, Path],
    dense: Dataset,
    truth: Path,
    cases: Sequence[str],
    *,
    voxels: int,
    seed: int,
    progress: Progress,
) -> tuple[dict[str, Features], NDArray[np.bool_]]:
    """Each model's features (N, C) at the same voxels of the held-out scans, half of them of the
    target, and which ones are.
    """
    from twoslice.studies.features import FeatureReader
    from twoslice.training.volumes import resample_view

    readers = {name: FeatureReader(folder / "run") for name, folder in folders.items()}
    rng = np.random.default_rng(seed)
    each = max(1, voxels // len(cases))
    found: dict[str, list[Features]] = {name: [] for name in readers}
    classes: list[NDArray[np.bool_]] = []
    with progress.task("features", len(cases)) as task:
        for case in cases:
            labels = read_label_map(truth / f"{case}.nii.gz").data.astype(np.uint8)
            grids: dict[tuple[int, ...], tuple[NDArray[np.intp], ...]] = {}
            for name, reader in readers.items():
                maps = reader.features(reader.image(dense, case))
                i, j, k = maps.shape[1:]
                if (i, j, k) not in grids:
                    if grids:
                        raise SettingsError("the models see scans at different voxel sizes.")
                    target, _ = resample_view(labels, np.ones(labels.shape, np.int16), (i, j, k))
                    grids[(i, j, k)] = _places(target > 0, each, rng)
                    classes.append((target > 0)[grids[(i, j, k)]])
                at = grids[(i, j, k)]
                found[name].append(maps[:, at[0], at[1], at[2]].T)
            task.advance(note=case)
    return {name: np.concatenate(parts) for name, parts in found.items()}, np.concatenate(classes)


def consistency(a: Features, b: Features, target: NDArray[np.bool_]) -> dict[str, float]:
    """`within`: how far the two models' means of a class are apart, the mean over both classes;
    `between`: how far the classes' means are apart; `ratio`: the former over the latter, smaller
    where the models put the same class at the same place.
    """
    means = {
        (name, kind): each[target == kind].mean(axis=0)
        for name, each in (("a", a), ("b", b))
        for kind in (False, True)
    }
    within = np.mean([np.linalg.norm(means["a", k] - means["b", k]) for k in (False, True)])
    between = np.mean([np.linalg.norm(means[n, True] - means[n, False]) for n in ("a", "b")])
    return {"within": float(within), "between": float(between), "ratio": float(within / between)}


def in_words(found: Mapping[str, Any]) -> str:
    """The claim, and whether it holds."""
    parallel, orthogonal = (found["pairs"][f"{a} and {b}"] for a, b in PAIRS)
    verdict = "closer" if orthogonal["ratio"] < parallel["ratio"] else "NOT closer"
    return (
        f"features of one class, distance between models over distance between classes: parallel "
        f"{parallel['ratio']:.3f}, orthogonal {orthogonal['ratio']:.3f}: the orthogonal pair is "
        f"{verdict}; Dice between the models' label maps: parallel "
        f"{100 * parallel['agreement']:.1f}, orthogonal {100 * orthogonal['agreement']:.1f}"
    )


def _places(
    target: NDArray[np.bool_], count: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], ...]:
    """As many voxels of the target as of the rest, or as many as there are."""
    places = []
    for kind in (True, False):
        of_kind = np.argwhere(target == kind)
        taken = rng.choice(len(of_kind), size=min(count, len(of_kind)), replace=False)
        places.append(of_kind[taken])
    return tuple(np.concatenate(places).T)


def _agreement(a: Path, b: Path, cases: Sequence[str]) -> float:
    """The mean Dice between two models' label maps."""
    dice = []
    for case in cases:
        ours, theirs = (read_label_map(f / PREDICTIONS / f"{case}.nii.gz") for f in (a, b))
        spacing = ours.grid.ras.spacing
        dice.append(compare(ours.data > 0, theirs.data > 0, spacing=spacing).dice)
    return float(np.mean(dice))


def _draw(
    features: Mapping[str, Features],
    target: NDArray[np.bool_],
    perplexity: float,
    seed: int,
    path: Path,
) -> None:
    from sklearn.manifold import TSNE

    from twoslice.studies.figures import saved_figure

    with saved_figure(path, 1, 2, size=(4.2, 4.0)) as axes:
        for axis, names, kind in zip(axes[0], PAIRS, ("parallel", "orthogonal"), strict=True):
            both = np.concatenate([features[name] for name in names])
            place = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(both)
            halves = (place[: len(target)], place[len(target) :])
            for half, colours, name in zip(halves, _COLOURS, names, strict=True):
                for is_target, word in ((False, "background"), (True, "target")):
                    here = half[target == is_target]
                    axis.scatter(
                        here[:, 0],
                        here[:, 1],
                        s=4,
                        color=colours[is_target],
                        label=f"{name}, {word}",
                    )
            axis.set(title=f"{kind}: {' and '.join(names)}", xticks=[], yticks=[])
            axis.legend(fontsize="x-small", markerscale=2)
