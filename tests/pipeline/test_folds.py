"""Held-out trainings: everybody is left out once, and drawn slices land on the networks' grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import made
from training import tiny
from twoslice.annotation.reading import read_annotation
from twoslice.pipeline.folds import (
    LEAST_SHARE,
    LIKELY_SHARE,
    drawn_slices,
    fold_share,
    learned_after,
    make_folds,
)
from twoslice.settings import QualitySettings, load_settings
from twoslice.training.planner import make_plan


@pytest.mark.parametrize(
    ("labeled", "folds", "expected"), [(5, 3, 3), (2, 3, 2), (1, 3, 0), (4, 0, 0)]
)
def test_each_labelled_scan_is_left_out_once_and_stays_among_the_unlabelled(
    tmp_path: Path, labeled: int, folds: int, expected: int
) -> None:
    data = tiny.make_dataset(tmp_path / "data", cases=6, labeled=labeled, views=False)
    settings = made.settings(iterations=8, folds=folds)
    found = make_folds(data, settings, make_plan(data, settings), tmp_path / "folds", 0.5)
    assert len(found) == expected
    held = [case for fold in found for case in fold.held]
    assert sorted(held) == (sorted(data.labeled) if expected else [])
    for fold in found:
        assert set(fold.held) <= set(fold.dataset.unlabeled)
        assert fold.dataset.labeled
        assert fold.settings.training.iterations == 8  # so few that a share of them is none


def test_a_fold_takes_its_share_of_iterations_or_minutes(tmp_path: Path) -> None:
    data = tiny.make_dataset(tmp_path / "data", views=False)
    for change, name, expected in (
        ({"iterations": 800}, "iterations", 400),
        ({"minutes": 3.0}, "minutes", 1.5),
    ):
        base = made.settings()
        training = base.training.model_copy(update=change)
        settings = base.model_copy(update={"training": training})
        fold = make_folds(data, settings, make_plan(data, settings), tmp_path, 0.5)[0]
        assert getattr(fold.settings.training, name) == expected


@given(learned=st.floats(0.0, 0.9), ends=st.floats(0.2, 1.0), rows=st.integers(20, 400))
def test_a_fold_is_as_long_as_the_training_took_to_learn(
    learned: float, ends: float, rows: int
) -> None:
    """Nothing is known up to a moment, then all that will ever be."""
    curve = [
        {"step": 10.0 * (row + 1), "dice_drawn": ends if (row + 1) / rows > learned else 0.0}
        for row in range(rows)
    ]
    curve.append({"step": 10.0 * rows})  # a row without a labelled patch
    share = learned_after(curve)
    assert share >= LEAST_SHARE
    assert learned < share <= max(LEAST_SHARE, learned + 1 / 30 + 1 / rows + 1 / 20 + 1e-9)


def test_a_training_too_short_to_tell_has_the_shortest_folds() -> None:
    late = [{"step": float(step), "dice_drawn": float(step > 8)} for step in range(1, 11)]
    assert learned_after(late) == learned_after([]) == LEAST_SHARE


def test_the_settings_or_else_the_training_say_how_long_folds_are(tmp_path: Path) -> None:
    told, unsaid = (
        load_settings().model_copy(update={"quality": QualitySettings(share=share)})
        for share in (0.1, None)
    )
    lines = [f"{step},{0.8 if step > 60 else 0.1}" for step in range(1, 101)]
    (tmp_path / "metrics.csv").write_text("step,dice_drawn\n" + "\n".join(lines) + "\n")
    assert fold_share(told, tmp_path) == 0.1
    assert fold_share(unsaid, None) == LIKELY_SHARE
    assert fold_share(unsaid, tmp_path) == pytest.approx(0.65)


def test_drawn_slices_keep_their_labels_on_a_coarser_grid(tmp_path: Path) -> None:
    data = tiny.make_dataset(tmp_path / "data", views=False)
    settings = made.settings()
    plan = make_plan(data, settings)
    annotation = read_annotation(data, "tiny_0")
    for each, drawn in zip(drawn_slices(data, "tiny_0", plan), annotation.slices, strict=True):
        assert each.name == f"{drawn.plane} {drawn.index}"
        place = drawn.plane.slice(drawn.index)
        assert each.mask[place].all()
        assert each.mask.sum() == drawn.mask.size
        np.testing.assert_array_equal(each.labels[place], drawn.mask)
    coarse = plan.model_copy(update={"spacing": (2.0, 2.0, 3.0)})
    for each, drawn in zip(drawn_slices(data, "tiny_0", coarse), annotation.slices, strict=True):
        assert each.mask.shape == (10, 9, 7)
        shown = set(np.unique(each.labels[each.mask]).tolist())
        assert shown == set(np.unique(drawn.mask).tolist())
