"""What each part of plus is worth: left out of the whole, and alone on top of nothing.

    python bench/parts.py --out DIR [--data hippocampus] [--iterations 600] [--seeds 0]
    python bench/parts.py --out DIR [--data hippocampus] --table

"Nothing" is two networks of the same recipe, patches and length that learn from the drawn slices
alone. Trainings and scores are those of bench/recipes.py, in the same folders: finished ones are
kept, stopped ones go on. Start it with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from recipes import PROTOCOLS, measure

LEFT_OUT = {
    "nothing": [],
    "the fused view": ["training.setting=sparse"],
    "… fading (α stays)": ["plus.decay_end=0.95"],
    "… doubt where planes differ": ["plus.doubt=1"],
    "teachers": ["plus.weight=0"],
    "… sharpening": ["plus.temperature=1"],
    "… less Dice (half of it)": ["plus.dice=0.5"],
    "edges": ["plus.edges=0"],
    "boxes that change places": ["plus.exchange=0"],
    "Muon (AdamW)": ["training.optimizer=adamw"],
    "areas as drawn": ["plus.levels=false"],
}
"""Part → the settings that take it out of the whole."""
_ALL_BUT_VIEW = [
    *("plus.weight=0", "plus.edges=0", "plus.exchange=0"),
    *("training.optimizer=adamw", "plus.levels=false"),
]
_NOTHING = ["training.setting=sparse", *_ALL_BUT_VIEW]
ALONE = {
    "nothing": _NOTHING,
    "the fused view": [*_ALL_BUT_VIEW, "plus.doubt=1", "plus.decay_end=0.95"],
    "… fading": [*_ALL_BUT_VIEW, "plus.doubt=1"],
    "… doubt": [*_ALL_BUT_VIEW, "plus.decay_end=0.95"],
    "teachers": [*_NOTHING, "plus.weight=1"],
    "edges": [*_NOTHING, "plus.edges=0.1"],
    "boxes that change places": [*_NOTHING, "plus.exchange=0.5"],
    "Muon": [*_NOTHING, "training.optimizer=muon"],
    "areas as drawn": [*_NOTHING, "plus.levels=true"],
}
"""Part → the settings that have it and no other."""


def runs() -> dict[str, list[str]]:
    """Every training by a short name: the whole and nothing first."""
    tables = {"without": LEFT_OUT, "alone": ALONE}
    return {
        f"{kind}-{number}": settings
        for kind, parts in tables.items()
        for number, settings in enumerate(parts.values())
    }


def table(folder: Path) -> None:
    """Both tables as Markdown; a training that is not there is left empty."""
    for kind, parts in (("without", LEFT_OUT), ("alone", ALONE)):
        print(f"\n| {kind} | Dice | HD95 mm | CPU min |\n| --- | --- | --- | --- |")
        for number, part in enumerate(parts):
            found = [
                json.loads(path.read_text()) for path in folder.glob(f"{kind}-{number}-*.json")
            ]
            if not found:
                print(f"| {part} | | | |")
                continue
            overall = [each["summary"]["overall"] for each in found]
            dice = 100 * np.mean([each["dice"]["mean"] for each in overall])
            distance = np.mean([each["hd95_mm"]["mean"] for each in overall])
            minutes = np.mean([each["cpu"] for each in found]) / 60
            print(f"| {part} | {dice:.1f} | {distance:.1f} | {minutes:.1f} |")


def main() -> None:
    """Make the trainings that are missing, or print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", choices=PROTOCOLS, default="hippocampus")
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if not arguments.table:
        length = f"training.iterations={arguments.iterations}"
        for seed in map(int, arguments.seeds.split(",")):
            for name, settings in runs().items():
                asked = argparse.Namespace(
                    out=arguments.out,
                    data=arguments.data,
                    name=name,
                    set=[length, *settings],
                    method="plus",
                    preset=None,
                    every=None,
                    whole=False,
                    choice="spread",
                )
                measure(asked, seed)
    table(arguments.out / arguments.data)


if __name__ == "__main__":
    main()
