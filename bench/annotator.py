"""How fast the annotator answers: first slice, wheel steps, strokes, and twenty pages at once.

    python bench/annotator.py [--small]

Scans are made up, in a temporary folder: 190 × 142 × 88 as a cardiac MRI, 512 × 512 × 600 as a
long CT. A real Chromium opens them; times are from the event to the painted canvas, as the page's
own clock sees them. Without Chromium, the server alone is timed. `--small` leaves the CT out.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import nibabel as nib
import numpy as np

from browsing import FLAGS, served

SCANS = {"190×142×88": (190, 142, 88), "512×512×600": (512, 512, 600)}
CLIENTS = 20
EACH = 40


def main() -> None:
    """Time each scan and print a line for each figure."""
    names = list(SCANS)[:1] if "--small" in sys.argv else list(SCANS)
    for name in names:
        print(f"\n{name}")
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "bench"
            path = write_dataset(root, SCANS[name])
            with served(root) as link:
                load = time_load(link)
                print(
                    f"  read by the server: {load:.1f} s (once a scan; the next one is read ahead)"
                )
                time_browser(link)
                time_clients(link, SCANS[name], path)


def write_dataset(root: Path, shape: tuple[int, int, int]) -> Path:
    """One scan that compresses as scans do: smooth tissue and noise."""
    (root / "imagesTr").mkdir(parents=True)
    rng = np.random.default_rng(0)
    across = np.linspace(-1, 1, shape[0])[:, None] ** 2 + np.linspace(-1, 1, shape[1])[None] ** 2
    body = np.where(across < 0.8, 40.0, -1000.0)
    data = np.empty(shape, np.int16)
    for k in range(shape[2]):
        data[..., k] = body + rng.normal(0, 12, shape[:2]) + 60 * np.sin(k / 9 + 5 * across)
    image = nib.Nifti1Image(data, np.diag([-0.7, -0.7, 1.0, 1.0]))
    path = root / "imagesTr" / "scan_0000.nii.gz"
    nib.openers.Opener.default_compresslevel = 1
    nib.save(image, path)
    (root / "dataset.json").write_text(
        '{"name": "bench", "channel_names": {"0": "CT"}, "file_ending": ".nii.gz", '
        '"labels": {"background": 0, "organ": 1, "ignore": 2}, "numTraining": 0}'
    )
    return path


def client(link: str) -> httpx.Client:
    """A client that has the token."""
    base, _, token = link.partition("/?token=")
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=base, headers=headers, timeout=300, trust_env=False, verify=False)


def time_load(link: str) -> float:
    """Seconds until the server has read the scan."""
    with client(link) as asking:
        start = time.perf_counter()
        asking.post("/api/cases/scan/open", json={"client": "bench-load"}).raise_for_status()
        asking.post("/api/cases/scan/release", json={"client": "bench-load"})
        return time.perf_counter() - start


def time_browser(link: str) -> None:
    """What a person waits for, as the page's own clock sees it."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        print("  no Chromium: the page is not timed")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS.split())
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        start = time.perf_counter()
        page.goto(link)
        page.wait_for_function(
            "() => { const all = [...document.querySelectorAll('canvas')]; return all.length === 2"
            " && all.every(c => c.dataset.shown?.endsWith('ready')); }"
        )
        print(f"  from the link to both slices: {time.perf_counter() - start:.2f} s")
        for at, plane in enumerate(("axial", "coronal")):
            steps = page.evaluate(WHEEL, [at, 35, 1, 70])
            told("wheel step, " + plane + ", 14 a second", steps)
            steps = page.evaluate(WHEEL, [at, 35, -1, 0])
            told("wheel step, " + plane + ", without a pause", steps)
        told("jump to a slice never seen, axial", page.evaluate(JUMP, 12))
        page.keyboard.press("Home")
        told("stroke, from letting go to saved", page.evaluate(STROKE, 8))
        browser.close()


