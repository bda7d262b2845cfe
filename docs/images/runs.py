"""The pictures of the pages that runs on real scans end in: the top of each, as a browser shows it.

python docs/images/runs.py DIR        (DIR: what `bench/quality.py --out DIR` made; needs Chromium)
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "bench"))
from browsing import FLAGS  # noqa: E402
from recipes import PROTOCOLS  # noqa: E402

SIZE = {"width": 1100, "height": 1500}
COLOURS = 256  # grey slices, a few outlines, the keys of labels


def main() -> None:
    """Make a picture of every page that is there."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.exit("no Chromium found: install it to make the pictures")
    pages = {name: Path(sys.argv[1]).resolve() / name / "out" / "report.html" for name in PROTOCOLS}
    with tempfile.TemporaryDirectory() as profile, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=browser, args=FLAGS.split(), viewport=SIZE
        )
        for name, page in pages.items():
            if not page.is_file():
                continue
            tab = context.new_page()
            tab.goto(page.as_uri())
            tab.wait_for_load_state("load")
            picture = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
            target = HERE / f"run-{name.replace('_', '-')}.png"
            picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(target, optimize=True)
        context.close()


if __name__ == "__main__":
    main()
