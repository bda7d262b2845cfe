"""A run as an ONNX model: the mean of its networks' softmax, for patches of any size.

model.onnx    image (1, channels, I, J, K) -> probabilities (1, classes, I, J, K), float32
model.json    what has to be done to a scan before and after, and how well both agree
"""

from __future__ import annotations

import importlib.util
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from twoslice.errors import SettingsError
from twoslice.export.ensemble import Ensemble
from twoslice.export.trained import load_ensemble, padded_multiple
from twoslice.io import atomic
from twoslice.training.run import Run
from twoslice.training.volumes import HIGH, LOW

MODEL, ABOUT = "model.onnx", "model.json"
AGREE = 1e-4
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def write_onnx(run: Run, out: Path) -> str:
    """Write `model.onnx` and `model.json`, checked by onnxruntime against PyTorch at several sizes.
    Says what was made.
    """
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise SettingsError(
            f"--to onnx needs {', '.join(missing)}. Install with 'pip install twoslice[export]'."
        )
    network = load_ensemble(run)
    multiple = padded_multiple(network)
    with atomic.whole_folder(out) as folder:
        _convert(network, run.plan.network.channels, multiple, folder / MODEL)
        apart = compare(network, folder / MODEL, run.plan.network.channels, multiple)
        if apart > AGREE:
            raise RuntimeError(f"onnxruntime and PyTorch differ by {apart:.2g} in probability")
        atomic.write_json(folder / ABOUT, describe(run) | {"largest_difference": apart})
    return f"onnxruntime agrees with PyTorch to {apart:.0e}"


def describe(run: Run) -> dict[str, Any]:
    """What a program that runs the model must know of the run."""
    plan, data = run.plan, run.data
    return {
        "input": {"name": "image", "shape": [1, plan.network.channels, "I", "J", "K"]},
        "output": {"name": "probabilities", "shape": [1, plan.network.classes, "I", "J", "K"]},
        "orientation": "RAS",
        "spacing_mm": plan.spacing,
        "normalisation": {
            "of": "each channel of the whole scan, before resampling",
            "clip_percentiles": [LOW, HIGH],
            "then": "minus the mean, over the standard deviation",
        },
        "resampling": "trilinear, corners not aligned, to round(side * own mm / mm) voxels",
        "patch": plan.patch,
        "window": run.settings.inference.window,
        "labels": dict(data.labels),
        "channels": list(data.channel_names),
        "method": run.settings.method,
        "step": run.step,
    }


def compare(network: Ensemble, model: Path, channels: int, multiple: tuple[int, ...]) -> float:
    """The largest difference in probability between PyTorch and onnxruntime, over sizes that are a
    multiple of the network's strides, smaller, and neither.
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    generator = torch.Generator().manual_seed(0)
    worst = 0.0
    for factors, more in (((1, 2, 3), 0), ((2, 1, 1), 1), ((1, 1, 1), -1)):
        sides = [max(1, m * f + more) for m, f in zip(multiple, factors, strict=True)]
        image = torch.randn(1, channels, *sides, generator=generator)
        with torch.inference_mode():
            ours = network(image).numpy()
        theirs = session.run(None, {"image": image.numpy()})[0]
        worst = max(worst, float(np.abs(ours - theirs).max()))
    return worst


def _convert(network: Ensemble, channels: int, multiple: tuple[int, ...], path: Path) -> None:
    """Trace with free sides. The example is no multiple of the strides on any side, so that the
    padding inside the networks is part of the model; for a multiple it then pads by nothing.
    """
    free = torch.export.Dim.DYNAMIC
    example: Tensor = torch.zeros(1, channels, *(2 * step + (step > 1) for step in multiple))
    with _quiet():
        program = torch.onnx.export(
            network,
            (example,),
            dynamo=True,
            dynamic_shapes=({2: free, 3: free, 4: free},),
            input_names=["image"],
            output_names=["probabilities"],
            verbose=False,
        )
        assert program is not None
        program.save(str(path), external_data=False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's warnings, which are about PyTorch's own insides."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
