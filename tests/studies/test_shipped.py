"""Every study that comes with twoslice: its settings are valid and its grid has the right runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pydantic import ValidationError

from studies.worlds import study_tree
from twoslice.errors import SettingsError
from twoslice.methods.registry import METHODS, find_method
from twoslice.studies.files import load_study, parse_study, shipped
from twoslice.studies.grid import PlannedRun, plan_runs

# rows × recipes × seeds × folds, as the paper (or two cores) has them
RUNS = {
    "table1-la": 14 * 5,
    "table2-kits19": 14 * 5,
    "table3-lits": 14 * 5,
    "table4-ablation": 6 * 5,
    "lambda-sweep": 6 * 5,
    "appendix-c-curves": 7,
    "fig1-annotation": 2 + 2 * 5,
    "fig3-hsic": 1,
    "fig4-tsne": 3,
    "fig5-initial": 3 * 3,
    "table-la-half-small": 14 * 2 + 3 * 2,
    "table-hippocampus-small": 14 * 2 + 3 * 2,
    "table-btcv-small": 14 * 2,
    "table4-ablation-small": 6,
    "lambda-sweep-small": 6 * 2,
    "appendix-c-curves-small": 7 * 2,
    "fig1-annotation-small": 2 + 2 * 4,
    "fig3-hsic-small": 1,
    "fig4-tsne-small": 3,
    "fig5-initial-small": 3 * 3,
}


def runs_of(name: str) -> list[PlannedRun]:
    return plan_runs(load_study(Path(name)))


def test_every_shipped_study_is_known_here() -> None:
    assert set(shipped()) == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_a_shipped_study_is_valid_and_has_its_runs(name: str) -> None:
    runs = runs_of(name)
    assert len(runs) == RUNS[name]
    for run in runs:
        find_method(run.settings.method)
        labels = run.settings.training.setting
        assert (labels == "full") == run.data.data.whole
        assert (run.data.propagation is not None) == (labels == "dense")


@pytest.mark.parametrize(
    "name", [name for name in RUNS if name.startswith("table") and "4" not in name]
)
def test_tables_have_every_method_in_both_settings_and_the_upper_bound(name: str) -> None:
    runs = [run for run in runs_of(name) if run.seed == 0]  # the best have more seeds
    found = Counter((run.settings.method, run.settings.training.setting) for run in runs)
    others = set(METHODS) - {"desco", "plus"}
    wanted = {(method, setting) for method in others for setting in ("dense", "sparse")}
    assert set(found) == wanted | {("desco", "dense"), ("mean_teacher", "full")}
    assert len(set(found.values())) == 1


@pytest.mark.parametrize("name", ["table4-ablation", "table4-ablation-small"])
def test_the_ablation_switches_on_what_the_papers_table_does(name: str) -> None:
    rows = {
        run.row.name: (
            run.settings.desco.slice_weights,
            run.settings.desco.uncertainty_mask,
            run.settings.desco.dense_to_sparse,
            run.settings.desco.cross_ramp,
        )
        for run in runs_of(name)
    }
    yes, no = True, False
    assert rows == {
        "#1": (no, no, no, no),
        "#2": (yes, no, no, no),
        "#3": (yes, yes, no, no),
        "#4": (yes, yes, yes, no),
        "#5": (yes, yes, no, yes),
        "#6": (yes, yes, yes, yes),
    }


def test_the_sweep_has_the_papers_weights() -> None:
    weights = [run.settings.desco.cross_weight for run in runs_of("lambda-sweep")]
    assert sorted(set(weights)) == [0.1, 0.2, 0.4, 0.6, 0.8, 1.0]


@pytest.mark.parametrize("name", [name for name in RUNS if name.startswith("table-")])
def test_small_tables_give_every_run_the_same_wall_time(name: str) -> None:
    runs = runs_of(name)
    assert len({run.settings.training.minutes for run in runs}) == 1
    assert {(run.recipe, run.settings.training.recipe) for run in runs} == {
        ("paper", "paper"),
        ("modern", "modern"),
    }


def test_annotations_of_fig_1_cost_the_same_slices() -> None:
    rows = load_study(Path("fig1-annotation-small")).rows
    x = {line: {row.x for row in rows if row.line == line} for line in ("dense", "parallel")}
    x["orthogonal"] = {row.x for row in rows if row.line == "orthogonal"}
    assert x["dense"] <= x["parallel"] == x["orthogonal"]


def test_the_papers_settings_hold_in_the_papers_studies() -> None:
    for run in runs_of("table2-kits19"):
        assert run.settings.training.iterations == 6000
        assert run.settings.training.patch == (128, 128, 64)
        assert run.settings.network.filters == 16
        assert (run.data.data.labeled, run.data.data.unlabeled) == (5, None)
        assert run.settings.propagation.registrar == "ants"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"row": []}, "row: unknown name"),
        ({"rows": []}, "rows"),
        ({"rows": [{"name": "a"}, {"name": "a"}]}, "two rows are called a"),
        ({"rows": [{"name": "a", "recipes": ["paper"]}]}, "recipe 'paper' that is not there"),
        ({"rows": [{"name": "a", "seeds": {"paper": [1]}}]}, "recipe 'paper' that is not there"),
        ({"rows": [{"name": "a", "data": {"planes": ["oblique"]}}]}, "planes"),
        ({"rows": [{"name": "a", "data": {"slices": ["axial"]}}]}, "is not a slice"),
        ({"x_label": "λ"}, "every row needs an x"),
        ({"folds": 6}, "folds"),
        ({"data": {"labeled": 2}}, "data.dense: Field required"),
    ],
)
def test_a_wrong_study_is_told_in_a_line(change: dict[str, object], told: str) -> None:
    with pytest.raises(SettingsError, match=told) as error:
        parse_study(study_tree(**change), name="mine.yaml")
    assert str(error.value).startswith("mine.yaml: ")
    assert not isinstance(error.value, ValidationError)


def test_a_wrong_setting_of_a_row_is_told() -> None:
    study = parse_study(study_tree(rows=[{"name": "a", "set": {"desco.slice_wieghts": False}}]))
    with pytest.raises(SettingsError, match=r"slice_wieghts.*Did you mean"):
        plan_runs(study)


def test_a_row_has_the_studys_seeds_or_its_own_by_recipe() -> None:
    rows = [{"name": "a"}, {"name": "b", "seeds": [4]}, {"name": "c", "seeds": {"long": [0, 5]}}]
    recipes = {"short": {}, "long": {}}
    study = parse_study(study_tree(rows=rows, recipes=recipes, seeds=[1, 2], folds=1))
    found: dict[tuple[str, str], list[int]] = {}
    for run in plan_runs(study):
        found.setdefault((run.row.name, run.recipe), []).append(run.seed)
    assert found == {
        ("a", "short"): [1, 2], ("b", "short"): [4], ("c", "short"): [1, 2],
        ("a", "long"): [1, 2], ("b", "long"): [4], ("c", "long"): [0, 5],
    }  # fmt: skip


def test_an_assignment_wins_over_the_file() -> None:
    study = load_study(Path("table-la-half-small"), ["training.minutes=1.5"])
    assert {run.settings.training.minutes for run in plan_runs(study)} == {1.5}
