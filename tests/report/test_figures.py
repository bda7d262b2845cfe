"""Pictures: the right way round, in millimetres, with outlines that enclose what they should."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from twoslice.planes import Plane
from twoslice.report.curves import Curve, chart, columns_of, smoothed
from twoslice.report.figures import Mark, Outline, facing, fullest_slice, slice_picture

SHAPE, SPACING = (10, 12, 6), (1.0, 2.0, 2.5)


def picture(plane: Plane, index: int, **more: object) -> str:
    image = np.zeros(SHAPE, dtype=np.float32)
    image[9, 11, 5] = 1.0  # right, anterior, superior
    return slice_picture(
        image,
        plane=plane,
        index=index,
        spacing=SPACING,
        grey=(0.0, 1.0),
        **more,  # type: ignore[arg-type]
    )


def pixels(svg: str) -> NDArray[np.uint8]:
    found = re.search(r"data:image/png;base64,([^\"]+)", svg)
    assert found is not None
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(found[1]))))


def area(path: str) -> float:
    """The area inside a closed outline (shoelace formula)."""
    points = np.array([[float(v) for v in pair.split()] for pair in path.split("L")])
    x, y = points.T
    return abs(float(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))) / 2


@pytest.mark.parametrize(("plane", "index"), [(Plane.AXIAL, 5), (Plane.CORONAL, 11)])
def test_the_patients_right_is_on_the_left_and_front_or_head_is_up(
    plane: Plane, index: int
) -> None:
    shown = pixels(picture(plane, index))
    assert np.argwhere(shown == 255).tolist() == [[0, 0]]


def test_a_sagittal_slice_has_the_head_up_and_the_front_on_the_left() -> None:
    assert np.argwhere(pixels(picture(Plane.SAGITTAL, 9)) == 255).tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("plane", "size"),
    [(Plane.AXIAL, (10, 24)), (Plane.CORONAL, (10, 15)), (Plane.SAGITTAL, (24, 15))],
)
def test_a_picture_is_as_wide_and_high_as_the_scan_in_millimetres(
    plane: Plane, size: tuple[float, float]
) -> None:
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture(plane, 0))
    assert box is not None
    assert (float(box[1]), float(box[2])) == size


def test_an_outline_encloses_the_area_of_its_label_also_at_the_edge() -> None:
    labels = np.zeros(SHAPE, dtype=np.uint8)
    labels[6:, 7:, 2] = 1
    svg = picture(Plane.AXIAL, 2, outlines=[Outline(labels, "drawn")])
    path = re.search(r'<path class="drawn label-1" d="M([^Z"]+)Z', svg)
    assert path is not None
    pixels_inside, corner = 4 * 5, 4 * 0.125  # marching squares cut the four corners
    assert area(path[1]) == pytest.approx((pixels_inside - corner) * 1.0 * 2.0, rel=0.02)


def test_a_mark_lies_in_the_middle_of_the_slice_that_it_stands_for() -> None:
    svg = picture(Plane.AXIAL, 2, marks=[Mark(Plane.CORONAL, 11), Mark(Plane.SAGITTAL, 0)])
    assert '<line class="mark" x1="0.0" y1="1.0" x2="10.0" y2="1.0"/>' in svg
    assert '<line class="mark" x1="9.5" y1="0.0" x2="9.5" y2="24.0"/>' in svg


def test_the_fullest_slice_is_the_one_with_the_most_target() -> None:
    labels = np.zeros(SHAPE, dtype=np.uint8)
    labels[2:5, 3:6, 4] = 2
    labels[2, 3, 1] = 1
    assert fullest_slice(labels, Plane.AXIAL) == 4
    assert fullest_slice(np.zeros(SHAPE, dtype=np.uint8), Plane.AXIAL) == 3


def test_facing_loses_no_pixel() -> None:
    volume = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    assert sorted(facing(Plane.CORONAL, volume, 3).ravel()) == sorted(volume[:, 3].ravel())


def test_a_rising_curve_rises_and_gaps_are_left_out() -> None:
    svg = chart([Curve("a<b", [0, 1, 2, 3], [0.0, float("nan"), 1.0, 2.0])], title="t")
    line = re.search(r'<polyline[^>]*points="([^"]+)"', svg)
    assert line is not None
    heights = [float(pair.split(",")[1]) for pair in line[1].split()]
    assert len(heights) == 3
    assert heights == sorted(heights, reverse=True)
    assert "a&lt;b" in svg
    assert chart([Curve("none", [0, 1], [float("nan")] * 2)], title="t") == ""


def test_smoothing_keeps_a_straight_line_straight_and_halves_noise() -> None:
    steps = list(range(100))
    flat = smoothed(Curve("flat", steps, [3.0] * 100))
    assert np.allclose(flat.y, 3.0)
    noise = np.random.default_rng(0).normal(size=100)
    assert np.std(smoothed(Curve("n", steps, noise.tolist())).y[5:]) < 0.6 * noise.std()


def test_rows_with_different_figures_become_columns_of_one_length() -> None:
    columns = columns_of([{"step": 1.0, "a": 2.0}, {"step": 2.0, "b": 3.0}])
    assert {len(values) for values in columns.values()} == {2}
    assert columns["a"][0] == 2.0
    assert np.isnan(columns["a"][1])
