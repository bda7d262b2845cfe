"""Recipes: how to train, whatever the method: network, optimizer, learning rate, augmentation,
averaging. `paper` is the publication's to the letter, `modern` is what the field learned since.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from twoslice.errors import SettingsError
from twoslice.methods.base import Method
from twoslice.networks.norms import Normalisation
from twoslice.objectives import schedules
from twoslice.settings import TrainingSettings
from twoslice.training import optimizers


@dataclass(frozen=True)
class Recipe:
    """Everything about training that is neither the method nor the data."""

    network: Literal["vnet", "unet"]
    normalisation: Normalisation
    dropout: float
    filters: int
    filters_gpu: int
    iterations: int
    """How long the planner trains on a CPU, by what docs/results.md shows of Dice against time."""
    iterations_gpu: int
    own_grid: bool
    """Whether scans keep their own resolution, however large they are."""
    learning_rate: float
    rate: Callable[[float], float]
    """The learning rate's factor, from progress."""
    optimizer: optimizers.Name
    """Unless the method asks for its own, which only a recipe that is `free` lets it."""
    free: bool
    augmentation: Literal["quarter_turns", "rich"]
    averaging: float | None
    """Decay of the exponential moving average that predicts in place of the last weights."""
    clip: float | None
    """The largest norm of the gradient."""


RECIPES: dict[str, Recipe] = {
    "paper": Recipe(
        network="vnet",
        normalisation="batch",
        dropout=0.5,
        filters=16,
        filters_gpu=16,
        iterations=6000,
        iterations_gpu=6000,
        own_grid=True,
        learning_rate=0.01,
        rate=schedules.step_rate,
        optimizer="sgd",
        free=False,
        augmentation="quarter_turns",
        averaging=None,
        clip=None,
    ),
    "modern": Recipe(
        network="unet",
        normalisation="instance",
        dropout=0.0,
        filters=8,
        filters_gpu=24,
        iterations=1500,  # LA_half, three seeds: Dice 78.3 with 600, 81.9 with 1500 in 7 minutes
        iterations_gpu=6000,  # not measured: the curve still rises, and a GPU's steps are short
        own_grid=False,
        learning_rate=4e-3,
        rate=schedules.poly_rate,
        optimizer="adamw",
        free=True,
        augmentation="rich",
        averaging=0.99,
        clip=1.0,
    ),
}


def find_recipe(name: str) -> Recipe:
    """The recipe called `name`."""
    if name not in RECIPES:
        raise SettingsError(f"no recipe is called '{name}'. Known: {', '.join(RECIPES)}.")
    return RECIPES[name]


def make_optimizer(
    groups: optimizers.Groups,
    rate: float,
    settings: TrainingSettings,
    recipe: Recipe,
    method: type[Method],
) -> torch.optim.Optimizer:
    """The optimizer that was asked for; else the method's own where the recipe leaves it free; else
    the recipe's.
    """
    own = method.optimizer if recipe.free else None
    return optimizers.OPTIMIZERS[settings.optimizer or own or recipe.optimizer](groups, rate)
