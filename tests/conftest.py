"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real scans, or a skip that says where it was sought."""
    folder = Path(os.environ.get("TWOSLICE_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real scans in {folder}: set TWOSLICE_DATA to run this test")
    return folder
