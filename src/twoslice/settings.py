"""Every setting, as frozen models: unknown names are refused, with a guess at what was meant.

Layers, the later winning: the defaults below, a preset (`configs/presets/NAME.yaml`), the user's
YAML file, `--set a.b=c`. What comes out is saved whole in every run folder as `settings.yaml`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from twoslice.errors import SettingsError

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Side = Annotated[int, Field(ge=4)]
Patch = Annotated[tuple[Side, Side, Side], Field(description="voxels along I, J, K")]
Millimetres = Annotated[float, Field(gt=0.0)]


class _Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False
    )


class AnnotationSettings(_Frozen):
    """How the slices of a scan lie."""

    scheme: Literal["orthogonal", "parallel", "single"] = "orthogonal"


class PropagationSettings(_Frozen):
    """From drawn slices to label views."""

    registrar: Literal["batched", "ants"] = "batched"
    carry: Literal["filtered", "paper"] = Field(
        "filtered", description="paper: threshold, opening and closing after each slice, no more"
    )
    constraint: bool = Field(True, description="other planes' drawn slices correct the way")
    appearance: bool = Field(True, description="intensities of the drawn slices have a say")
    parting: bool = Field(True, description="in the fused view, parts of a body by their place")
    cycle: bool = Field(True, description="register there and back, and keep the difference")
    opening: int = Field(5, ge=1, description="greatest side in voxels of the opening")
    closing: int = Field(5, ge=1, description="greatest side in voxels of the closing")


class NetworkSettings(_Frozen):
    """The segmentation network; `None` leaves the choice to the planner or the recipe."""

    filters: int | None = Field(None, ge=1)


class TrainingSettings(_Frozen):
    """The loop, the same for every method; `None` leaves the choice to the planner, or to the
    method where it is about batches.
    """

    iterations: int | None = Field(None, ge=1)
    minutes: float | None = Field(None, gt=0, description="train by the clock instead")
    seed: int = Field(0, ge=0)
    checkpoint_every: int = Field(100, ge=1)
    setting: Literal["dense", "sparse", "full"] = Field(
        "dense", description="propagated labels, drawn voxels alone, or fully drawn volumes"
    )
    recipe: Literal["paper", "modern"] = "modern"
    patch: Patch | None = None
    spacing: tuple[Millimetres, Millimetres, Millimetres] | None = Field(
        None, description="millimetres along I, J, K that scans are resampled to"
    )
    flips: bool | None = Field(None, description="mirror patches; None as the recipe has it")
    labeled_per_batch: int | None = Field(None, ge=1)
    unlabeled_per_batch: int | None = Field(None, ge=0)
    learning_rate: float | None = Field(None, gt=0)
    optimizer: Literal["sgd", "adamw", "muon"] | None = Field(
        None, description="None as the method has it in the modern recipe, or as the recipe has it"
    )
    foreground_share: Fraction = Field(0.6, description="labelled patches centred on drawn target")
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "32-true", "16-mixed", "bf16-mixed"] = Field(
        "auto", description="auto: mixed in the modern recipe on devices with 16-bit arithmetic"
    )
    devices: int = Field(1, ge=1, description="processes a node, a device and a batch each")
    nodes: int = Field(1, ge=1, description="machines, each with so many devices; see torchrun")
    sync_batch_norm: bool = Field(False, description="statistics over the batches of all devices")
    pictures: bool = Field(True, description="what the networks see, drawn at each checkpoint")
    mlflow: str | None = Field(None, description="an MLflow server, or a folder, to log to as well")


class DescoSettings(_Frozen):
    """The paper's five switches and its weights (Table 4)."""

    slice_weights: bool = True
    uncertainty_mask: bool = True
    dense_to_sparse: bool = True
    cross_ramp: bool = True
    cross_weight: Fraction = Field(0.8, description="λ_oc")
    decay: Fraction = Field(0.95, description="α at the start")
    passes: int = Field(
        1, ge=1, description="T stochastic passes of the uncertainty mask; 1: the softmax alone"
    )
    shared_pass: bool = Field(
        True, description="a network teaches by the pass it learns in; false: by one of its own"
    )


