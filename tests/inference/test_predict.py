"""Prediction: on the scan's own grid, broken scans left out, finished ones not made again."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nibabel as nib
import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial.transform import Rotation

from scan_files import write_series
from training import tiny
from twoslice.engines.choose import EngineOptions
from twoslice.errors import InputError, OutputError, PartialError, ScanError, SettingsError
from twoslice.inference.predict import predict
from twoslice.inference.volume import (
    Piece,
    Predictor,
    VolumePrediction,
    keep_largest,
    predict_volume,
)
from twoslice.io.description import read_description
from twoslice.io.grid import Grid
from twoslice.io.scans import read_scan, write_image
from twoslice.io.volume import Volume
from twoslice.networks.windows import Window
from twoslice.settings import InferenceSettings
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


@pytest.mark.parametrize("workers", [1, 2])
def test_a_scan_that_cannot_be_scaled_is_named_wherever_it_is_predicted(
    run: Run, tmp_path: Path, workers: int
) -> None:
    huge = np.linspace(-3e38, 3e38, int(np.prod(tiny.SHAPE)), dtype=np.float32)
    write_image(tmp_path / "huge.nii.gz", huge.reshape(tiny.SHAPE), Grid(tiny.SHAPE, np.eye(4)))
    scans = [tmp_path / "huge.nii.gz", scan_at(tmp_path / "sound.nii.gz")]
    options = EngineOptions(workers=workers)
    with pytest.raises(PartialError, match=r"huge\.nii\.gz: intensities .* too large"):
        predict(run.folder, scans, tmp_path / "out", engine=options)
    assert (tmp_path / "out" / "sound.nii.gz").is_file()
    assert not (tmp_path / "out" / "huge.nii.gz").exists()


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
    fault = r"one_0001.nii.gz: 2 channel.*on 1 \(MR\).*single file"
    with pytest.raises(ScanError, match=fault):
        predict(run.folder, [tmp_path / "in"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    scan_at(tmp_path / "in" / "two_0000.nii.gz")
    with pytest.raises(PartialError, match=rf"1 of 2 scan.*{fault}"):
        predict(run.folder, [tmp_path / "in"], tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").glob("*.nii.gz")) == ["two.nii.gz"]


def test_one_of_several_dicom_series_can_be_named(run: Run, tmp_path: Path) -> None:
    image = np.rint(tiny.scan(2)[0]).astype(np.int16)
    for number, text in ((3, "T1"), (4, "T2")):
        write_series(tmp_path / "both", image, number=number, description=text)
    with pytest.raises(PartialError, match="--series"):
        predict(run.folder, [tmp_path / "both"], tmp_path / "none")
    made = predict(run.folder, [tmp_path / "both"], tmp_path / "out", series="T2")
    assert made.predicted == ("both",)
    with pytest.raises(OutputError, match=r"other --series \(\"T2\"\)"):
        predict(run.folder, [tmp_path / "both"], tmp_path / "out", series="T1")
    with pytest.raises(SettingsError, match="--series is for DICOM"):
        predict(run.folder, [scan_at(tmp_path / "one.nii.gz")], tmp_path / "no", series="T1")


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run folder"):
        predict(tmp_path, [tmp_path], tmp_path / "out")


def test_the_largest_piece_of_each_class_is_kept() -> None:
    labels = np.zeros((9, 9, 9), np.uint8)
    labels[:3, :3, :3], labels[6:8, 6, 6] = 1, 1
    labels[0, 8, 8], labels[4:6, 0:2, 0:2] = 2, 2
    kept = keep_largest(labels, (1, 2))
    assert (kept == 1).sum() == 27
    assert (kept == 2).sum() == 8
    assert kept[0, 8, 8] == kept[6, 6, 6] == 0


def test_the_largest_piece_of_a_random_map_is_what_scipy_counts() -> None:
    labels = np.random.default_rng(0).integers(0, 4, (14, 13, 12)).astype(np.uint8)
    kept = keep_largest(labels, (1, 2, 3))
    for value in range(1, 4):
        pieces, count = ndimage.label(labels == value)
        largest = max((pieces == number).sum() for number in range(1, count + 1))
        assert (kept == value).sum() == largest
        assert ndimage.label(kept == value)[1] == 1


def test_other_labels_than_those_named_stay_as_they_are() -> None:
    labels = np.random.default_rng(1).integers(0, 4, (9, 8, 7)).astype(np.uint8)
    kept = keep_largest(labels, (2,))
    assert ((kept == labels) | ((labels == 2) & (kept == 0))).all()
    assert ndimage.label(kept == 2)[1] == 1
    assert (keep_largest(labels, ()) == labels).all()


def test_a_run_says_which_labels_are_one_piece_and_whoever_predicts_may_say_otherwise(
    tmp_path: Path,
) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    plus = train(dataset, tmp_path / "plus", tiny.settings("plus", iterations=1))
    assert plus.data.single == (1, 2)
    assert Run.open(plus.folder).data == plus.data
    told = {None: (1, 2), True: (1, 2), False: ()}
    for asked, thinned in told.items():
        options = InferenceSettings(largest_component=asked)
        assert Predictor(plus, options=options).thinned == thinned
    other = train(dataset, tmp_path / "desco", tiny.settings(iterations=1))
    assert Predictor(other).thinned == ()
    ragged = np.random.default_rng(2).integers(0, 3, tiny.SHAPE).astype(np.uint8)
    assert ndimage.label(Predictor(plus).finish(ragged) == 1)[1] == 1


def both_ways(run: Run, **options: Any) -> VolumePrediction:
    image, _ = tiny.scan(5)
    volume = Volume(image[None], Grid(tiny.SHAPE, np.diag([1.0, 1.0, 1.5, 1.0])))
    return Predictor(run, options=InferenceSettings(**options))(volume)


def test_both_networks_are_averaged_and_one_can_be_chosen(run: Run) -> None:
    both, first, second = (both_ways(run, network=which) for which in ("both", 1, 2))
    assert np.abs(first.probabilities - second.probabilities).max() > 1e-3
    mean = (first.probabilities + second.probabilities) / 2
    np.testing.assert_allclose(both.probabilities, mean, atol=1e-5)


def test_disagreement_is_what_the_mean_knows_less_than_its_members(run: Run) -> None:
    """Jensen-Shannon in closed form; one network alone never disagrees."""
    both, first, second = (both_ways(run, network=which) for which in ("both", 1, 2))

    def entropy(p: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(-(p * np.log(p)).sum(axis=0) / np.log(3))

    np.testing.assert_allclose(both.entropy, entropy(both.probabilities), atol=1e-4)
    own = (entropy(first.probabilities) + entropy(second.probabilities)) / 2
    np.testing.assert_allclose(both.disagreement, both.entropy - own, atol=1e-4)
    assert first.disagreement.max() < 1e-5


def test_flips_make_a_mirrored_scan_get_mirrored_labels(run: Run) -> None:
    """Averaged over all mirrorings, a network treats left and right alike."""
    image, _ = tiny.scan(6)
    predictor = Predictor(run, options=InferenceSettings(flips=True, window="whole"))
    grid = Grid((16, 16, 8), np.diag([1.0, 1.0, 1.5, 1.0]))
    cut = np.ascontiguousarray(image[:16, :16, :8])
    predictor.window = Window((16, 16, 8), (16, 16, 8))
    one = predictor(Volume(cut[None], grid)).probabilities
    two = predictor(Volume(np.ascontiguousarray(cut[None, ::-1]), grid)).probabilities
    np.testing.assert_allclose(one, two[:, ::-1], atol=1e-5)


def test_a_third_network_is_refused_where_there_is_one(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    one = train(dataset, tmp_path / "run", tiny.settings("supervised", iterations=1))
    with pytest.raises(SettingsError, match=r"--network 2: this run has 1 network"):
        Predictor(one, options=InferenceSettings(network=2))


def test_the_labels_names_travel_with_the_result(run: Run, tmp_path: Path) -> None:
    scan = scan_at(tmp_path / "one.nii.gz")
    predict(run.folder, [scan], tmp_path / "out")
    made = nib.load(tmp_path / "out" / "one.nii.gz")
    (note,) = made.header.extensions
    table = ElementTree.fromstring(note.content.rstrip(b"\0"))
    assert note.get_code() == 30
    found = {int(label.attrib["Key"]): label.text for label in table.iter("Label")}
    assert found == {0: "background", 1: "ball", 2: "pebble"}
    assert read_description(tmp_path / "out").labels == tiny.LABELS
    assert '"pebble"' in (tmp_path / "out" / "labels.txt").read_text()
    assert "2 pebble " in (tmp_path / "out" / "labels.ctbl").read_text()


def test_nibabel_and_itk_place_the_label_on_an_oblique_lps_scan(run: Run, tmp_path: Path) -> None:
    turn = Rotation.from_euler("xyz", [12, -8, 21], degrees=True).as_matrix()
    affine = np.eye(4)
    affine[:3, :3] = turn @ np.diag([-0.8, -0.9, 1.7])  # L, P, S, and oblique
    affine[:3, 3] = [31.0, -17.0, 54.0]
    scan = scan_at(tmp_path / "oblique.nii.gz", affine)
    assert nib.aff2axcodes(nib.load(scan).affine) == ("L", "P", "S")
    predict(run.folder, [scan], tmp_path / "out", probabilities=True)
    for name in ("oblique.nii.gz", "probabilities/oblique_0001.nii.gz"):
        assert_on(tmp_path / "out" / name, scan)


@pytest.mark.data
def test_nibabel_and_itk_place_the_label_on_a_real_ct(
    run: Run, tmp_path: Path, real_data: Path
) -> None:
    scan = sorted((real_data / "BTCV_ct" / "imagesTr").glob("*.nii.gz"))[0]
    assert nib.aff2axcodes(nib.load(scan).affine) == ("L", "P", "S")
    options = InferenceSettings(window="whole")  # in the tiny run's own windows it would take long
    summary = predict(run.folder, [scan], tmp_path / "out", options=options)
    assert_on(tmp_path / "out" / f"{summary.predicted[0]}.nii.gz", scan)


def assert_on(result: Path, scan: Path) -> None:
    """Both libraries put every voxel of the result where they put the scan's."""
    ours, theirs = nib.load(result), nib.load(scan)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours.affine, theirs.affine, atol=1e-6)
    one, two = sitk.ReadImage(str(result)), sitk.ReadImage(str(scan))
    assert one.GetSize() == two.GetSize()
    for corner in product(*[(0, side - 1) for side in one.GetSize()]):
        np.testing.assert_allclose(
            one.TransformIndexToPhysicalPoint(corner),
            two.TransformIndexToPhysicalPoint(corner),
            atol=1e-6,
        )
        lps = np.array(one.TransformIndexToPhysicalPoint(corner))
        np.testing.assert_allclose(lps * [-1, -1, 1], (ours.affine @ [*corner, 1])[:3], atol=1e-3)


