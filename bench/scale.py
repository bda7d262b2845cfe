"""Growth: time and memory against the number of scans, and two workers against one.

    python bench/scale.py --work DIR [--counts 10,100,1000] [--only growth,workers,estimate]

growth    import, opening, propagate, predict and the bookkeeping of a study, each in a process of
          its own: CPU seconds a scan should stay, and so should the peak of the memory.
workers   200 scans propagated by one worker and by two, in turns, a core each: the ratio.
estimate  100,000 scans on 50 GPUs on paper, from the figures above (growth.json in DIR).

The scans are small (16 × 16 × 12), so that what is measured is what each scan costs beside its
voxels. The machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from small_scans import draw, make_scans
from twoslice.engines.jobs import watch
from twoslice.engines.local import LocalEngine
from twoslice.io.dataset import Dataset
from twoslice.io.grid import Grid
from twoslice.io.scans import write_image
from twoslice.progress import Silent
from twoslice.propagation.dataset import _job
from twoslice.settings import PropagationSettings, parse_settings
from twoslice.studies.files import load_study
from twoslice.studies.grid import plan_runs
from twoslice.training.loop import train

TINY = {
    "network": {"filters": 2},
    "training": {"iterations": 2, "patch": [16, 16, 12], "device": "cpu", "pictures": False},
}
PROGRAM = str(Path(sys.executable).with_name("twoslice"))
SCANS, DRAWN, GPUS, CORES, GPU_GAIN = 100_000, 1_000, 50, 8, 20
"""Of the estimate: scans, those drawn in, GPUs, cores beside each GPU, and the assumed gain of a
GPU over one core in prediction, which could not be measured here."""
CT_VOXELS, CT_BYTES, DISK = 512 * 512 * 150, 45e6, 1e9
"""Of the estimate: a body CT, what its compressed file takes, and bytes a second that a shared disk
gives to all together."""
VOXELS_A_SECOND = {"propagate": 512 * 512 * 300 / 161, "predict": 512 * 512 * 100 / 81}
"""One core, large scans, 16 filters: from the tables of sizes in docs/results.md."""


class Measured(NamedTuple):
    """One command: the CPU time of all its threads, the largest memory of its process."""

    seconds: float
    megabytes: float


def measure(*command: str) -> Measured:
    """Run a command, and note its CPU time and the peak of its memory."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        status = Path(f"/proc/{process.pid}/status")
        peak = 0
        while True:
            # Not ru_maxrss, which begins with what the parent held.
            lines = [line for line in status.read_text().splitlines() if "VmHWM" in line]
            peak = max([peak, *(int(line.split()[1]) for line in lines)])
            ended, code, used = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            time.sleep(0.02)
        said.seek(0)
        assert code == 0, said.read().decode()
    return Measured(used.ru_utime + used.ru_stime, peak / 1024)


def make_study(work: Path, runs: int) -> Path:
    """A study whose runs are finished: what is left is what a study does beside training."""
    from twoslice.demo.phantom import write_phantoms

    if not (work / "phantoms").exists():
        write_phantoms(work / "phantoms", training=4, test=2, shape=(24, 24, 16))
    rows = [{"name": "net", "method": "supervised", "set": {"training.setting": "sparse"}}]
    tree = {"title": "many", "data": {"dense": "phantoms", "labeled": 2}, "set": TINY}
    file = work / f"study-{runs}.yaml"
    file.write_text(yaml.safe_dump({**tree, "rows": rows, "seeds": list(range(runs))}))
    out, first = work / f"study-{runs}", work / "study-first"
    if not first.exists():
        one = work / "study-first.yaml"
        one.write_text(yaml.safe_dump({**tree, "rows": rows, "seeds": [0]}))
        subprocess.run([PROGRAM, "study", str(one), "--out", str(first)], check=True)
    [result] = first.glob("runs/*/result.json")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    shutil.copy(first / "study.yaml", out / "study.yaml")
    for run in plan_runs(load_study(file, ())):
        folder = out / "runs" / run.name
        folder.mkdir(parents=True)
        shutil.copy(result, folder / "result.json")
        (folder / "plan.json").write_text(json.dumps(run.plan))
    return file


def growth(work: Path, counts: list[int]) -> dict[str, Any]:
    """Each stage for each count."""
    figures: dict[str, Any] = {}
    for count in counts:
        place = work / str(count)
        shutil.rmtree(place, ignore_errors=True)
        make_scans(place / "scans", count)
        data = str(place / "data")
        row = {"import": measure(PROGRAM, "import", str(place / "scans"), "--out", data)}
        draw(place / "data", count)
        code = "import sys, pathlib; from twoslice import Dataset as D; "
        code += "len(D.open(pathlib.Path(sys.argv[1])).labeled)"
        row["open"] = measure(sys.executable, "-c", code, data)
        row["propagate"] = measure(PROGRAM, "propagate", data, "--workers", "1")
        row["propagate again"] = measure(PROGRAM, "propagate", data, "--workers", "1")
        run = work / "run"
        if not run.exists():
            train(Dataset.open(place / "data"), run, parse_settings(TINY))
        scans, out = str(place / "scans"), str(place / "predictions")
        row["predict"] = measure(PROGRAM, "predict", str(run), scans, "--out", out)
        file = make_study(work, count)
        row["study"] = measure(PROGRAM, "study", str(file), "--out", str(work / f"study-{count}"))
        figures[str(count)] = {name: [*m] for name, m in row.items()}
        for name, m in row.items():
            print(f"{count:6d}  {name:16s} {m.seconds:8.2f} s  {m.megabytes:7.0f} MB", flush=True)
    (work / "growth.json").write_text(json.dumps(figures, indent=1))
    (work / "import.json").write_text(json.dumps(import_pace(work)))
    return figures