class SemiSettings(_Frozen):
    """What the methods that the paper compares with share: mean_teacher, ua_mt, cps, ctbct,
    coranet (docs/methods.md).
    """

    weight: float = Field(0.1, ge=0.0, description="λ of the unlabelled loss, after its ramp")
    teacher_decay: Fraction = Field(0.99, description="of the exponential mean over steps")
    passes: int = Field(8, ge=1, description="T stochastic passes of ua_mt's teacher")
    cost: float = Field(5.0, ge=1.0, description="of coranet's dearer mistake; the other costs 1")


class PlusSettings(_Frozen):
    """The method `plus` (docs/plus.md)."""

    decay: Fraction = Field(0.95, description="α at first: trust lost with each slice's distance")
    decay_end: Fraction = Field(0.0, description="α at the end; it falls in a line")
    doubt: Fraction = Field(0.3, description="weight of voxels that the planes disagree about")
    weight: float = Field(1.0, ge=0.0, description="of what the teachers say, after the ramp")
    dice: Fraction = Field(0.25, description="share of Dice in it, the rest is cross entropy")
    temperature: float = Field(
        0.5, gt=0.0, description="of the teachers' softmax; below 1: sharper"
    )
    ramp: float = Field(0.4, gt=0.0, le=1.0, description="share of the training that it rises in")
    teacher_decay: Fraction = Field(0.99, description="of the exponential mean over steps")
    levels: bool = Field(
        True, description="at the end, scores are moved until areas are those of the drawn slices"
    )
    exchange: Fraction = Field(0.5, description="how often patches exchange boxes")
    edges: float = Field(0.1, ge=0.0, description="weight of outlines where the image has no edge")
    edge_spread: float = Field(
        0.3, gt=0.0, description="intensities that differ by less (1: a scan's deviation) are alike"
    )


class InferenceSettings(_Frozen):
    """From a run to label maps."""

    flips: bool = Field(False, description="average over the eight mirrorings")
    largest_component: bool | None = Field(
        None,
        description="of each label, only the largest piece; unsaid: as the method says",
    )
    network: Literal["both", 1, 2] = Field("both", description="which of two; both: their mean")
    window: Literal["auto", "whole", "patch", "paper"] = Field(
        "auto", description="auto: the whole scan where memory allows; paper: stride 18, 18, 4"
    )


class QualitySettings(_Frozen):
    """How `twoslice run` judges its own label maps, without ground truth."""

    folds: int = Field(
        3, ge=0, description="trainings that leave some labelled scans out; 0: no such check"
    )
    share: float | None = Field(
        None,
        gt=0.0,
        le=1.0,
        description="of the training that each fold gets; unsaid: what it took to learn the slices",
    )


