"""The demo from end to end in a tiny size: what it makes, and that it goes on where it was."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from twoslice.demo import pipeline
from twoslice.demo.pipeline import DESCO, DRAWN, PROPAGATED, Scale, run_demo
from twoslice.errors import OutputError

TINY = Scale(
    training=3, test=1, labeled=2, shape=(32, 32, 16), desco_iterations=3, drawn_iterations=2
)


def stamps(folder: Path, pattern: str) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob(pattern))}


@pytest.mark.slow
def test_a_stopped_demo_goes_on_and_a_finished_one_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "predict", stop)
        with pytest.raises(KeyboardInterrupt):
            run_demo(tmp_path / "demo", seed=5, scale=TINY)
    trained = stamps(tmp_path / "demo" / "run", "*.safetensors")
    assert trained
    result = run_demo(tmp_path / "demo", seed=5, scale=TINY)
    assert stamps(tmp_path / "demo" / "run", "*.safetensors") == trained

    assert set(result.scores) == {DESCO, DRAWN, PROPAGATED}
    assert [row["case"] for row in result.scores[DESCO].cases] == ["test_00"] * 2
    assert {row["case"] for row in result.scores[PROPAGATED].cases} == {"scan_00", "scan_01"}
    assert "Side by side" in result.page.read_text(encoding="utf-8")
    last = result.in_words()
    for said in (DESCO, DRAWN, PROPAGATED, str(result.page), "twoslice import"):
        assert said in last

    label = nib.load(tmp_path / "demo" / "predictions" / "test_00.nii.gz")
    image = nib.load(tmp_path / "demo" / "phantoms" / "imagesTs" / "test_00_0000.nii.gz")
    assert label.shape == image.shape
    assert np.allclose(label.affine, image.affine)

    predicted = stamps(tmp_path / "demo", "predictions*/*.nii.gz")
    again = run_demo(tmp_path / "demo", seed=5, scale=TINY)
    assert stamps(tmp_path / "demo", "predictions*/*.nii.gz") == predicted
    assert again.scores == result.scores

    with pytest.raises(OutputError, match="another seed"):
        run_demo(tmp_path / "demo", seed=6, scale=TINY)


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(OutputError, match="not empty"):
        run_demo(tmp_path, scale=TINY)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
