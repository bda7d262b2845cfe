"""Propagation: how good, how fast, how large, and does the self-check know?

    python bench/propagation.py --work DIR [--ants all|stored|none] [--only quality,speed,size]

Sets: LA_h5 (first 10), Hippocampus (first 50), BTCV_ct (20; liver, spleen, left kidney), slices as
`simulate` chooses them. The dense labels serve as truth here and nowhere else. ANTs takes hours:
its fields are kept in DIR plane by plane and used again; cases that have none yet are left out of
the comparison, and the table says how many there were. Needs the data of TWOSLICE_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from real_scans import DATA, PLANES, ROOT, Scan, scans
from twoslice.annotation.reading import annotation_at
from twoslice.planes import Plane
from twoslice.propagation import ants_pair
from twoslice.propagation.ants import AntsRegistrar
from twoslice.propagation.batched import BatchedRegistrar
from twoslice.propagation.carry import Walk
from twoslice.propagation.fusion import classify
from twoslice.propagation.intensity import normalize
from twoslice.propagation.propagate import _Scan, _Work, propagate_scan
from twoslice.propagation.registrars import Displacements
from twoslice.propagation.stacks import Stack
from twoslice.propagation.threads import single_threaded
from twoslice.propagation.views import mix
from twoslice.settings import PropagationSettings

SETS = {"LA": 10, "HIP": 50, "BTCV": 20}
OURS, ALONE = PropagationSettings(), PropagationSettings(constraint=False)
PAPER = PropagationSettings(carry="paper", constraint=False)


@dataclass(frozen=True)
class Stored:
    """A registrar that hands out kept fields, way after way, as `Stack.register` asks."""

    ways: Iterator[Displacements]

    def __call__(self, *, fixed: torch.Tensor, moving: torch.Tensor) -> Displacements:
        """The next way's fields."""
        return next(self.ways)


def ants_walks(stack: Stack, file: Path, *, compute: bool) -> list[Walk] | None:
    """The ways of a plane with SyNRA's fields, from the file or, if wanted, computed into it."""
    if not file.is_file():
        if not compute:
            return None
        begun = time.monotonic()
        walks = stack.register(AntsRegistrar(processes=1))
        fields = np.zeros((len(stack.slices), *stack.size, 2), np.float16)
        for walk in walks:
            order = range(min(walk.targets), max(walk.targets) + 1)
            fields[list(order)] = walk.fields.pixels().permute(0, 2, 3, 1).numpy()
        scratch = file.with_suffix(".part.npz")
        np.savez_compressed(
            scratch, d=fields, src=min(stack.masks), seconds=time.monotonic() - begun
        )
        scratch.replace(file)
    kept = np.load(file)
    if int(kept["src"]) not in stack.masks:
        raise SystemExit(f"{file}: was made for slice {int(kept['src'])}. Delete it.")
    pixels = torch.from_numpy(kept["d"].astype(np.float32)).permute(0, 3, 1, 2)
    parts = [
        Displacements.from_pixels(pixels[min(targets) : max(targets) + 1])
        for _, targets in stack.pieces()
    ]
    return stack.register(Stored(iter(parts)))


def views_of(scan: Scan, walks: dict[Plane, list[Walk]], settings: PropagationSettings) -> dict:
    """Single-plane views from given fields."""
    image = torch.from_numpy(normalize(scan.image))
    known = _Scan(image, scan.annotation, scan.classes, settings)
    work = _Work(known, scan.spacing, BatchedRegistrar())
    views = {}
    for plane, ways in walks.items():
        odds = work._carry(known.stack(plane), ways, None).odds
        views[plane.value] = mix(plane.unstack(classify(odds).numpy()), scan.annotation)
    return views


