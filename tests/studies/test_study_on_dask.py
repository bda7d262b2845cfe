"""The same study on a Dask cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.loopback import loopback
from studies.worlds import make_dense, write_study
from twoslice.engines.choose import EngineOptions
from twoslice.engines.here import Here
from twoslice.studies.study import run_study


@pytest.mark.slow
def test_a_study_on_a_cluster_has_the_same_table(tmp_path: Path) -> None:
    make_dense(tmp_path)
    rows = [{"name": "s", "method": "supervised", "set": {"training.setting": "sparse"}}]
    file = write_study(tmp_path, rows=rows)
    run_study(file, tmp_path / "here", engine=Here())
    with loopback(tmp_path / "dask", workers=2) as running:
        there = EngineOptions(scheduler=running.address)
        run_study(file, tmp_path / "there", engine=there)
    for name in ("table.md", "table.csv", "table.tex"):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
