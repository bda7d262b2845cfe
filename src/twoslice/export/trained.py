"""The part of a run that predicts, taken out of its method."""

from __future__ import annotations

import math
from typing import cast

from twoslice.errors import SettingsError
from twoslice.export.ensemble import Ensemble
from twoslice.networks.padding import Triple
from twoslice.training.run import Run


def load_ensemble(run: Run) -> Ensemble:
    """The run's networks (one of them, if the run's settings choose one) with the weights that
    predict, as one module.
    """
    method = run.load_method()
    pairs = list(zip(method.plans(run.plan.network), method.predicting, strict=False))
    chosen = run.settings.inference.network
    if chosen != "both":
        pairs = [pairs[chosen - 1]] if chosen <= len(pairs) else []
    if not pairs:
        raise SettingsError(
            f"{run.folder}: inference.network = {chosen}, but it has only one network that "
            f"predicts. Set it to 1 or both in settings.yaml."
        )
    ensemble = Ensemble([plan for plan, _ in pairs], run.plan.network.classes)
    for mine, (_, trained) in zip(ensemble.networks, pairs, strict=True):
        mine.load_state_dict(trained.state_dict())
    return ensemble.eval().requires_grad_(False)


def padded_multiple(ensemble: Ensemble) -> Triple:
    """What every side of a patch is padded to a multiple of, inside the networks."""
    found = [cast(Triple, network.multiple) for network in ensemble.networks]
    i, j, k = (math.lcm(*(each[axis] for each in found)) for axis in range(3))
    return i, j, k
