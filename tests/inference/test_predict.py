"""Prediction: on the scan's own grid, broken scans left out, finished ones not made again."""

from __future__ import annotations

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch

from scan_files import write_series
from training import tiny
from twoslice.errors import InputError, OutputError, PartialError, ScanError, SettingsError
from twoslice.inference.predict import predict
from twoslice.inference.volume import Predictor, _sliding, keep_largest, predict_volume
from twoslice.io.grid import Grid
from twoslice.io.scans import read_scan, write_image
from twoslice.training.loop import train
from twoslice.training.run import Run

OBLIQUE = np.array(
    [[0.0, -1.2, 0.1, 5.0], [0.9, 0.0, 0.0, -7.0], [0.0, 0.1, 2.0, 3.0], [0, 0, 0, 1]]
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("predict")
    dataset = tiny.make_dataset(folder / "data")
    return train(dataset, folder / "run", tiny.settings(iterations=2))


def scan_at(path: Path, affine: np.ndarray = OBLIQUE, seed: int = 9) -> Path:
    image, _ = tiny.scan(seed)
    write_image(path, image, Grid(tiny.SHAPE, np.eye(4)))
    nib.save(nib.Nifti1Image(image, affine), path)
    return path


def test_a_prediction_lies_on_exactly_the_scans_grid(run: Run, tmp_path: Path) -> None:
    scan = scan_at(tmp_path / "scans" / "odd name.nii.gz")
    summary = predict(run.folder, [scan], tmp_path / "out", probabilities=True, uncertainty=True)
    assert summary.predicted == ("odd name",)
    before = nib.load(scan)
    names = [
        "odd name.nii.gz",
        *(f"probabilities/odd name_{index:04d}.nii.gz" for index in range(3)),
        *(f"uncertainty/odd name_{kind}.nii.gz" for kind in ("entropy", "disagreement")),
    ]
    for name in names:
        after = nib.load(tmp_path / "out" / name)
        assert after.shape == before.shape
        np.testing.assert_allclose(after.affine, before.affine, atol=1e-6)
    labels = np.asarray(nib.load(tmp_path / "out" / names[0]).dataobj)
    maps = np.stack([np.asarray(nib.load(tmp_path / "out" / n).dataobj) for n in names[1:4]])
    np.testing.assert_array_equal(labels, maps.argmax(axis=0))
    np.testing.assert_allclose(maps.sum(axis=0), 1.0, atol=1e-4)


def test_a_turned_file_gets_the_same_labels_turned(run: Run, tmp_path: Path) -> None:
    """The same scan stored in another axis order: the same voxels get the same labels."""
    image, _ = tiny.scan(4)
    affine = np.diag([1.0, 1.0, 1.5, 1.0])
    plain = nib.Nifti1Image(image, affine)
    turned = plain.as_reoriented(
        nib.orientations.ornt_transform(
            nib.orientations.io_orientation(affine), nib.orientations.axcodes2ornt("PSL")
        )
    )
    nib.save(plain, tmp_path / "plain.nii.gz")
    nib.save(turned, tmp_path / "turned.nii.gz")
    one, _ = predict_volume(run, read_scan(tmp_path / "plain.nii.gz"))
    two, _ = predict_volume(run, read_scan(tmp_path / "turned.nii.gz"))
    np.testing.assert_array_equal(one, two)


def test_a_broken_scan_is_named_and_the_rest_is_done(run: Run, tmp_path: Path) -> None:
    scan_at(tmp_path / "in" / "good.nii.gz")
    (tmp_path / "in" / "broken.nii.gz").write_bytes(b"not a scan")
    with pytest.raises(PartialError, match=r"1 of 2 scan.*broken.*other 1"):
        predict(run.folder, [tmp_path / "in"], tmp_path / "out")
    assert (tmp_path / "out" / "good.nii.gz").is_file()
    assert not (tmp_path / "out" / "broken.nii.gz").exists()


def test_finished_scans_are_not_made_again(run: Run, tmp_path: Path) -> None:
    scan_at(tmp_path / "in" / "one.nii.gz")
    predict(run.folder, [tmp_path / "in"], tmp_path / "out")
    stamp = (tmp_path / "out" / "one.nii.gz").stat().st_mtime_ns
    scan_at(tmp_path / "in" / "two.nii.gz", seed=3)
    summary = predict(run.folder, [tmp_path / "in"], tmp_path / "out")
    assert (summary.predicted, summary.already) == (("two",), ("one",))
    assert (tmp_path / "out" / "one.nii.gz").stat().st_mtime_ns == stamp
    more = predict(run.folder, [tmp_path / "in"], tmp_path / "out", uncertainty=True)
    assert more.predicted == ("one", "two")


def test_files_that_are_not_this_runs_are_left_alone(run: Run, tmp_path: Path) -> None:
    scan = scan_at(tmp_path / "one.nii.gz")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "one.nii.gz").write_bytes(b"somebody's work")
    with pytest.raises(OutputError, match="did not make"):
        predict(run.folder, [scan], tmp_path / "out")
    assert (tmp_path / "out" / "one.nii.gz").read_bytes() == b"somebody's work"


