"""What every registrar must obey."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch import Tensor

from propagation.scenes import texture
from twoslice.propagation.registrars import REGISTRARS, Registrar

SIDE = 48


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.slow if name == "ants" else ()) for name in REGISTRARS
    ],
)
def registrar(request: pytest.FixtureRequest) -> Registrar:
    if request.param == "ants":
        pytest.importorskip("ants")
    return REGISTRARS[request.param]()


def a_slice(seed: int = 0) -> Tensor:
    """(1, SIDE, SIDE), intensities of about 0 to 1, bright object in texture."""
    rows, columns = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    disc = (rows / 14) ** 2 + (columns / 9) ** 2 < 1
    smooth = ndimage.gaussian_filter(disc.astype(np.float32), 1)
    return torch.from_numpy(0.5 * smooth + 0.08 * texture((SIDE, SIDE), seed=seed) + 0.25)[None]


def moved(slice_: Tensor, by: tuple[float, float]) -> Tensor:
    """What stood at p stands at p + by."""
    return torch.from_numpy(ndimage.shift(slice_[0].numpy(), by, order=1, mode="nearest"))[None]


def test_identical_slices_stay_where_they_are(registrar: Registrar) -> None:
    slices = torch.stack([a_slice(seed) for seed in range(2)])
    pixels = registrar(fixed=slices, moving=slices.clone()).pixels()
    # SyNRA's affine stage samples at random and wanders by half a pixel in the corners.
    assert pixels.abs().max() < 0.75
    assert pixels.abs().mean() < 0.2


def test_batched_leaves_identical_slices_alone_but_for_rounding() -> None:
    slices = torch.stack([a_slice(seed) for seed in range(2)])
    found = REGISTRARS["batched"]()(fixed=slices, moving=slices.clone())
    assert found.pixels().abs().max() < 1e-4


def test_a_shift_is_found_along_rows_and_along_columns(registrar: Registrar) -> None:
    moving = torch.stack([a_slice(), a_slice()])
    fixed = torch.stack([moved(a_slice(), (2.0, 0.0)), moved(a_slice(), (0.0, -3.0))])
    pixels = registrar(fixed=fixed, moving=moving).pixels()
    # What the fixed slice shows at p, the moving one shows at p - shift.
    middle = pixels[:, :, 14:34, 16:32].mean((2, 3))
    np.testing.assert_allclose(middle, [[-2, 0], [0, 3]], atol=0.5)


def test_a_pair_gives_the_same_field_alone_and_in_a_batch(registrar: Registrar) -> None:
    moving = torch.stack([a_slice(seed) for seed in range(3)])
    fixed = torch.stack([moved(slice_, (1.0, 1.5)) for slice_ in moving])
    together = registrar(fixed=fixed, moving=moving)
    alone = registrar(fixed=fixed[1:2], moving=moving[1:2])
    torch.testing.assert_close(together.pixels()[1:2], alone.pixels(), rtol=0, atol=1e-4)


def test_two_calls_give_the_same_fields(registrar: Registrar) -> None:
    moving = torch.stack([a_slice(seed) for seed in range(2)])
    fixed = torch.stack([moved(slice_, (1.0, -1.0)) for slice_ in moving])
    first = registrar(fixed=fixed, moving=moving)
    assert torch.equal(first.field, registrar(fixed=fixed, moving=moving).field)


def test_slices_without_contrast_and_small_or_odd_ones_are_taken(registrar: Registrar) -> None:
    dark, bright = torch.zeros(1, 1, 40, 30), torch.ones(1, 1, 40, 30)
    assert registrar(fixed=dark, moving=bright).pixels().abs().max() < 1e-3
    small = torch.from_numpy(texture((1, 2, 11, 17)))
    assert registrar(fixed=small, moving=small.flip(0)).pixels().shape == (1, 2, 11, 17)


@pytest.mark.slow
def test_ants_really_gets_the_papers_three_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ants")
    from twoslice.propagation.ants_pair import register_pair, start

    start()
    module = sys.modules["ants.registration.registration"]
    real, sent = module.get_lib_fn, []

    def recording(name: str) -> Any:
        function = real(name)

        def call(arguments: list[str]) -> Any:
            sent.append((name, [str(argument) for argument in arguments]))
            return function(arguments)

        return call

    monkeypatch.setattr(module, "get_lib_fn", recording)
    slice_ = a_slice().numpy()
    register_pair((moved(a_slice(), (1, 0)).numpy(), slice_))
    name, arguments = sent[0]
    stages = [arguments[n + 1] for n, word in enumerate(arguments) if word in ("-t", "--transform")]
    assert name == "antsRegistration"
    assert [stage.split("[")[0] for stage in stages] == ["Rigid", "Affine", "SyN"]