PAINTED = """
  const painted = (canvas, act) => new Promise((resolve) => {
    const before = canvas.dataset.shown;
    const start = performance.now();
    const watch = new MutationObserver(() => {
      if (canvas.dataset.shown === before || !canvas.dataset.shown.endsWith('ready')) return;
      watch.disconnect();
      resolve(performance.now() - start);
    });
    watch.observe(canvas, { attributes: true });
    act();
  });
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
"""

WHEEL = f"""async ([at, steps, way, rest]) => {{
  {PAINTED}
  const canvas = document.querySelectorAll('canvas')[at];
  const times = [];
  for (let i = 0; i < steps; i++) {{
    times.push(await painted(canvas, () => canvas.dispatchEvent(
      new WheelEvent('wheel', {{ deltaY: -100 * way, cancelable: true }}))));
    if (rest) await pause(rest);
  }}
  return times;
}}"""

JUMP = f"""async (steps) => {{
  {PAINTED}
  const canvas = document.querySelector('canvas');
  const slider = document.querySelector('.panel > input');
  const times = [];
  for (let i = 0; i < steps; i++) {{
    times.push(await painted(canvas, () => {{
      slider.value = Math.round((0.02 + 0.07 * ((i * 5) % 13)) * slider.max);
      slider.dispatchEvent(new Event('input'));
    }}));
    await pause(400);
  }}
  return times;
}}"""

STROKE = """async (strokes) => {
  const canvas = document.querySelector('canvas');
  const chip = document.getElementById('saving');
  const box = canvas.getBoundingClientRect();
  const say = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type, {
    clientX: box.left + box.width / 2 + x, clientY: box.top + box.height / 2 + y,
    pointerId: 7, pointerType: 'pen', button: 0, buttons: 1, bubbles: true, cancelable: true }));
  const times = [];
  for (let i = 0; i < strokes; i++) {
    say('pointerdown', -60, 8 * i);
    for (let x = -60; x <= 60; x += 5) say('pointermove', x, 8 * i);
    const start = performance.now();
    await new Promise((resolve) => {
      const watch = new MutationObserver(() => {
        if (chip.dataset.kind !== 'saved') return;
        watch.disconnect();
        resolve();
      });
      watch.observe(chip, { attributes: true });
      say('pointerup', 60, 8 * i);
    });
    times.push(performance.now() - start);
  }
  return times;
}"""


def time_clients(link: str, shape: tuple[int, int, int], path: Path) -> None:
    """Twenty pages at once, each asking for slices of its own in a random order."""

    def work(seed: int) -> list[float]:
        rng = np.random.default_rng(seed)
        times = []
        with client(link) as asking:
            for _ in range(EACH):
                axis = int(rng.integers(3))
                plane = ("sagittal", "coronal", "axial")[axis]
                start = time.perf_counter()
                index = int(rng.integers(shape[axis]))
                asking.get(f"/api/cases/scan/slices/0/{plane}/{index}").raise_for_status()
                times.append(1000 * (time.perf_counter() - start))
        return times

    alone = work(99)
    told("slice by one client", alone)
    start = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        times = [each for found in pool.map(work, range(CLIENTS)) for each in found]
    rate = len(times) / (time.perf_counter() - start)
    told(f"slice by {CLIENTS} clients at once ({rate:.0f} a second)", times)
    start = time.perf_counter()
    np.asarray(nib.load(path).dataobj[..., shape[2] // 2])
    plain = 1000 * (time.perf_counter() - start)
    ratio = plain / statistics.median(alone)
    print(
        f"  the same slice read from the .nii.gz by nibabel: {plain:.0f} ms, "
        f"{ratio:.0f} times as long"
    )


def told(what: str, times: Any) -> None:
    """One line of times in milliseconds."""
    ordered = sorted(times)
    middle, high = (
        statistics.median(ordered),
        ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
    )
    print(f"  {what}: median {middle:.0f} ms, 95 % {high:.0f} ms, most {ordered[-1]:.0f} ms")


if __name__ == "__main__":
    main()