def test_results_among_the_scans_are_not_segmented(run: Run, tmp_path: Path) -> None:
    """Numbered probability maps look like channels, which must not change what cases are."""
    folder = tmp_path / "in"
    scan_at(folder / "one_0000.nii.gz")
    scan_at(folder / "deep" / "two_0000.nii.gz", seed=3)
    first = predict(run.folder, [folder], folder / "out", probabilities=True, uncertainty=True)
    assert first.predicted == ("deep_two", "one")
    again = predict(run.folder, [folder], folder / "out", probabilities=True, uncertainty=True)
    assert (again.predicted, again.already) == ((), ("deep_two", "one"))
    other = predict(run.folder, [folder], folder / "other")
    assert other.predicted == ("deep_two", "one")
    with pytest.raises(ScanError, match=r"other: no scans in it.*folder of predictions is no scan"):
        predict(run.folder, [folder / "other"], tmp_path / "out")


def test_a_wrong_number_of_channels_names_the_scan_and_what_to_do(run: Run, tmp_path: Path) -> None:
    for channel in range(2):
        scan_at(tmp_path / "in" / f"one_{channel:04d}.nii.gz")
    with pytest.raises(PartialError, match=r"one_0001.nii.gz: 2 channel.*on 1 \(MR\).*single file"):
        predict(run.folder, [tmp_path / "in"], tmp_path / "out")


def test_one_of_several_dicom_series_can_be_named(run: Run, tmp_path: Path) -> None:
    image = np.rint(tiny.scan(2)[0]).astype(np.int16)
    for number, text in ((3, "T1"), (4, "T2")):
        write_series(tmp_path / "both", image, number=number, description=text)
    with pytest.raises(PartialError, match="--series"):
        predict(run.folder, [tmp_path / "both"], tmp_path / "none")
    made = predict(run.folder, [tmp_path / "both"], tmp_path / "out", series="T2")
    assert made.predicted == ("both",)
    with pytest.raises(OutputError, match="with --series T1 did not make"):
        predict(run.folder, [tmp_path / "both"], tmp_path / "out", series="T1")
    with pytest.raises(SettingsError, match="--series is for DICOM"):
        predict(run.folder, [scan_at(tmp_path / "one.nii.gz")], tmp_path / "no", series="T1")


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run folder"):
        predict(tmp_path, [tmp_path], tmp_path / "out")


def test_windows_put_together_equal_one_pass_where_voxels_do_not_see_each_other() -> None:
    """A pointwise network gives the same value in every window: any seam would show."""

    def members(x: torch.Tensor) -> torch.Tensor:
        p = torch.sigmoid(x)
        return torch.stack([torch.cat([p, 1 - p], 1), torch.cat([1 - p, p], 1)])

    image = torch.randn(1, 1, 21, 13, 17)
    torch.testing.assert_close(_sliding(members, image, (8, 8, 8)), members(image))


def test_a_scan_larger_than_a_patch_is_predicted_in_windows(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = Predictor(run)
    seen: list[tuple[int, ...]] = []
    whole = predictor.method.member_probabilities

    def watch(x: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(x.shape[2:]))
        return whole(x)

    monkeypatch.setattr(predictor.method, "member_probabilities", watch)
    predictor._pass(torch.zeros(1, 1, 40, 30, 20))
    assert set(seen) == {run.plan.patch}
    seen.clear()
    out = predictor._pass(torch.zeros(1, 1, 10, 12, 9))
    assert seen == [(18, 12, 9)]
    assert out.shape == (2, 1, 3, 10, 12, 9)


def test_the_largest_piece_of_each_class_is_kept() -> None:
    labels = np.zeros((9, 9, 9), np.uint8)
    labels[:3, :3, :3], labels[6:8, 6, 6] = 1, 1
    labels[0, 8, 8], labels[4:6, 0:2, 0:2] = 2, 2
    kept = keep_largest(labels, classes=3)
    assert (kept == 1).sum() == 27
    assert (kept == 2).sum() == 8
    assert kept[0, 8, 8] == kept[6, 6, 6] == 0
