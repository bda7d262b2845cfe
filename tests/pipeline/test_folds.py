"""Held-out trainings: everybody is left out once, and drawn slices land on the networks' grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline import made
from training import tiny
from twoslice.annotation.reading import read_annotation
from twoslice.pipeline.folds import drawn_slices, make_folds
from twoslice.training.planner import make_plan


@pytest.mark.parametrize(
    ("labeled", "folds", "expected"), [(5, 3, 3), (2, 3, 2), (1, 3, 0), (4, 0, 0)]
)
def test_each_labelled_scan_is_left_out_once_and_stays_among_the_unlabelled(
    tmp_path: Path, labeled: int, folds: int, expected: int
) -> None:
    data = tiny.make_dataset(tmp_path / "data", cases=6, labeled=labeled, views=False)
    settings = made.settings(iterations=8, folds=folds)
    found = make_folds(data, settings, make_plan(data, settings), tmp_path / "folds")
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
        fold = make_folds(data, settings, make_plan(data, settings), tmp_path)[0]
        assert getattr(fold.settings.training, name) == expected


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
