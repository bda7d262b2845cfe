"""Muon: kernels by orthogonalised momentum, all else by AdamW."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from twoslice.methods.registry import METHODS
from twoslice.settings import load_settings
from twoslice.training.optimizers import Muon, is_kernel, orthogonal
from twoslice.training.recipes import find_recipe, make_optimizer


@given(rows=st.integers(1, 24), columns=st.integers(1, 24), seed=st.integers(0, 99))
def test_singular_vectors_stay_and_singular_values_come_near_one(
    rows: int, columns: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    found = left.mT @ orthogonal(matrix) @ right.mT
    far = values > 1e-2 * values.max()
    assert ((found.diagonal()[far] > 0.6) & (found.diagonal()[far] < 1.2)).all()
    torch.testing.assert_close(found, found.diagonal().diag(), rtol=0, atol=1e-6)


def test_nothing_to_follow_moves_nothing() -> None:
    assert not orthogonal(torch.zeros(3, 4)).any()


def test_kernels_move_as_matrices_do_in_pytorch() -> None:
    """`torch.optim.Muon` on the kernel laid out as a matrix, whose products are in 16 bits."""
    torch.manual_seed(0)
    kernel = nn.Parameter(torch.randn(6, 4, 3, 3, 2))
    flat = nn.Parameter(kernel.detach().movedim(1, -1).flatten(1).clone())
    ours = Muon([{"params": [kernel]}], 0.02, weight_decay=0.1)
    theirs = torch.optim.Muon(
        [flat], 0.02, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw"
    )
    start = flat.detach().clone()
    for _ in range(3):
        gradient = torch.randn_like(kernel)
        kernel.grad, flat.grad = gradient, gradient.movedim(1, -1).flatten(1).clone()
        ours.step()
        theirs.step()
    moved = kernel.detach().movedim(1, -1).flatten(1) - start
    expected = flat.detach() - start
    assert torch.linalg.norm(moved - expected) < 0.02 * torch.linalg.norm(expected)


def test_all_that_is_not_a_kernel_follows_adamw() -> None:
    def layers() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(nn.Conv3d(2, 3, 3), nn.BatchNorm3d(3), nn.Conv3d(3, 2, 1))

    def stepped(network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
        for _ in range(3):
            optimizer.zero_grad()
            network(torch.ones(1, 2, 5, 5, 5)).square().sum().backward()
            for weight in network.parameters():
                assert weight.grad is not None
                weight.grad.fill_(0.5)
            optimizer.step()
            assert all(weight.grad is not None for weight in network.parameters())
        return dict(network.named_parameters())

    one, two = layers(), layers()
    mine = stepped(one, Muon([{"params": [*one.parameters()]}], 0.01))
    plain = stepped(two, torch.optim.AdamW(two.parameters(), 0.01, weight_decay=1e-2))
    kernels = {name for name, weight in mine.items() if is_kernel(weight)}
    assert kernels == {"0.weight"}
    for name in mine:
        assert torch.equal(mine[name], plain[name]) == (name not in kernels)


@pytest.mark.parametrize(
    ("method", "recipe", "asked", "kind"),
    [
        ("plus", "modern", None, Muon),
        ("plus", "paper", None, torch.optim.SGD),
        ("plus", "modern", "adamw", torch.optim.AdamW),
        ("desco", "modern", None, torch.optim.AdamW),
        ("desco", "modern", "muon", Muon),
        ("desco", "paper", "adamw", torch.optim.AdamW),
    ],
)
def test_who_chooses_the_optimizer(
    method: str, recipe: str, asked: str | None, kind: type[Any]
) -> None:
    settings = load_settings(
        method=method,
        assignments=[f"training.recipe={recipe}", f"training.optimizer={asked or 'null'}"],
    ).training
    groups = [{"params": [nn.Parameter(torch.zeros(2, 2, 3, 3, 3))]}]
    found = make_optimizer(groups, 0.01, settings, find_recipe(recipe), METHODS[method])
    assert type(found) is kind
