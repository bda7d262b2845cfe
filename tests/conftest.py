"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# A busy machine is no fault of the code: no example is failed for its time alone.
settings.register_profile("twoslice", deadline=None)
settings.load_profile("twoslice")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real scans, or a skip that says where it was sought."""
    folder = Path(os.environ.get("TWOSLICE_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real scans in {folder}: set TWOSLICE_DATA to run this test")
    return folder
