"""Packed slices: what is in them is what was in the scan, and a page of many stays small."""

from __future__ import annotations

import base64
import io
import json
import re

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from skimage.draw import polygon2mask

from twoslice.planes import Plane
from twoslice.report.viewer import DETAILS, Shown, pack, pack_scan

SHAPE = (40, 30, 20)


def scan(case: str = "a", shape: tuple[int, int, int] = SHAPE) -> Shown:
    at = np.stack(np.meshgrid(*[np.arange(side) for side in shape], indexing="ij"))
    away = np.sqrt(((at - np.array(shape)[:, None, None, None] / 2) ** 2).sum(axis=0))
    labels = (away < min(shape) / 3).astype(np.uint8)
    image = (100 * labels + np.random.default_rng(0).normal(0, 9, shape)).astype(np.float32)
    doubt = np.exp(-np.abs(away - min(shape) / 3)).astype(np.float32)
    return Shown(case, image, (1.0, 1.0, 2.0), labels, doubt=doubt, marks=((Plane.AXIAL, 3),))


def filled(path: str, size: list[int]) -> NDArray[np.bool_]:
    """The inside of a path of relative lines, as the pixels of a slice."""
    start, *moves = re.findall(r"[Ml](-?\d+) (-?\d+)", path)
    points = np.cumsum(np.array([start, *moves], dtype=float), axis=0) / 2 - 0.5
    return polygon2mask((size[1], size[0]), points[:, ::-1])


def test_outlines_enclose_the_labels_of_their_slice() -> None:
    shown = scan()
    tree = json.loads(pack_scan(shown, DETAILS[0]))
    assert [plane["name"] for plane in tree["planes"]] == ["axial", "coronal", "sagittal"]
    plane = tree["planes"][0]
    assert plane["mm"] == [40.0, 30.0]
    for index, outlines in zip(plane["slices"], plane["outlines"], strict=True):
        truth = Plane.AXIAL.facing(shown.labels, index) > 0
        assert bool(outlines) == bool(truth.any())
        if truth.sum() > 20:
            ((value, path),) = outlines
            inside = filled(path, plane["size"])
            assert value == 1
            assert 2 * (inside & truth).sum() / (inside.sum() + truth.sum()) > 0.9


def test_the_sheet_holds_every_slice_in_its_place() -> None:
    shown = scan()
    plane = json.loads(pack_scan(shown, DETAILS[0]))["planes"][0]
    data = base64.b64decode(plane["sheet"].removeprefix("data:image/webp;base64,"))
    sheet = np.asarray(Image.open(io.BytesIO(data)).convert("L")).astype(float)
    width, height = plane["size"]
    assert sheet.shape == (plane["rows"] * height, plane["columns"] * width)
    for number, index in enumerate(plane["slices"]):
        row, column = divmod(number, plane["columns"])
        tile = sheet[row * height : (row + 1) * height, column * width : (column + 1) * width]
        wanted = Plane.AXIAL.facing(shown.image, index)
        if wanted.std() > 20:
            assert np.corrcoef(tile.ravel(), wanted.ravel())[0, 1] > 0.95
    assert 3 in plane["slices"]  # the drawn one is always there
    assert plane["drawn"] == [3]


def test_many_scans_get_coarser_until_all_fit_and_past_that_some_are_left_out() -> None:
    cases = [f"case {number}" for number in range(6)]
    finest = len(pack_scan(scan("case 0"), DETAILS[0]))
    coarsest = len(pack_scan(scan("case 0"), DETAILS[-1]))
    budget = 6 * (finest + coarsest) // 2
    packed = list(pack(cases, scan, budget=budget))
    assert len(packed) == 6
    assert sum(len(text) for _, text in packed) <= budget < 6 * finest
    few = list(pack(cases, scan, budget=3 * coarsest))
    assert 0 < len(few) < 6
    assert sum(len(text) for _, text in few) <= 3 * coarsest


def test_few_scans_get_the_finest_detail_and_unreadable_ones_none() -> None:
    packed = dict(pack(["a", "b"], lambda case: scan(case) if case == "a" else None))
    assert list(packed) == ["a"]
    assert packed["a"] == pack_scan(scan("a"), DETAILS[0])
    assert "</" not in pack_scan(scan("</script>"), DETAILS[-1])
