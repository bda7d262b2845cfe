from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from twoslice.errors import SettingsError
from twoslice.settings import Settings, load_settings, parse_settings, preset_names


def test_later_layers_win(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("training:\n  seed: 3\n  iterations: 7\n")
    settings = load_settings(preset="paper", file=file, assignments=["training.seed=5"])
    assert settings.training.seed == 5  # --set over the file
    assert settings.training.iterations == 7  # the file over the preset
    assert settings.training.recipe == "paper"  # the preset over the defaults


def test_resolved_settings_survive_the_way_through_yaml() -> None:
    settings = load_settings(assignments=["training.patch=[64, 48, 32]", "desco.cross_weight=0.5"])
    assert parse_settings(yaml.safe_load(settings.to_yaml())) == settings


@pytest.mark.parametrize("name", preset_names())
def test_every_shipped_preset_is_valid(name: str) -> None:
    assert isinstance(load_settings(preset=name), Settings)


def test_the_two_presets_of_the_house_are_shipped() -> None:
    assert {"fast", "paper"} <= set(preset_names())


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("training.iteration=5", "Did you mean 'training.iterations'?"),
        ("desco.slice_weight=false", "Did you mean 'desco.slice_weights'?"),
        ("trainin.seed=5", "Did you mean 'training'?"),
        ("training.zzzz=5", "Known: iterations, minutes, seed"),
        ("training.seed=-1", "training.seed = -1"),
        ("training.seed=many", "training.seed = 'many'"),
        ("training.recipe=old", "'paper' or 'modern'"),
        ("training=5", "training = 5"),
        ("training.seed.deep=5", "training.seed"),
        ("training.seed", "expected name.of.setting=value"),
        ("=5", "expected name.of.setting=value"),
        ("training.seed=[", "cannot be read as a value"),
        ("training.patch=[0, 8, 8]", "training.patch.0 = 0: Input should be greater"),
        ("training.patch=[8, -8, 8]", "training.patch.1 = -8"),
        ("training.spacing=[0, 1, 1]", "training.spacing.0 = 0: Input should be greater than 0"),
        ("training.spacing=[1, .nan, 1]", "training.spacing.1 = nan: Input should be a finite"),
        ("training.minutes=.inf", "training.minutes = inf: Input should be a finite"),
        ("training.learning_rate=.inf", "training.learning_rate = inf"),
        ("desco.decay=.nan", "desco.decay = nan"),
        ("training.patch=18,12,8", "brackets: training.patch=[1,2,3]"),
    ],
)
def test_a_wrong_setting_is_one_line_that_helps(assignment: str, expected: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(assignments=[assignment])
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"a: [", "YAML"), (b"- 1\n- 2\n", "expected `name: value`"), (b"\xff\xfe\x00", "YAML")],
)
def test_a_broken_settings_file_is_named(tmp_path: Path, content: bytes, expected: str) -> None:
    file = tmp_path / "broken.yaml"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=expected) as caught:
        load_settings(file=file)
    assert str(file) in str(caught.value)


def test_a_missing_settings_file_and_preset_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent\.yaml: there is no such file"):
        load_settings(file=tmp_path / "absent.yaml")
    with pytest.raises(SettingsError, match="Did you mean 'paper'"):
        load_settings(preset="papr")


def test_an_empty_settings_file_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "empty.yaml"
    file.touch()
    assert load_settings(file=file) == load_settings()


def _sections(model: BaseModel) -> list[BaseModel]:
    fields = [getattr(model, name) for name in type(model).model_fields]
    return [model, *(section for section in fields if isinstance(section, BaseModel))]


def test_no_setting_can_be_changed_after_loading() -> None:
    for section in _sections(load_settings()):
        name = next(iter(type(section).model_fields))
        with pytest.raises(ValidationError, match="frozen"):
            setattr(section, name, getattr(section, name))
