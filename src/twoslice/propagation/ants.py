"""The paper's registration: SyNRA of antspyx, pair by pair, spread over the cores."""

from __future__ import annotations

import importlib.util
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from twoslice.errors import SettingsError
from twoslice.propagation.ants_pair import register_pair, start
from twoslice.propagation.registrars import Displacements, Slices
from twoslice.propagation.threads import workers


@dataclass(frozen=True)
class AntsRegistrar:
    """SyNRA for each pair, one thread a process, seeded: two runs give the same fields."""

    processes: int | None = None

    def __call__(self, *, fixed: Slices, moving: Slices) -> Displacements:
        """Register every pair."""
        if importlib.util.find_spec("ants") is None:
            raise SettingsError(
                "the registrar 'ants' needs antspyx. Install it with 'pip install twoslice[ants]', "
                "or use propagation.registrar=batched."
            )
        pairs = [
            (one.cpu().numpy(), other.cpu().numpy())
            for one, other in zip(fixed, moving, strict=True)
        ]
        context = multiprocessing.get_context("spawn")
        count = min(self.processes or workers(), len(pairs))
        with ProcessPoolExecutor(count, mp_context=context, initializer=start) as pool:
            fields = list(pool.map(register_pair, pairs))
        return Displacements.from_pixels(torch.from_numpy(np.stack(fields)))