class Settings(_Frozen):
    """All settings of a run."""

    method: str = "desco"
    annotation: AnnotationSettings = AnnotationSettings()
    propagation: PropagationSettings = PropagationSettings()
    network: NetworkSettings = NetworkSettings()
    training: TrainingSettings = TrainingSettings()
    desco: DescoSettings = DescoSettings()
    semi: SemiSettings = SemiSettings()
    plus: PlusSettings = PlusSettings()
    inference: InferenceSettings = InferenceSettings()
    quality: QualitySettings = QualitySettings()

    def to_yaml(self) -> str:
        """The settings as YAML that `load_settings` reads back to an equal object."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)

    def named_values(self) -> dict[str, Any]:
        """Every setting by its full name, as in `training.seed`."""
        return flat_names(self.model_dump(mode="json"))


def load_settings(
    *,
    preset: str | None = None,
    file: Path | None = None,
    assignments: Iterable[str] = (),
    method: str | None = None,
) -> Settings:
    """Resolve the layers into one `Settings`, or say in one line which name or value is wrong."""
    tree: dict[str, Any] = {}
    if preset is not None:
        _merge(tree, read_yaml(_preset_path(preset)))
    if file is not None:
        _merge(tree, read_yaml(file))
    if method is not None:
        tree["method"] = method
    for assignment in assignments:
        _merge(tree, _parse_assignment(assignment))
    return parse_settings(tree)


def parse_settings(tree: Mapping[str, Any]) -> Settings:
    """Validate a tree of plain values."""
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        raise SettingsError(_explain(error)) from None


def find_difference(saved: Settings, asked: Settings) -> tuple[str, Any, Any] | None:
    """The first setting that differs, as its name and both values; one that was asked for by name
    comes before one that is at its default.
    """
    mine, other = saved.named_values(), asked.named_values()
    named = flat_names(asked.model_dump(mode="json", exclude_unset=True))
    for name in sorted(mine, key=lambda name: name not in named):
        if mine[name] != other[name]:
            return name, mine[name], other[name]
    return None


def flat_names(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """A tree of settings by their full names, as in `training.seed`."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{above}{key}"
        flat |= flat_names(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat


def preset_names() -> list[str]:
    """The presets that can be named."""
    return sorted(path.stem for path in _presets_folder().glob("*.yaml"))


def _presets_folder() -> Path:
    here = Path(__file__).parent
    installed = here / "configs" / "presets"
    return installed if installed.is_dir() else here.parents[1] / "configs" / "presets"


def _preset_path(name: str) -> Path:
    path = _presets_folder() / f"{name}.yaml"
    if not path.is_file():
        raise SettingsError(f"no preset is called '{name}'. {_guess(name, preset_names())}")
    return path


def read_yaml(path: Path) -> dict[str, Any]:
    """A file of `name: value` lines, or one line on what is wrong with it."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"{path}: there is no such file. Check the path.") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        detail = str(error).splitlines()[0]
        raise SettingsError(f"{path}: not a readable YAML file ({detail}). Mend it.") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise SettingsError(f"{path}: holds {type(tree).__name__}, expected `name: value` lines.")
    return tree


def split_assignment(text: str) -> tuple[str, Any]:
    """The name in `a.b=c` and its value, which is read as YAML."""
    name, equals, value = text.partition("=")
    if not equals or not all(name.strip().split(".")):
        raise SettingsError(f"--set {text}: expected name.of.setting=value.")
    try:
        return name.strip(), yaml.safe_load(value)
    except yaml.YAMLError:
        raise SettingsError(f"--set {text}: '{value}' cannot be read as a value.") from None


def _parse_assignment(text: str) -> dict[str, Any]:
    """`a.b=c` as a tree."""
    name, tree = split_assignment(text)
    for key in reversed(name.split(".")):
        tree = {key: tree}
    assert isinstance(tree, dict)
    return tree


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _explain(error: ValidationError) -> str:
    """The first fault of a validation error, in one line."""
    fault = error.errors(include_url=False)[0]
    where = [str(part) for part in fault["loc"]]
    name = ".".join(where)
    if fault["type"] == "extra_forbidden":
        return f"unknown setting '{name}'. {_guess(where[-1], _names_at(where[:-1]), where[:-1])}"
    if fault["type"] in ("tuple_type", "list_type"):
        return (
            f"setting {name} = {fault['input']!r}: several values are needed. Write them in "
            f"brackets: {name}=[1,2,3]"
        )
    return f"setting {name} = {fault['input']!r}: {fault['msg']}. Change it."


def _names_at(path: list[str]) -> list[str]:
    """The settings that exist in the section `path`."""
    model: type[BaseModel] = Settings
    for part in path:
        kind = model.model_fields[part].annotation
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            return []
        model = kind
    return list(model.model_fields)


def _guess(word: str, known: list[str], path: Iterable[str] = ()) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    if close:
        return f"Did you mean '{'.'.join([*path, close[0]])}'?"
    return f"Known: {', '.join(known)}."