def test_what_counts_as_finished(run: Run, tmp_path: Path) -> None:
    """The same run and options, the scan as it was, the result whole."""
    scan, out = scan_at(tmp_path / "in" / "one.nii.gz"), tmp_path / "out"

    def again(**more: Any) -> tuple[str, ...]:
        return predict(run.folder, [tmp_path / "in"], out, **more).predicted

    assert again() == ("one",)
    assert again() == ()
    (out / "one.nii.gz").write_bytes((out / "one.nii.gz").read_bytes()[:100])
    assert again() == ("one",)
    scan_at(scan, seed=11)
    assert again() == ("one",)
    assert again(overwrite=True) == ("one",)
    with pytest.raises(OutputError, match="other options"):
        again(options=InferenceSettings(flips=True))
    assert again(options=InferenceSettings(flips=True), overwrite=True) == ("one",)


def test_label_maps_of_a_run_that_was_trained_anew_are_not_taken_as_its_own(tmp_path: Path) -> None:
    dataset = tiny.make_dataset(tmp_path / "data")
    scan, out, folder = scan_at(tmp_path / "one.nii.gz"), tmp_path / "out", tmp_path / "run"
    train(dataset, folder, tiny.settings("supervised", iterations=1))
    predict(folder, [scan], out)
    shutil.rmtree(folder)
    train(dataset, folder, tiny.settings("supervised", iterations=1, seed=1))
    with pytest.raises(OutputError, match="trained anew"):
        predict(folder, [scan], out)
    assert predict(folder, [scan], out, overwrite=True).predicted == ("one",)
    assert predict(folder, [scan], out).already == ("one",)


