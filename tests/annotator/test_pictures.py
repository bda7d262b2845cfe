"""What is sent to the page: exact values where they are whole, and no more than the page needs."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from annotator.made import GRIDS, write_dataset
from twoslice.annotation.types import AnnotatedSlice, SparseAnnotation
from twoslice.annotator import colours, exchange
from twoslice.annotator.app import page_files
from twoslice.annotator.pictures import Channel, Pictures
from twoslice.annotator.preview import make_preview
from twoslice.io.dataset import Dataset
from twoslice.planes import Plane

volumes = arrays(
    np.float32,
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
    elements=st.floats(-3e4, 3e4, width=32),
)


@given(volumes)
def test_values_come_back_from_codes_to_within_half_a_step(data: np.ndarray) -> None:
    channel = Channel.of(data, name="MRI")
    back = channel.offset + channel.step * channel.codes.astype(float)
    assert np.abs(back - data).max() <= 0.51 * channel.step + 1e-3
    assert channel.window[0] < channel.window[1]


@given(volumes.map(np.rint))
def test_whole_numbers_are_kept_exactly(data: np.ndarray) -> None:
    channel = Channel.of(data, name="CT")
    assert np.array_equal(channel.offset + channel.step * channel.codes.astype(float), data)


@pytest.mark.parametrize("grid", GRIDS)
def test_a_slice_holds_the_scans_values_as_nibabel_reads_them(tmp_path: Path, grid: str) -> None:
    root = write_dataset(tmp_path / "data", cases=1, affine=GRIDS[grid])
    scan = np.asarray(
        nib.as_closest_canonical(nib.load(root / "imagesTr" / "case_0_0000.nii.gz")).dataobj
    )
    pictures = Pictures(Dataset.open(root))
    channel = pictures.get("case_0").channels[0]
    for axis, plane in enumerate(Plane):
        packed = pictures.slice_bytes("case_0", 0, plane, 3)
        codes = np.frombuffer(gzip.decompress(packed), channel.codes.dtype)
        shown = np.moveaxis(scan, axis, 0)[3].T[::-1, ::-1]
        assert np.array_equal(codes.reshape(shown.shape) + channel.offset, shown)


def test_the_page_asks_nothing_of_other_hosts_and_has_no_inline_code() -> None:
    files = {name: content.decode() for name, content in page_files().items()}
    assert {"index.html", "app.js", "style.css"} <= files.keys()
    for name, text in files.items():
        addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text))
        assert addresses <= {"http://www.w3.org"}, name  # the name of SVG, not an address
        assert len(text.splitlines()) <= 300, name
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", files["index.html"])


def test_page_and_exported_labels_have_the_same_colours() -> None:
    text = page_files()["palette.js"].decode()
    listed = re.findall(r"\[(\d+), (\d+), (\d+)\]", text)
    assert [tuple(map(int, colour)) for colour in listed] == list(colours.COLOURS)
    assert exchange.colour_of(13) == colours.COLOURS[0]


def test_a_large_scan_is_previewed_coarser_and_shown_on_its_own_grid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twoslice.annotator.preview.MOST_VOXELS", 9000)
    root = write_dataset(tmp_path / "data", cases=1)
    picture = Pictures(Dataset.open(root)).get("case_0")
    i, j, k = picture.shape
    reach = np.hypot(*(np.indices((i, j)) - np.array([i / 2, j / 2]).reshape(2, 1, 1)))
    axial = AnnotatedSlice(Plane.AXIAL, k // 2, (reach < 9).astype(np.uint8))
    annotation = SparseAnnotation(picture.shape, (axial,))
    preview = make_preview(picture, annotation, classes=3, version="v")
    assert max(preview.steps) == 2
    mask = preview.slice_mask(Plane.AXIAL, k // 2)
    assert mask.shape == (i, j)
    both = (mask == 1) & (axial.mask == 1)
    assert 2 * both.sum() / ((mask == 1).sum() + axial.mask.sum()) > 0.85
    for plane in Plane:
        last = picture.shape[plane.axis] - 1
        assert preview.slice_mask(plane, last).shape == plane.take(np.empty(picture.shape), 0).shape
