"""The pictures of the annotator's guide: made-up scans, drawn as a person would, in a browser.

python docs/images/annotator.py        (needs Chromium; `make pictures` calls it)
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import nibabel as nib
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from twoslice.annotator.runs import to_screen
from twoslice.demo.phantom import make_phantom
from twoslice.io.scans import write_image
from twoslice.planes import Plane

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "bench"))
from browsing import FLAGS, served  # noqa: E402

SHAPE = (112, 112, 48)
CASES = 8


def main() -> None:
    """Make every picture."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.exit("no Chromium found: install it to make the pictures")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "abdomen"
        truths = write_scans(root)
        with served(root) as link, sync_playwright() as playwright:
            started = playwright.chromium.launch(executable_path=browser, args=FLAGS.split())
            page = started.new_page(viewport={"width": 1280, "height": 720})
            base, _, token = link.partition("/?token=")
            headers = {"Authorization": f"Bearer {token}"}
            with httpx.Client(base_url=base, headers=headers, timeout=120) as person:
                for case in ("scan_00", "scan_01"):
                    draw(person, case, truths[case], both=True, finished=True)
                draw(person, "scan_02", truths["scan_02"], both=False, finished=False)
                take(page, f"{link}#scan_02", "annotator-line.png")
                draw(person, "scan_03", truths["scan_03"], both=True, finished=False)
                take(page, f"{base}/#scan_03", "annotator.png")
            page.keyboard.press("v")
            page.wait_for_selector("#panels[data-count='3']", timeout=120_000)
            page.wait_for_timeout(1500)
            save(page, "annotator-preview.png")
            page.keyboard.press("Escape")
            page.keyboard.press("?")
            page.wait_for_timeout(400)
            save(page, "annotator-help.png")
            started.close()
        export_picture(root, Path(folder) / "out")


def write_scans(root: Path) -> dict[str, NDArray[np.uint8]]:
    """Phantoms as a dataset in which nothing is drawn; gives back what would be true."""
    truths = {}
    for number in range(CASES):
        case = f"scan_{number:02d}"
        # Only the first ones are looked at; the others fill the list.
        phantom = make_phantom((7, number), shape=SHAPE if number < 4 else (32, 32, 16))
        write_image(root / "imagesTr" / f"{case}_0000.nii.gz", phantom.image, phantom.grid)
        truths[case] = phantom.labels
    labels = {"background": 0, "organ": 1, "gland": 2, "ignore": 3}
    content = {"name": "abdomen", "channel_names": {"0": "MRI"}, "labels": labels}
    content |= {"numTraining": 0, "file_ending": ".nii.gz"}
    (root / "dataset.json").write_text(json.dumps(content))
    return truths


def draw(
    person: httpx.Client, case: str, truth: NDArray[np.uint8], *, both: bool, finished: bool
) -> None:
    """Draw the truth on the suggested slices of a case, or on the first alone."""
    who = {"client": "picture-maker"}
    opened = person.post(f"/api/cases/{case}/open", json=who).raise_for_status().json()
    version = opened["drawing"]["version"]
    for each in opened["drawing"]["slices"][: 2 if both else 1]:
        plane = Plane(each["plane"])
        rows = to_screen(plane.take(truth, each["index"])).reshape(-1)
        runs = [n for at in np.flatnonzero(rows) for n in (int(at), 1, int(rows[at]))]
        edit = {"kind": "paint", "plane": plane.value, "index": each["index"], "runs": runs}
        body = {**who, "base": version, "edits": [edit]}
        answer = person.post(f"/api/cases/{case}/edits", json=body).raise_for_status().json()
        version = answer["drawing"]["version"]
    if finished:
        person.post(f"/api/cases/{case}/note", json={**who, "finished": True})
    person.post(f"/api/cases/{case}/release", json=who)


def take(page: Page, address: str, name: str) -> None:
    """Open a case and take its picture."""
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("body[data-ready]", timeout=60_000)
    page.evaluate("location.hash")
    page.wait_for_timeout(1500)
    save(page, name)


def save(page: Page, name: str) -> None:
    """A screenshot with few colours, small enough for a repository."""
    page.screenshot(path=HERE / name)
    shrink(Image.open(HERE / name), HERE / name)


def shrink(image: Image.Image, path: Path) -> None:
    """Save with a palette."""
    image.convert("RGB").quantize(200, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path)  # noqa: T201


def export_picture(root: Path, out: Path) -> None:
    """What an exported case looks like in any editor: `ignore` covers all but the two slices."""
    program = "from twoslice.cli import main; main()"
    command = ["annotate", str(root), "--export", str(out), "--cases", "scan_03"]
    subprocess.run([sys.executable, "-c", program, *command], check=True, capture_output=True)
    folder = out / "scan_03"
    scan = nib.as_closest_canonical(nib.load(folder / "scan.nii.gz"))
    label = np.asarray(nib.as_closest_canonical(nib.load(folder / "scan_03.nii.gz")).dataobj)
    voxels = np.asarray(scan.dataobj).astype(float)
    grey = np.clip(voxels / np.percentile(voxels, 99.5), 0, 1) * 255
    drawn = {p: int(np.argmin((p.stack_first(label) == 3).mean(axis=(1, 2)))) for p in Plane}
    spacing = [float(side) for side in scan.header.get_zooms()]
    height = 300
    tiles = []
    for plane in (Plane.AXIAL, Plane.CORONAL, Plane.SAGITTAL):
        index = drawn[plane] if plane != Plane.SAGITTAL else label.shape[0] // 2 - 12
        rows = to_screen(plane.take(grey, index))
        mask = to_screen(plane.take(label, index))
        colour = np.repeat(rows[..., None], 3, axis=-1)
        for value, paint in {1: (255, 107, 107), 2: (78, 205, 196), 3: (150, 150, 160)}.items():
            share = 0.5 if value != 3 else 0.55
            colour[mask == value] = (1 - share) * colour[mask == value] + share * np.array(paint)
        across, along = (spacing[axis] for axis in range(3) if axis != plane.axis)
        width = round(height * rows.shape[1] * across / (rows.shape[0] * along))
        tile = Image.fromarray(colour.astype(np.uint8))
        tiles.append(tile.resize((width, height), Image.Resampling.NEAREST))
    whole = Image.new("RGB", (sum(t.width for t in tiles) + 16 * 2, height), (16, 20, 24))
    left = 0
    for tile in tiles:
        whole.paste(tile, (left, 0))
        left += tile.width + 16
    shrink(whole, HERE / "annotator-export.png")


if __name__ == "__main__":
    main()