def test_overwrite_spares_what_no_prediction_made(run: Run, tmp_path: Path) -> None:
    scan = scan_at(tmp_path / "one.nii.gz")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "one.nii.gz").write_bytes(b"somebody's work")
    with pytest.raises(OutputError, match="did not make"):
        predict(run.folder, [scan], tmp_path / "out", overwrite=True)


def test_a_prediction_that_was_stopped_goes_on(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        scan_at(tmp_path / "in" / f"{name}.nii.gz")
    seen: list[str] = []
    pieces = Predictor.pieces_of

    def stop(self: Predictor, *scan: Any, **more: Any) -> Iterator[Piece]:
        seen.append(more["name"])
        if len(seen) == 3:
            raise KeyboardInterrupt
        return pieces(self, *scan, **more)

    monkeypatch.setattr(Predictor, "pieces_of", stop)
    with pytest.raises(KeyboardInterrupt):
        predict(run.folder, [tmp_path / "in"], tmp_path / "out", probabilities=True)
    monkeypatch.undo()
    left = predict(run.folder, [tmp_path / "in"], tmp_path / "out", probabilities=True)
    assert "c" in left.predicted
    assert "a" in left.already
    assert not list((tmp_path / "out").glob(".writing-*"))


def test_too_little_memory_for_one_scan_spares_the_others(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        scan_at(tmp_path / "in" / f"{name}.nii.gz")
    pieces = Predictor.pieces_of

    def fail(self: Predictor, *scan: Any, **more: Any) -> Iterator[Piece]:
        if more["name"].endswith("a.nii.gz"):
            raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate")
        return pieces(self, *scan, **more)

    monkeypatch.setattr(Predictor, "pieces_of", fail)
    with pytest.raises(PartialError, match=r"1 of 2 scan.*a\.nii\.gz: there is not enough memory"):
        predict(run.folder, [tmp_path / "in"], tmp_path / "out")
    assert (tmp_path / "out" / "b.nii.gz").is_file()


def test_the_next_scan_is_read_while_one_is_predicted(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second scan's reader waits for the first one's prediction to have begun, and the first
    one's prediction waits for that reader: without overlap neither would ever end.
    """
    from twoslice.inference import scan as module

    for name in ("a", "b"):
        scan_at(tmp_path / "in" / f"{name}.nii.gz")
    begun, read = threading.Event(), threading.Event()
    reading, pieces = module.read_channels, Predictor.pieces_of

    def read_second(paths: tuple[Path, ...], **more: Any) -> Volume:
        if paths[0].name.startswith("b"):
            assert begun.wait(20)
            read.set()
        return reading(paths, **more)

    def predict_first(self: Predictor, *scan: Any, **more: Any) -> Iterator[Piece]:
        begun.set()
        assert read.wait(20)
        return pieces(self, *scan, **more)

    monkeypatch.setattr(module, "read_channels", read_second)
    monkeypatch.setattr(Predictor, "pieces_of", predict_first)
    made = predict(run.folder, [tmp_path / "in"], tmp_path / "out")
    assert made.predicted == ("a", "b")