def quality_of(scan: Scan, name: str, work: Path, *, compute: bool) -> dict[str, Any]:
    """Dice of every view of one case."""
    begun = time.process_time()
    ours = propagate_scan(
        scan.image, scan.annotation, classes=scan.classes, spacing=scan.spacing, settings=OURS
    )
    row: dict[str, Any] = {"case": scan.name, "seconds": time.process_time() - begun}
    row |= {f"batched {n}": scan.dice(view.label) for n, view in ours.views.items()}
    row["expected"] = ours.quality.expected
    row["self-check"] = float(np.mean([v.dice or 0.0 for v in ours.quality.views.values()]))
    row["agreement"] = ours.quality.agreement
    image = torch.from_numpy(normalize(scan.image))
    stacks = {plane: Stack.of(plane, image, scan.annotation) for plane in PLANES}
    walks = {plane: stack.register(BatchedRegistrar()) for plane, stack in stacks.items()}
    plain = views_of(scan, walks, PAPER)
    row |= {f"batched plain {n}": scan.dice(view) for n, view in plain.items()}
    alone = views_of(scan, walks, ALONE)
    row["batched alone"] = float(np.mean([scan.dice(view) for view in alone.values()]))
    for plane, stack in stacks.items():
        file = work / f"{name}_{scan.name}_{plane.value}.npz"
        found = ants_walks(stack, file, compute=compute)
        if found is None:
            return row
        walks[plane] = found
    row |= {f"ants {n}": scan.dice(view) for n, view in views_of(scan, walks, PAPER).items()}
    return row


