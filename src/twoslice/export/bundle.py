"""A run as a MONAI bundle: a folder that MONAI's own commands run, on machines without twoslice.

configs/metadata.json    what goes in and comes out, and the versions it was made with
configs/inference.json   the way of a scan, in MONAI's words
models/model.pt          the weights, as a state dict
scripts/                 the networks and the run's way through a scan, in source
docs/README.md           how to run it
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from twoslice import __version__
from twoslice.export.ensemble import Ensemble
from twoslice.export.trained import load_ensemble
from twoslice.export.vendor import copy_modules
from twoslice.io import atomic
from twoslice.training.run import Run

_SCRIPTS = ("twoslice.export.ensemble", "twoslice.export.inferer")
_SCHEMA = (
    "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/"
    "meta_schema_20240725.json"
)


def write_bundle(run: Run, out: Path) -> str:
    """Write the bundle; says what was made."""
    network = load_ensemble(run)
    with atomic.whole_folder(out) as folder:
        for name in ("configs", "models", "docs"):
            (folder / name).mkdir()
        torch.save(network.state_dict(), folder / "models" / "model.pt")
        _write_json(folder / "configs" / "metadata.json", metadata(run))
        _write_json(folder / "configs" / "inference.json", workflow(run, network))
        (folder / "docs" / "README.md").write_text(read_me(run), encoding="utf-8")
        origin = f"Made by twoslice {__version__} (Apache-2.0): parts of its source."
        copy_modules(_SCRIPTS, folder / "scripts", docstring=origin)
    return f"{len(network.networks)} network(s); docs/README.md in it says how to run it"


def workflow(run: Run, network: Ensemble) -> dict[str, Any]:
    """`inference.json`: MONAI reads, turns to RAS, turns back and writes; what lies between is the
    inferer in `scripts/`.
    """
    plan, options = run.plan, run.settings.inference
    return {
        "imports": ["$import sys"],
        "bundle_root": ".",
        "dataset_dir": "$@bundle_root + '/scans'",
        "output_dir": "$@bundle_root + '/predictions'",
        "device": "$torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')",
        "network_def": {
            "_target_": "scripts.export.ensemble.Ensemble",
            "plans": [each.model_dump(mode="json") for each in network.plans],
            "classes": network.classes,
        },
        "network": "$@network_def.to(@device)",
        "preprocessing": {"_target_": "Compose", "transforms": _reading()},
        "datalist": {
            "_target_": "scripts.export.inferer.find_cases",
            "folder": "@dataset_dir",
            "channels": plan.network.channels,
        },
        "dataset": {"_target_": "Dataset", "data": "@datalist", "transform": "@preprocessing"},
        "dataloader": {"_target_": "DataLoader", "dataset": "@dataset", "batch_size": 1},
        "inferer": {
            "_target_": "scripts.export.inferer.WholeScan",
            "network": plan.network.model_dump(mode="json"),
            "spacing": plan.spacing,
            "patch": plan.patch,
            "window": options.window,
            "flips": options.flips,
        },
        "postprocessing": {
            "_target_": "Compose",
            "transforms": _writing(run.thinned(options.largest_component)),
        },
        "handlers": [
            {
                "_target_": "CheckpointLoader",
                "load_path": "$@bundle_root + '/models/model.pt'",
                "load_dict": {"model": "@network"},
            }
        ],
        "evaluator": {
            "_target_": "SupervisedEvaluator",
            "device": "@device",
            "val_data_loader": "@dataloader",
            "network": "@network",
            "inferer": "@inferer",
            "postprocessing": "@postprocessing",
            "val_handlers": "@handlers",
        },
        "initialize": ["$sys.path.insert(0, @bundle_root)"],
        "run": ["$@evaluator.run()"],
    }


def _reading() -> list[dict[str, Any]]:
    load = {"_target_": "LoadImaged", "keys": "image", "ensure_channel_first": True}
    turn = {"_target_": "Orientationd", "keys": "image", "axcodes": "RAS", "labels": None}
    return [load, turn]


def _writing(thinned: Sequence[int]) -> list[dict[str, Any]]:
    keep = {
        "_target_": "KeepLargestConnectedComponentd",
        "keys": "pred",
        "applied_labels": list(thinned),
        "independent": True,
        "connectivity": 1,
    }
    return [
        {"_target_": "AsDiscreted", "keys": "pred", "argmax": True},
        *([keep] if thinned else []),
        {
            "_target_": "Invertd",
            "keys": "pred",
            "transform": "@preprocessing",
            "orig_keys": "image",
            "nearest_interp": True,
            "to_tensor": True,
        },
        {
            "_target_": "SaveImaged",
            "keys": "pred",
            "output_dir": "@output_dir",
            "output_postfix": "",
            "output_dtype": "$np.uint8",
            "separate_folder": False,
            "resample": False,
            "output_name_formatter": {
                "_target_": "scripts.export.inferer.name_output",
                "_mode_": "callable",
            },
        },
    ]


def metadata(run: Run) -> dict[str, Any]:
    """`metadata.json`, with the keys of MONAI's schema."""
    data, plan = run.data, run.plan
    sides = {"spatial_shape": ["*", "*", "*"], "dtype": "float32", "is_patch_data": False}
    return {
        "schema": _SCHEMA,
        "version": __version__,
        "changelog": {__version__: f"step {run.step} of a run of {run.settings.method}"},
        "monai_version": version("monai"),
        "pytorch_version": version("torch").partition("+")[0],
        "numpy_version": version("numpy"),
        "required_packages_version": {
            name: version(name) for name in ("nibabel", "pydantic", "scipy", "scikit-image")
        }
        | {"pytorch-ignite": "0.5", "fire": "0.7"},
        "name": data.name,
        "task": f"Segmentation of {', '.join(data.class_names[1:])}",
        "description": f"Trained on {len(data.labeled)} scans with a few drawn slices each and "
        f"{data.unlabeled} scans without, by twoslice.",
        "authors": "made by twoslice",
        "copyright": "The code in scripts/: the twoslice authors, Apache-2.0",
        "network_data_format": {
            "inputs": {
                "image": {
                    "type": "image",
                    "format": "magnitude",
                    "num_channels": plan.network.channels,
                    "value_range": [],
                    "channel_def": dict(enumerate_names(data.channel_names)),
                    **sides,
                }
            },
            "outputs": {
                "pred": {
                    "type": "probabilities",
                    "format": "segmentation",
                    "num_channels": plan.network.classes,
                    "value_range": [0, 1],
                    "channel_def": dict(enumerate_names(data.class_names)),
                    **sides,
                }
            },
        },
    }


def enumerate_names(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Names with their number as text, as MONAI's metadata has them."""
    return [(str(index), name) for index, name in enumerate(names)]


def read_me(run: Run) -> str:
    """How to run the bundle."""
    data = run.data
    rows = "\n".join(f"| {value} | {name} |" for name, value in data.labels.items())
    channels = ", ".join(data.channel_names)
    return f"""# {data.name}

Segments {", ".join(data.class_names[1:])} in 3-D scans ({channels}). Made by twoslice
{__version__} from step {run.step} of a training; gives the labels that `twoslice predict` gives.

```
pip install "monai=={version("monai")}" fire pytorch-ignite nibabel pydantic scipy scikit-image
python -m monai.bundle run --config_file configs/inference.json --dataset_dir SCANS --output_dir OUT
```

Run it in this folder, or from elsewhere with `--bundle_root` and the path of this folder. SCANS is
a folder of NIfTI files: one a scan, or, for several channels, `CASE_0000.nii.gz`,
`CASE_0001.nii.gz`, … . The labels come out as `OUT/CASE.nii.gz`, on the grid of their scan.

| value | label |
| --- | --- |
{rows}
"""


def _write_json(path: Path, tree: dict[str, Any]) -> None:
    path.write_text(json.dumps(tree, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