def import_pace(work: Path) -> float:
    """CPU seconds a voxel that importing takes."""
    shape, place = (192, 192, 120), work / "large"
    shutil.rmtree(place, ignore_errors=True)
    noise = np.random.default_rng(0).normal(0, 20, shape).astype(np.float32).round()
    seconds = []
    for name, data in (("small", noise[:16, :16, :12]), ("large", noise)):
        grid = Grid(data.shape, np.diag([1.0, 1.0, 2.0, 1.0]))
        write_image(place / name / "scan.nii.gz", np.ascontiguousarray(data), grid)
        out = str(place / f"{name}-out")
        seconds.append(measure(PROGRAM, "import", str(place / name), "--out", out).seconds)
    return (seconds[1] - seconds[0]) / noise.size


def two_hundred(work: Path) -> Dataset:
    """The dataset of `workers` and `dask`."""
    place = work / "two-hundred"
    if not place.exists():
        make_scans(place / "imagesTr", 200)
        for path in [*(place / "imagesTr").iterdir()]:
            path.rename(path.with_name(path.name.replace(".nii.gz", "_0000.nii.gz")))
        draw(place, 200)
    return Dataset.open(place)


def propagate_by(dataset: Dataset, out: Path, workers: int) -> float:
    """Seconds that so many worker processes take, their start included."""
    shutil.rmtree(out, ignore_errors=True)
    begun = time.monotonic()
    with LocalEngine(workers) as engine:
        engine.cores = workers  # a core a worker: one worker has one
        jobs = [_job(dataset, case, out, PropagationSettings(), engine) for case in dataset.labeled]
        for outcome in watch(engine, jobs, name="", progress=Silent()):
            outcome.get()
    return time.monotonic() - begun


def workers(work: Path) -> None:
    """One worker against two, in one run."""
    dataset = two_hundred(work)
    one = propagate_by(dataset, work / "by-one", 1)
    two = propagate_by(dataset, work / "by-two", 2)
    same = files(work / "by-one") == files(work / "by-two")
    cores = len(os.sched_getaffinity(0))
    print(f"200 scans: one worker {one:.1f} s, two {two:.1f} s: {one / two:.2f} times as fast")
    print(f"on {cores} core(s), load {os.getloadavg()[0]:.1f}; same files: {same}")


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def slope(figures: dict[str, Any], stage: str) -> tuple[float, float]:
    """Seconds a scan between the smallest and the largest count, and the memory that came with it
    in kilobytes a scan.
    """
    few, many = min(figures, key=int), max(figures, key=int)
    more = int(many) - int(few)
    seconds, megabytes = (figures[many][stage][i] - figures[few][stage][i] for i in (0, 1))
    return seconds / more, 1000 * megabytes / more


def estimate(work: Path) -> None:
    """On paper: what 100,000 body CTs on 50 GPUs would take, and what breaks first."""
    figures = json.loads((work / "growth.json").read_text())
    each = {stage: slope(figures, stage) for stage in next(iter(figures.values()))}
    for stage, (seconds, kilobytes) in each.items():
        print(f"{stage:16s} {1000 * seconds:8.1f} ms a scan, {kilobytes:6.2f} kB a scan")
    work_of = {name: CT_VOXELS / pace for name, pace in VOXELS_A_SECOND.items()}
    brought_in = each["import"][0] + CT_VOXELS * json.loads((work / "import.json").read_text())
    cores = GPUS * CORES
    hours = {
        "import, one process": SCANS * brought_in,
        "propagate, all cores": DRAWN * (work_of["propagate"] + each["propagate"][0]) / cores,
        "predict, all GPUs": SCANS * (work_of["predict"] / GPU_GAIN + each["predict"][0]) / GPUS,
        "reading from the disk": SCANS * CT_BYTES / DISK,
    }
    print(f"{SCANS} scans of {CT_VOXELS / 1e6:.0f} M voxels, {GPUS} GPUs with {CORES} cores each:")
    for name, seconds in sorted(hours.items(), key=lambda item: -item[1]):
        print(f"  {name:26s} {seconds / 3600:8.1f} h")
    memory = {stage: SCANS * kilobytes / 1e6 for stage, (_, kilobytes) in each.items()}
    worst = max(memory, key=lambda stage: memory[stage])
    print(f"  memory of the commanding process: {worst} grows by {memory[worst]:.1f} GB")
    print(f"  disk: {SCANS * CT_BYTES / 1e12:.0f} TB of scans")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("bench-scale"))
    parser.add_argument("--counts", default="10,100,1000")
    parser.add_argument("--only", default="growth,workers,estimate")
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    wanted = asked.only.split(",")
    if "growth" in wanted:
        growth(asked.work, [int(count) for count in asked.counts.split(",")])
    for name, part in (("workers", workers), ("estimate", estimate)):
        if name in wanted:
            part(asked.work)


if __name__ == "__main__":
    main()