def quality(work: Path, *, compute: bool) -> dict[str, list[dict[str, Any]]]:
    """Every set's table, a row a case, and what follows from it."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for name, count in SETS.items():
        rows[name] = []
        for scan in scans(name, count):
            rows[name].append(quality_of(scan, name, work, compute=compute))
            print(f"  {name} {len(rows[name])}/{count}", file=sys.stderr, flush=True)
        _print_quality(name, rows[name])
    _print_summary(rows)
    return rows


# "plain" is the paper's carry, as for ANTs: registration against registration.
PLAIN = ("ants axial", "ants coronal", "batched plain axial", "batched plain coronal")
KINDS = (*PLAIN, "batched axial", "batched coronal", "batched fused")


def _print_quality(name: str, rows: list[dict[str, Any]]) -> None:
    both = [row for row in rows if "ants axial" in row]
    for kind in KINDS:
        cells = []
        for some in (both, rows):
            found = [100 * row[kind] for row in some if kind in row]
            whole = found and len(found) == len(some)
            cells.append(f"{np.mean(found):.1f} ({len(found)})" if whole else "")
        print(f"| {name} | {kind} | {cells[0]} | {cells[1]} |", flush=True)


def _print_summary(rows: dict[str, list[dict[str, Any]]]) -> None:
    gains = []
    for name, found in rows.items():
        both = [row for row in found if "ants axial" in row]
        if both:
            mean = {kind: 100 * np.mean([row[kind] for row in both]) for kind in KINDS}
            gains.append(mean["batched fused"] - max(mean["ants axial"], mean["ants coronal"]))
            print(f"fused over the better ANTs view, {name}: {gains[-1]:+.1f}")
    if gains:
        print(f"on the average: {np.mean(gains):+.1f}")
    pooled = [row for name in ("LA", "BTCV") for row in rows.get(name, [])]
    for truth in ("batched fused", "batched alone"):
        for guess in ("expected", "self-check", "agreement"):
            rho = spearmanr([r[guess] for r in pooled], [r[truth] for r in pooled]).statistic
            print(f"Spearman, {guess} against true Dice of {truth}, {len(pooled)} cases: {rho:.2f}")
    off = [row["expected"] - row["batched fused"] for row in pooled]
    print(f"expected minus true Dice: {100 * np.mean(off):+.1f} ± {100 * np.std(off):.1f}")


def speed(pairs: int) -> None:
    """Seconds a plane, ANTs pair after pair (timed on a few pairs of it) and batched (all)."""
    ants_pair.start()
    ratios = []
    for name in SETS:
        scan = next(scans(name, 1))
        with single_threaded():
            known = _Scan(
                torch.from_numpy(normalize(scan.image)), scan.annotation, scan.classes, OURS
            )
            for plane in PLANES:
                slow, fast = _times(known, scan, plane, pairs)
                ratios.append(slow / fast)
                print(
                    f"| {name} {scan.name} | {plane} | {len(known.stack(plane).slices)} | "
                    f"{slow:.1f} | {fast:.2f} | {slow / fast:.0f} |"
                )
    print(f"geometric mean of the ratios: {np.exp(np.mean(np.log(ratios))):.0f}")


def _times(known: _Scan, scan: Scan, plane: Plane, pairs: int) -> tuple[float, float]:
    """CPU seconds of both for one plane: registration and carry, no check, no fusion."""
    registrar = BatchedRegistrar()
    work = _Work(known, scan.spacing, registrar)
    took = []
    for _ in range(3):
        stack = known.stack(plane)
        begun = time.process_time()
        work._carry(stack, stack.register(registrar), None)
        took.append(time.process_time() - begun)
    slices = known.stack(plane).slices.numpy()
    chosen = np.linspace(0.15, 0.85, pairs) * (len(slices) - 2)
    begun = time.process_time()
    for index in chosen.astype(int):
        ants_pair.register_pair((slices[index + 1], slices[index]))
    each = (time.process_time() - begun) / pairs
    return each * (len(slices) - 1), float(np.median(took))


def size() -> None:
    """Peak memory and time in processes of their own."""
    for shape in (*((128, 128, slices) for slices in (75, 150, 300)), (512, 512, 300)):
        call = [sys.executable, __file__, "--one", "x".join(map(str, shape))]
        out = subprocess.run(call, capture_output=True, text=True, check=True).stdout
        print(out.strip(), flush=True)


def one(shape: tuple[int, int, int]) -> None:
    """A made-up scan of `shape` with a ball in noise; what propagating it takes."""
    generator = np.random.default_rng(0)
    image = generator.normal(0, 0.3, shape).astype(np.float32)[None]
    axes = np.ogrid[tuple(slice(-1, 1, side * 1j) for side in shape)]
    ball = sum(axis**2 for axis in axes) < 0.4
    image[0][ball] += 1
    annotation = annotation_at(
        ball.astype(np.uint8), [(Plane.AXIAL, shape[2] // 2), (Plane.CORONAL, shape[1] // 2)]
    )
    del ball
    begun = time.process_time()
    propagate_scan(image, annotation, classes=2, spacing=(1, 1, 1), settings=OURS)
    took = time.process_time() - begun
    # Not getrusage: its peak is inherited from the process that started this one.
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 2**20
    print(f"| {'×'.join(map(str, shape))} | {took:.1f} | {peak:.2f} |")


def main() -> None:
    """Read the options and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=ROOT / ".bench" / "propagation")
    parser.add_argument("--ants", choices=["all", "stored", "none"], default="stored")
    parser.add_argument("--only", default="quality,speed,size")
    parser.add_argument("--pairs", type=int, default=12, help="ANTs pairs timed a plane")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        i, j, k = (int(side) for side in options.one.split("x"))
        return one((i, j, k))
    if not DATA.is_dir():
        raise SystemExit(f"no real scans in {DATA}: set TWOSLICE_DATA")
    options.work.mkdir(parents=True, exist_ok=True)
    print(f"{platform.machine()}, {os.cpu_count()} cores, {time.strftime('%F')}")
    if "quality" in options.only:
        print("| set | view | Dice where ANTs has run (cases) | Dice, all cases |\n|-|-|-|-|")
        rows = quality(options.work, compute=options.ants == "all")
        (options.work / "quality.json").write_text(json.dumps(rows, indent=1))
    if "speed" in options.only and options.ants != "none":
        print("| case | plane | slices | ANTs, CPU s | batched, CPU s | ratio |\n|-|-|-|-|-|-|")
        speed(options.pairs)
    if "size" in options.only:
        print("| scan | CPU s | peak GB |\n|-|-|-|")
        size()


if __name__ == "__main__":
    main()
