"""The run's way through a scan as an inferer of MONAI's, for bundles.

This file goes into every bundle as it is, with the files that it imports: a bundle gives the labels
that `twoslice predict` gives, on machines that do not have twoslice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from monai.inferers import Inferer
from torch import Tensor

from twoslice.memory import available_memory
from twoslice.networks.build import NetworkPlan
from twoslice.networks.regrid import regrid
from twoslice.networks.windows import Slab, Triple, WindowChoice, choose_window, sweep
from twoslice.training.volumes import normalise_intensity, resample_image, shape_at


class WholeScan(Inferer):  # type: ignore[misc]  # MONAI has no types
    """From RAS scans (B, C, I, J, K) with their affine to probabilities (B, classes, I, J, K) on
    the same voxels: intensities normalised, resampled, predicted in windows, resampled back.

    Args:
        network: the plan of the network, which says how much memory a window takes.
        spacing: millimetres that scans are resampled to; None: each keeps its own.
        patch: voxels along I, J, K that the networks were trained on.
        window: `auto`, `whole`, `patch` or `paper`.
        flips: whether to average over the eight mirrorings.
    """

    def __init__(
        self,
        network: Mapping[str, Any],
        spacing: tuple[float, float, float] | None,
        patch: Triple,
        window: WindowChoice = "auto",
        flips: bool = False,
    ) -> None:
        super().__init__()
        self.plan = NetworkPlan.model_validate(network)
        self.spacing, self.window = spacing, window
        self.patch: Triple = (patch[0], patch[1], patch[2])
        self.axes = [
            [axis for axis, used in zip((2, 3, 4), choice, strict=True) if used]
            for choice in product((False, True) if flips else (False,), repeat=3)
        ]

    def __call__(
        self, inputs: Tensor, network: Callable[..., Tensor], *args: Any, **kwargs: Any
    ) -> Tensor:
        """Probabilities of each scan of the batch."""
        device = inputs.device
        with torch.inference_mode():
            found = [self._one(image, network, device) for image in inputs]
        return torch.stack(found).to(device)

    def _one(self, image: Tensor, network: Callable[..., Tensor], device: torch.device) -> Tensor:
        data = image.detach().cpu().numpy().astype(np.float32)
        affine = image.affine.cpu().numpy().astype(np.float64)  # type: ignore[attr-defined]
        millimetres = np.linalg.norm(affine[:3, :3], axis=0)
        target: Triple = (data.shape[1], data.shape[2], data.shape[3])
        source = shape_at(target, millimetres, self.spacing)
        prepared = resample_image(normalise_intensity(data), source)
        tensor = torch.from_numpy(np.ascontiguousarray(prepared))[None].to(device)
        tensor = tensor.contiguous(memory_format=torch.channels_last_3d)
        memory = available_memory()
        if device.type == "cuda":
            memory = torch.cuda.mem_get_info(device)[0]
        window = choose_window(self.window, source, self.patch, self.plan, memory=memory)
        axis = int(np.argmax(source))
        swept = sweep(lambda part: self._mirrored(part, network), tensor, window, axis=axis)
        slabs = (Slab(slab.start, slab.stop, slab.maps.cpu()) for slab in swept)
        pieces = regrid(slabs, source=source, target=target, axis=axis)
        return torch.cat([piece.maps for piece in pieces], dim=axis + 1)

    def _mirrored(self, image: Tensor, network: Callable[..., Tensor]) -> Tensor:
        total = [
            network(image.flip(axes) if axes else image).flip(axes) if axes else network(image)
            for axes in self.axes
        ]
        return total[0] if len(total) == 1 else torch.stack(total).mean(dim=0)


def find_cases(folder: str, channels: int) -> list[dict[str, list[str]]]:
    """The scans in a folder: `CASE_0000.nii.gz`, `CASE_0001.nii.gz`, … are one; otherwise every
    NIfTI file is one, where the networks take a single channel.
    """
    files = sorted(path for path in Path(folder).iterdir() if _stem(path) != path.name)
    first = [path for path in files if _stem(path).endswith("_0000")]
    if not first and channels == 1:
        return [{"image": [str(path)]} for path in files]
    cases = []
    for path in first:
        stem, ending = _stem(path).removesuffix("_0000"), path.name[len(_stem(path)) :]
        parts = [path.with_name(f"{stem}_{index:04d}{ending}") for index in range(channels)]
        cases.append({"image": [str(part) for part in parts]})
    return cases


def name_output(meta: Mapping[str, Any], saver: object) -> dict[str, str | None]:
    """`CASE.nii.gz` for a scan in `CASE_0000.nii.gz`."""
    return {"subject": _stem(Path(str(meta["filename_or_obj"]))).removesuffix("_0000"), "idx": None}


def _stem(path: Path) -> str:
    """The name without .nii or .nii.gz; any other name as it is."""
    return path.name.removesuffix(".gz").removesuffix(".nii") if ".nii" in path.name else path.name
