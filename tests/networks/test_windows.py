"""Windows: the size that fits the memory, and slabs that add up to MONAI's own sliding window."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from monai.inferers import sliding_window_inference
from torch import Tensor, nn

from twoslice.memory import available_memory
from twoslice.networks.build import NetworkPlan
from twoslice.networks.regrid import regrid
from twoslice.networks.windows import (
    MOST_BYTES,
    Slab,
    Window,
    bytes_per_voxel,
    choose_window,
    paper_stride,
    sweep,
)

GIB = 2**30
PATCH = (112, 112, 80)
VNET = NetworkPlan(kind="vnet", channels=1, classes=2, filters=16, normalisation="batch")
UNET = NetworkPlan(kind="unet", channels=1, classes=2, filters=8)


def seeing(seed: int = 0) -> nn.Module:
    """A network that looks around, so that windows differ where they overlap."""
    torch.manual_seed(seed)
    layers = nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.Tanh(), nn.Conv3d(4, 2, 3, padding=1))
    return layers.eval().requires_grad_(False)


def joined(slabs: list[Slab], axis: int) -> Tensor:
    assert slabs[0].start == 0
    assert all(one.stop == two.start for one, two in itertools.pairwise(slabs))
    return torch.cat([slab.maps for slab in slabs], dim=axis + 1)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("size", [(8, 6, 10), (21, 6, 10), (8, 13, 7)])
def test_slabs_of_windows_equal_monais_sliding_window(axis: int, size: tuple[int, ...]) -> None:
    network, image = seeing(), torch.randn(1, 1, 21, 13, 17)
    stride = tuple(side // 2 for side in size)
    window = Window(size, stride, "constant")  # type: ignore[arg-type]
    found = joined(list(sweep(network, image, window, axis=axis)), axis)
    overlap = [1 - (step + 0.5) / side for step, side in zip(stride, size, strict=True)]
    whole = sliding_window_inference(image, size, 1, network, overlap=overlap)
    torch.testing.assert_close(found, whole[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gaussian_slabs_equal_monais_sliding_window_with_the_same_weights(axis: int) -> None:
    network, image = seeing(), torch.randn(1, 1, 24, 20, 22)
    window = Window((12, 10, 8), (6, 5, 4))
    found = joined(list(sweep(network, image, window, axis=axis)), axis)
    bells = [
        torch.exp(-0.5 * ((torch.arange(n) - (n - 1) / 2) / (n / 8)) ** 2) for n in window.size
    ]
    weight = torch.einsum("i,j,k->ijk", *bells)
    whole = sliding_window_inference(
        image, window.size, 1, network, overlap=0.5, roi_weight_map=weight
    )
    torch.testing.assert_close(found, whole[0], rtol=1e-4, atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(
    shape=st.tuples(*[st.integers(3, 20)] * 3),
    size=st.tuples(*[st.integers(2, 12)] * 3),
    axis=st.integers(0, 2),
)
def test_where_voxels_do_not_see_each_other_windows_leave_no_trace(
    shape: tuple[int, int, int], size: tuple[int, int, int], axis: int
) -> None:
    image = torch.randn(1, 1, *shape)
    stride = tuple(max(1, side // 2) for side in size)
    slabs = sweep(lambda x: torch.cat([x, -x], 1), image, Window(size, stride), axis=axis)  # type: ignore[arg-type]
    i, j, k = shape
    found = joined(list(slabs), axis)[:, :i, :j, :k]
    torch.testing.assert_close(found, torch.cat([image, -image], 1)[0], rtol=1e-4, atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(
    source=st.tuples(*[st.integers(2, 12)] * 3),
    target=st.tuples(*[st.integers(2, 25)] * 3),
    axis=st.integers(0, 2),
    cuts=st.lists(st.integers(1, 11), max_size=3),
)
def test_slabs_are_resampled_as_the_whole_would_be(
    source: tuple[int, int, int], target: tuple[int, int, int], axis: int, cuts: list[int]
) -> None:
    maps = torch.rand(2, *source)
    marks = sorted({0, source[axis], *(cut for cut in cuts if cut < source[axis])})
    slabs = [Slab(a, b, maps.narrow(axis + 1, a, b - a)) for a, b in itertools.pairwise(marks)]
    found = joined(list(regrid(slabs, source=source, target=target, axis=axis)), axis)
    whole = torch.nn.functional.interpolate(maps[None], size=target, mode="trilinear")[0]
    torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-5)


def test_a_left_atrium_goes_through_in_one_pass_and_a_large_ct_in_windows_that_fit() -> None:
    whole = choose_window("auto", (190, 142, 88), PATCH, VNET, memory=20 * GIB)
    assert whole.size == whole.stride == (190, 142, 88)
    parts = choose_window("auto", (512, 512, 600), PATCH, VNET, memory=500 * GIB)
    assert parts.size[0] * parts.size[1] * parts.size[2] * bytes_per_voxel(VNET) <= MOST_BYTES
    assert all(side >= patch for side, patch in zip(parts.size, PATCH, strict=True))
    assert all(side - step >= 40 for side, step in zip(parts.size, parts.stride, strict=True))


def test_little_memory_makes_windows_smaller_down_to_the_patch() -> None:
    shape = (190, 142, 88)
    sizes = [
        choose_window("auto", shape, PATCH, VNET, memory=memory).size
        for memory in (20 * GIB, GIB, 2**20)
    ]
    voxels = [i * j * k for i, j, k in sizes]
    assert voxels == sorted(voxels, reverse=True)
    assert sizes[-1] == PATCH


def test_a_network_with_instance_norm_sees_windows_of_the_size_that_it_was_trained_on() -> None:
    window = choose_window("auto", (64, 64, 40), (32, 32, 16), UNET, memory=20 * GIB)
    assert (window.size, window.stride) == ((32, 32, 16), (16, 16, 8))
    small = choose_window("auto", (20, 30, 16), (32, 32, 16), UNET, memory=20 * GIB)
    assert small.size == (32, 32, 16)


def test_the_papers_window_is_54_steps_of_18_18_4_on_a_left_atrium() -> None:
    window = choose_window("paper", (190, 142, 88), PATCH, VNET, memory=GIB)
    assert window == Window(PATCH, (18, 18, 4), "constant")
    calls = []

    def count(part: Tensor) -> Tensor:
        calls.append(tuple(part.shape[2:]))
        return part

    list(sweep(count, torch.zeros(1, 1, 190, 142, 88), window, axis=0))
    assert calls == [PATCH] * 54
    assert paper_stride((56, 56, 40)) == (9, 9, 2)
    assert min(paper_stride((8, 8, 8))) == 1


def test_a_containers_limit_counts_before_the_machines(tmp_path: Path) -> None:
    proc = tmp_path / "meminfo"
    proc.write_text("MemTotal: 9 kB\nMemAvailable:   8388608 kB\n")
    assert available_memory(proc, tmp_path) == 8 * GIB
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text(f"{GIB}\n")
    assert available_memory(proc, tmp_path) == 8 * GIB
    (tmp_path / "memory.max").write_text(f"{4 * GIB}\n")
    (tmp_path / "memory.stat").write_text(f"anon 5\ninactive_file {GIB // 2}\n")
    assert available_memory(proc, tmp_path) == 3.5 * GIB
