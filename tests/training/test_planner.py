"""The planner: patches within the budget, levels that follow the spacing, resampling if needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training import tiny
from twoslice.errors import SettingsError
from twoslice.io.dataset import Dataset
from twoslice.io.grid import Grid
from twoslice.io.scans import write_image
from twoslice.methods.registry import find_method
from twoslice.settings import load_settings
from twoslice.training.loop import train
from twoslice.training.planner import choose_levels, coarsen, fit_patch, make_plan

side = st.integers(4, 600)


@given(st.tuples(side, side, side), st.integers(20_000, 2_000_000))
def test_a_patch_keeps_to_the_budget_and_to_multiples_of_eight(
    shape: tuple[int, int, int], budget: int
) -> None:
    patch = fit_patch(shape, (1.0, 1.0, 2.0), budget=budget)
    assert np.prod(patch) <= budget or max(patch) <= 16
    for taken, side in zip(patch, shape, strict=True):
        assert taken % 8 == 0
        assert taken <= max(8, side + 4)


def test_a_scan_within_the_budget_is_taken_whole() -> None:
    assert fit_patch((35, 50, 36), (1, 1, 1), budget=100_000) == (32, 48, 40)


@given(st.tuples(*[st.integers(24, 600)] * 3))
def test_where_only_drawn_slices_teach_no_patch_is_as_large_as_the_scan(
    shape: tuple[int, int, int],
) -> None:
    patch = fit_patch(shape, (1, 1, 1), budget=10**9, share=2 / 3)
    for taken, side in zip(patch, shape, strict=True):
        assert abs(taken - 2 * side / 3) <= 4
        assert taken < side


def test_drawn_slices_alone_get_finer_voxels_for_the_same_patch(tmp_path: Path) -> None:
    tiny.make_dataset(tmp_path / "data")
    for path in (tmp_path / "data" / "imagesTr").iterdir():
        write_image(path, np.zeros((97, 71, 44), "f4"), Grid((97, 71, 44), np.eye(4)))
    dataset = Dataset.open(tmp_path / "data")
    plans = {
        setting: make_plan(dataset, load_settings(assignments=[f"training.setting={setting}"]))
        for setting in ("dense", "sparse")
    }
    assert plans["sparse"].voxel[0] < plans["dense"].voxel[0]
    assert plans["sparse"].patch == plans["dense"].patch == (40, 40, 24)


def test_plus_looks_at_finer_voxels_in_larger_patches_for_longer(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    grid = Grid((96, 80, 64), np.eye(4))
    for case in dataset.cases:
        path = tmp_path / "data" / "imagesTr" / f"{case}_0000.nii.gz"
        write_image(path, np.zeros(grid.shape, np.float32), grid)
    dataset = Dataset.open(tmp_path / "data")
    usual, plus = (make_plan(dataset, load_settings(method=name)) for name in ("desco", "plus"))
    assert plus.voxel < usual.voxel
    assert np.prod(usual.patch) <= 40_000 < np.prod(plus.patch) <= find_method("plus").room * 40_000
    assert plus.iterations > usual.iterations
    on_gpus = [
        make_plan(dataset, load_settings(method=name), gpu=True).iterations
        for name in ("desco", "plus")
    ]
    assert on_gpus[0] == on_gpus[1]


def test_plus_trains_small_scans_for_less_long(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    usual, plus = (make_plan(dataset, load_settings(method=name)) for name in ("desco", "plus"))
    assert plus.iterations == usual.iterations / 2


def test_small_scans_are_planned_alike_for_drawn_slices_alone(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    dense, sparse = (
        make_plan(dataset, load_settings(assignments=[f"training.setting={setting}"]))
        for setting in ("dense", "sparse")
    )
    assert (sparse.voxel, sparse.patch) == (dense.voxel, dense.patch)


def test_the_length_is_the_planners_unless_it_is_set(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    planned = make_plan(dataset, load_settings())
    assert f"{planned.iterations} iterations" in planned.why
    assert make_plan(dataset, load_settings(assignments=["training.iterations=7"])).iterations == 7
    by_clock = make_plan(dataset, load_settings(assignments=["training.minutes=3"]))
    assert "iterations" not in by_clock.why


def test_even_voxels_are_halved_evenly() -> None:
    assert choose_levels((1, 1, 1), (64, 64, 64)) == (((2, 2, 2),) * 3, ((3, 3, 3),) * 4)
    assert choose_levels((1, 1, 1), (128, 128, 128)) == (((2, 2, 2),) * 4, ((3, 3, 3),) * 5)


def test_a_thick_axis_waits_until_the_others_have_caught_up() -> None:
    strides, kernels = choose_levels((1.0, 1.0, 5.0), (64, 64, 16))
    assert strides[:2] == ((2, 2, 1), (2, 2, 1))
    assert kernels[:2] == ((3, 3, 1), (3, 3, 1))
    assert strides[2] == (2, 2, 2)
    assert kernels[2] == (3, 3, 3)


@given(st.tuples(side, side, side), st.tuples(*[st.floats(0.3, 8)] * 3))
def test_no_axis_is_halved_below_four_voxels(
    patch: tuple[int, int, int], spacing: tuple[float, float, float]
) -> None:
    strides, kernels = choose_levels(spacing, patch)
    assert len(kernels) == len(strides) + 1
    product = np.prod([(1, 1, 1), *strides], axis=0)
    for side, step in zip(patch, product, strict=True):
        assert step == 1 or side / step >= 4


def test_scans_of_one_spacing_keep_their_grid_and_the_plan_says_so(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    plan = make_plan(dataset, load_settings(preset="fast"))
    assert plan.spacing is None
    assert plan.voxel == (1.0, 1.0, 1.5)
    assert "keep their own grid" in plan.why
    assert plan.network.classes == 3


def test_scans_of_several_spacings_are_brought_to_the_median(tmp_path: Path) -> None:
    tiny.make_dataset(tmp_path / "data")
    grid = Grid((8, 8, 8), np.diag([2.0, 2.0, 3.0, 1.0]))
    write_image(tmp_path / "data" / "imagesTr" / "z_0000.nii.gz", np.zeros((8, 8, 8), "f4"), grid)
    plan = make_plan(Dataset.open(tmp_path / "data"), load_settings(preset="fast"))
    assert plan.spacing == (1.0, 1.0, 1.5)
    assert "brought to the usual 1 × 1 × 1.5 mm" in plan.why


def test_a_scan_of_many_patches_gets_coarser_voxels_its_finest_axes_first() -> None:
    extents = np.array([64.0, 64.0, 80.0])
    assert coarsen(extents, (1.0, 1.0, 2.5), budget=40_000) == pytest.approx(
        (1.81, 1.81, 2.5), abs=0.01
    )
    assert coarsen(extents, (1.0, 1.0, 2.5), budget=70_000) == (1.0, 1.0, 2.5)


@given(st.tuples(side, side, side), st.tuples(*[st.floats(0.3, 8)] * 3))
def test_voxels_are_never_made_finer_nor_more_than_twice_as_coarse_as_the_finest(
    shape: tuple[int, int, int], own: tuple[float, float, float]
) -> None:
    found = np.array(coarsen(np.array(shape) * own, own, budget=40_000))
    assert (found >= np.array(own) - 1e-3).all()
    assert (found <= np.maximum(own, 2 * min(own)) + 1e-3).all()


def test_settings_win_over_the_planner(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    changes = ["training.patch=[9, 10, 11]", "network.filters=3", "training.spacing=[2, 2, 2]"]
    plan = make_plan(dataset, load_settings(preset="fast", assignments=changes))
    assert (plan.patch, plan.network.filters, plan.spacing) == ((9, 10, 11), 3, (2.0, 2.0, 2.0))


def test_the_papers_preset_is_the_papers_setting(tmp_path: Path) -> None:
    settings = load_settings(preset="paper")
    plan = make_plan(tiny.make_dataset(tmp_path / "data"), settings)
    assert plan.patch == (112, 112, 80)
    assert (plan.network.kind, plan.network.filters, plan.network.dropout) == ("vnet", 16, 0.5)
    assert plan.network.normalisation == "batch"
    assert (settings.training.iterations, settings.desco.passes) == (6000, 8)
    assert (settings.desco.cross_weight, settings.desco.decay) == (0.8, 0.95)


def test_a_patch_too_small_for_batch_norm_is_refused(tmp_path: Path) -> None:
    settings = load_settings(preset="paper", assignments=["training.patch=[16, 16, 16]"])
    with pytest.raises(SettingsError, match="too small for the V-Net"):
        make_plan(tiny.make_dataset(tmp_path / "data"), settings)


def test_a_patch_far_larger_than_every_scan_is_refused_with_the_scans_size(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    huge = load_settings(assignments=["training.patch=[16, 1000, 16]"])
    with pytest.raises(
        SettingsError, match=r"16 × 1000 × 16.*largest scan has 20 × 18 × 14 voxels"
    ):
        make_plan(dataset, huge)
    coarse = load_settings(
        assignments=["training.patch=[16, 1000, 16]", "training.spacing=[2,2,3]"]
    )
    with pytest.raises(SettingsError, match="largest scan has 10 × 9 × 7 voxels"):
        make_plan(dataset, coarse)


def test_a_spacing_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    fine = load_settings(assignments=["training.spacing=[0.001, 0.001, 0.001]"])
    with pytest.raises(SettingsError, match="largest scan 20000 × 18000 × 21000 voxels"):
        make_plan(tiny.make_dataset(tmp_path / "data"), fine)


def test_the_smallest_patch_that_is_allowed_trains(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    train(dataset, tmp_path / "run", tiny.settings(patch=(4, 4, 4), iterations=1))


def test_the_defaults_are_the_fast_preset() -> None:
    assert load_settings(preset="fast") == load_settings()
