"""What `simulate` writes: a few slices, nothing else of the labels, and the images untouched."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import SimpleITK
from hypothesis import HealthCheck, given, settings
from numpy.typing import NDArray

from annotation.strategies import affines, equal, layout, two_balls, write_dense
from twoslice.annotation.choice import CHOICES, SCHEMES, Choice, Scheme, parse_slice
from twoslice.annotation.reading import annotation_at, read_annotation
from twoslice.annotation.simulate import simulate
from twoslice.errors import AnnotationError, OutputError, SettingsError
from twoslice.io.dataset import Dataset
from twoslice.planes import Plane

LABELS: dict[str, NDArray[np.uint8] | None] = {
    "a": two_balls(),
    "b": two_balls()[::-1],
    "c": two_balls()[:, ::-1],
}


@pytest.fixture
def dense(tmp_path: Path) -> Dataset:
    return Dataset.open(write_dense(tmp_path / "dense", LABELS))


def stored(path: Path) -> NDArray[np.uint8]:
    return np.asarray(nib.load(path).dataobj).astype(np.uint8)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_but_the_chosen_slices_is_left_of_the_labels(
    dense: Dataset, tmp_path: Path, choice: Choice, scheme: Scheme
) -> None:
    sparse = simulate(dense, tmp_path / "out", labeled=2, choice=choice, scheme=scheme, seed=7)
    assert sparse.labeled == ("a", "b")
    assert sparse.ignore == 3
    chosen = json.loads((tmp_path / "out" / "simulate.json").read_text())["cases"]
    for case in sparse.labeled:
        annotation = read_annotation(sparse, case)
        slots = [(Plane(s["plane"]), s["index"]) for s in chosen[case]["slices"]]
        assert sorted(layout(annotation)) == sorted(slots)
        assert equal(annotation, annotation_at(dense.read_labels(case).data, slots))
        kept = stored(tmp_path / "out" / "labelsTr" / f"{case}.nii.gz")
        assert (kept != 3).sum() == annotation.drawn().sum()


def test_images_are_the_same_bytes_in_files_of_their_own(dense: Dataset, tmp_path: Path) -> None:
    sparse = simulate(dense, tmp_path / "out", labeled=1)
    for name, case in sparse.cases.items():
        (copy,), (source,) = case.images, dense.cases[name].images
        assert copy.read_bytes() == source.read_bytes()
        assert not copy.is_symlink()
        assert copy.stat().st_ino != source.stat().st_ino


def test_dense_labels_of_all_cases_are_kept_out_of_labels_tr(
    dense: Dataset, tmp_path: Path
) -> None:
    simulate(dense, tmp_path / "out", labeled=1)
    assert [path.name for path in (tmp_path / "out" / "labelsTr").iterdir()] == ["a.nii.gz"]
    for case, label in LABELS.items():
        assert np.array_equal(stored(tmp_path / "out" / "dense" / f"{case}.nii.gz"), label)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(affine=affines())
def test_labels_lie_on_the_grid_of_their_images_in_any_orientation(
    tmp_path_factory: pytest.TempPathFactory, affine: NDArray[np.float64]
) -> None:
    folder = tmp_path_factory.mktemp("oriented")
    dense = Dataset.open(write_dense(folder / "dense", {"a": two_balls()}, affine=affine))
    sparse = simulate(dense, folder / "out", labeled=1)
    for path in ("labelsTr/a.nii.gz", "dense/a.nii.gz"):
        written = nib.load(folder / "out" / path)
        assert written.shape == (20, 18, 16)
        np.testing.assert_allclose(written.affine, affine, atol=1e-5)
    drawn = read_annotation(sparse, "a")
    full = stored(folder / "out" / "dense" / "a.nii.gz")
    kept = stored(folder / "out" / "labelsTr" / "a.nii.gz")
    assert np.array_equal(kept[kept != 3], full[kept != 3])
    assert drawn.planes == (Plane.AXIAL, Plane.CORONAL)


def test_kept_labels_are_numbered_anew_and_others_become_background(
    dense: Dataset, tmp_path: Path
) -> None:
    sparse = simulate(dense, tmp_path / "out", labeled=1, labels=["right"])
    assert dict(sparse.labels) == {"background": 0, "right": 1}
    assert sparse.ignore == 2
    for case, label in LABELS.items():
        assert label is not None
        assert np.array_equal(stored(tmp_path / "out" / "dense" / f"{case}.nii.gz"), label == 2)
    assert set(np.unique(stored(tmp_path / "out" / "labelsTr" / "a.nii.gz"))) == {0, 1, 2}


def test_kept_labels_may_change_places(dense: Dataset, tmp_path: Path) -> None:
    sparse = simulate(dense, tmp_path / "out", labeled=1, labels=["right", "left"])
    assert dict(sparse.labels) == {"background": 0, "right": 1, "left": 2}
    swapped = np.array([0, 2, 1])[two_balls()]
    assert np.array_equal(stored(tmp_path / "out" / "dense" / "a.nii.gz"), swapped)


def test_an_ignore_label_of_the_source_stays_ignored(tmp_path: Path) -> None:
    labels = two_balls()
    labels[0, 0, 7] = 3
    root = write_dense(tmp_path / "dense", {"a": labels}, ignore=3)
    sparse = simulate(Dataset.open(root), tmp_path / "out", labeled=1, labels=["left"])
    assert sparse.ignore == 2
    assert stored(tmp_path / "out" / "dense" / "a.nii.gz")[0, 0, 7] == 2
    assert (Plane.AXIAL, 7) not in layout(read_annotation(sparse, "a"))


def test_only_the_named_cases_are_kept_and_the_first_of_them_labelled(
    dense: Dataset, tmp_path: Path
) -> None:
    sparse = simulate(dense, tmp_path / "out", labeled=1, cases=["c", "a"])
    assert set(sparse.cases) == {"a", "c"}
    assert sparse.labeled == ("c",)


def test_the_slices_of_a_case_do_not_depend_on_the_other_cases(
    dense: Dataset, tmp_path: Path
) -> None:
    one = simulate(dense, tmp_path / "one", labeled=1, choice="random", cases=["b"], seed=3)
    all_ = simulate(dense, tmp_path / "all", labeled=3, choice="random", seed=3)
    assert equal(read_annotation(one, "b"), read_annotation(all_, "b"))


def test_random_cases_differ_by_seed_and_repeat_with_it(tmp_path: Path) -> None:
    labels: dict[str, NDArray[np.uint8] | None] = {f"case {n}": two_balls() for n in range(8)}
    dense = Dataset.open(write_dense(tmp_path / "dense", labels))
    drawn = [
        simulate(dense, tmp_path / f"{n}", labeled=3, choose="random", seed=seed).labeled
        for n, seed in enumerate([0, 0, 1, 2, 3])
    ]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 2


def test_slices_are_chosen_so_that_a_rare_class_shows_somewhere(tmp_path: Path) -> None:
    rare = two_balls()
    rare[1, 1, 14] = 3
    names = ("background", "left", "right", "rare")
    root = write_dense(tmp_path / "dense", {"a": two_balls(), "b": rare}, names=names)
    sparse = simulate(Dataset.open(root), tmp_path / "out", labeled=2)
    drawn = [s.mask.ravel() for case in "ab" for s in read_annotation(sparse, case).slices]
    assert set(np.unique(np.concatenate(drawn))) == {0, 1, 2, 3}


def test_a_class_that_cannot_show_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    names = ("background", "left", "right", "rare")
    dense = Dataset.open(write_dense(tmp_path / "dense", {"a": two_balls()}, names=names))
    with pytest.raises(AnnotationError, match="rare would show on no slice of the 1 labelled"):
        simulate(dense, tmp_path / "out", labeled=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dense"]


def test_an_empty_dense_label_is_named(tmp_path: Path) -> None:
    labels: dict[str, NDArray[np.uint8] | None] = {
        "a": two_balls(),
        "b": np.zeros((20, 18, 16), np.uint8),
    }
    dense = Dataset.open(write_dense(tmp_path / "dense", labels))
    with pytest.raises(AnnotationError, match="case b: the dense label is empty"):
        simulate(dense, tmp_path / "out", labeled=2)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"labeled": 4}, r"4 labelled case\(s\) asked for, but 3 of 3"),
        ({"labeled": 0}, "Ask for 1 to 3"),
        ({"labeled": 1, "cases": ["a", "z"]}, "no case 'z'"),
        ({"labeled": 1, "cases": ["a", "a"]}, "named twice"),
        ({"labeled": 1, "labels": ["middle"]}, "'middle'.*left, right"),
        ({"labeled": 1, "labels": ["background"]}, "'background'"),
        ({"labeled": 1, "labels": ["left", "left"]}, "'left'"),
        ({"labeled": 1, "labels": []}, "no label"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_said_in_one_line(
    dense: Dataset, tmp_path: Path, wrong: dict[str, object], line: str
) -> None:
    with pytest.raises(SettingsError, match=line):
        simulate(dense, tmp_path / "out", **wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_a_case_without_a_dense_label_stays_unlabelled(tmp_path: Path) -> None:
    root = write_dense(tmp_path / "dense", {"a": None, "b": two_balls()})
    sparse = simulate(Dataset.open(root), tmp_path / "out", labeled=1)
    assert (sparse.labeled, sparse.unlabeled) == (("b",), ("a",))


@pytest.mark.parametrize("ending", [".nii", ".nrrd", ".mha"])
def test_a_dataset_in_another_format_keeps_it(tmp_path: Path, ending: str) -> None:
    root = tmp_path / "dense"
    write_dense(root, {"a": two_balls(), "b": two_balls()})
    for path in sorted(root.glob("*/*.nii.gz")):
        renamed = path.with_name(path.name.removesuffix(".nii.gz") + ending)
        SimpleITK.WriteImage(SimpleITK.ReadImage(str(path)), str(renamed))
        path.unlink()
    described = json.loads((root / "dataset.json").read_text())
    (root / "dataset.json").write_text(json.dumps(described | {"file_ending": ending}))
    dense = Dataset.open(root)
    sparse = simulate(dense, tmp_path / "out", labeled=1)
    assert sparse.file_ending == ending
    (image,) = sparse.cases["a"].images
    assert image.read_bytes() == dense.cases["a"].images[0].read_bytes()
    annotation = read_annotation(sparse, "a")
    assert equal(annotation, annotation_at(dense.read_labels("a").data, layout(annotation)))
    written = SimpleITK.ReadImage(str(tmp_path / "out" / "labelsTr" / f"a{ending}"))
    assert written.GetDirection() == SimpleITK.ReadImage(str(image)).GetDirection()
    assert np.array_equal(stored(tmp_path / "out" / "dense" / "b.nii.gz"), two_balls())


def test_a_dataset_of_two_files_an_image_becomes_nifti(tmp_path: Path) -> None:
    root = write_dense(tmp_path / "dense", {"a": two_balls(), "b": two_balls()})
    for path in sorted(root.glob("*/*.nii.gz")):
        renamed = path.with_name(path.name.removesuffix(".nii.gz") + ".mhd")
        SimpleITK.WriteImage(SimpleITK.ReadImage(str(path)), str(renamed))
        path.unlink()
    described = json.loads((root / "dataset.json").read_text())
    (root / "dataset.json").write_text(json.dumps(described | {"file_ending": ".mhd"}))
    dense = Dataset.open(root)
    sparse = simulate(dense, tmp_path / "out", labeled=1)
    assert (sparse.file_ending, sparse.labeled) == (".nii.gz", ("a",))
    for case in "ab":
        here, there = sparse.read_image(case), dense.read_image(case)
        assert here.grid.same_as(there.grid)
        assert np.array_equal(here.data, there.data)
        assert np.array_equal(stored(tmp_path / "out" / "dense" / f"{case}.nii.gz"), two_balls())
    annotation = read_annotation(sparse, "a")
    assert equal(annotation, annotation_at(dense.read_labels("a").data, layout(annotation)))


def test_labels_that_are_sparse_already_are_refused(dense: Dataset, tmp_path: Path) -> None:
    sparse = simulate(dense, tmp_path / "sparse", labeled=1)
    with pytest.raises(AnnotationError, match=r"a\.nii\.gz: is sparse already \(axial \d+ and cor"):
        simulate(sparse, tmp_path / "out", labeled=1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("inside", [".", "sparse", "labelsTr/sparse"])
def test_the_new_dataset_may_not_lie_in_the_old_one(dense: Dataset, inside: str) -> None:
    before = sorted(dense.root.rglob("*"))
    with pytest.raises(SettingsError, match="lies in the dataset that the slices are taken from"):
        simulate(dense, dense.root / inside, labeled=1)
    assert sorted(dense.root.rglob("*")) == before


def test_nothing_is_left_when_a_copy_fails_half_way(
    dense: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, target: Path) -> None:
        if "b_0000" in str(target):
            raise OSError(errno.ENOSPC, "No space left on device")
        target.write_bytes(Path(source).read_bytes())

    monkeypatch.setattr("shutil.copyfile", full)
    with pytest.raises(OutputError, match="disk is full"):
        simulate(dense, tmp_path / "out", labeled=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dense"]


def test_named_slices_are_kept_in_every_case(dense: Dataset, tmp_path: Path) -> None:
    named = [(Plane.AXIAL, 5), (Plane.CORONAL, 4)]
    sparse = simulate(dense, tmp_path / "out", labeled=3, slices=named)
    for case in sparse.labeled:
        assert sorted(layout(read_annotation(sparse, case))) == sorted(named)
    assert json.loads((tmp_path / "out" / "simulate.json").read_text())["scheme"] == "orthogonal"


def test_a_named_slice_outside_a_case_is_told(dense: Dataset, tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match=r"case a: has .* axial slices, so none of index 99"):
        simulate(dense, tmp_path / "out", labeled=1, slices=[(Plane.AXIAL, 99)])


@pytest.mark.parametrize("text", ["axial", "axial -1", "43", "oblique 4"])
def test_what_is_no_slice_is_told(text: str) -> None:
    with pytest.raises(SettingsError, match=r"is not a (slice|plane)"):
        parse_slice(text)
