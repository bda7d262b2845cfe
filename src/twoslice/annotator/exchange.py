"""Out to ITK-SNAP or 3D Slicer and back: the same slices, drawn in another editor.

    DIR/README.txt               where each slice lies, in the words of both editors
    DIR/labels.txt               names and colours for ITK-SNAP; labels.ctbl for 3D Slicer
    DIR/CASE/scan.nii.gz         the scan as it is, a file a channel
    DIR/CASE/CASE.nii.gz         what to draw on: `ignore` off the chosen slices, 0 on them
    DIR/exported.json            how the label files were, to know those that nobody touched

Off the chosen slices everything carries `ignore`, so an editor shows plainly where to draw, and a
slice on which nothing is to be seen comes back as such.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twoslice.annotation.cover import Slot
from twoslice.annotation.reading import annotation_from_labels
from twoslice.annotation.types import AnnotatedSlice, SparseAnnotation
from twoslice.annotator.colours import colour_of
from twoslice.annotator.desk import Desk
from twoslice.annotator.files import LabelFile
from twoslice.errors import AnnotationError, InputError
from twoslice.io import atomic
from twoslice.io.dataset import Dataset
from twoslice.io.description import add_ignore
from twoslice.io.find import stem_of
from twoslice.io.grid import Grid
from twoslice.io.layout import list_folder
from twoslice.io.scans import ending_of, read_label_map, write_labels
from twoslice.planes import Plane
from twoslice.progress import Progress, Silent

EXPORTED = "exported.json"


def export_cases(
    desk: Desk, out: Path, cases: Sequence[str] | None = None, progress: Progress | None = None
) -> list[str]:
    """Write every case that is not finished (or `cases`) to be drawn in another editor."""
    wanted = _wanted(desk, cases)
    ignore = desk.dataset.ignore
    if ignore is None:
        ignore = add_ignore(desk.dataset.root)
    told, digests = [_HEAD], {}
    with atomic.whole_folder(out) as folder:
        with (progress or Silent()).task("export", len(wanted)) as task:
            for case in wanted:
                slots, digests[case] = _export_case(desk, case, folder / case, ignore)
                told.append(_where(case, slots, desk.dataset.read_grid(case)))
                task.advance(note=case)
        _write_colours(desk.dataset, ignore, folder)
        atomic.write_text(folder / "README.txt", "\n".join(told))
        atomic.write_json(folder / EXPORTED, digests)
    return wanted


def import_cases(dataset: Dataset, source: Path) -> list[str]:
    """Bring back what was drawn: all files are read and found sound before one is written."""
    if not source.is_dir():
        raise InputError(f"{source}: there is no such folder. Check the path.")
    found = _drawn_files(dataset, source)
    if not found:
        raise InputError(
            f"{source}: holds no label file that is named as a case of {dataset.root}. Name the "
            f"folder that --export made."
        )
    exported = _exported(source)
    annotations = {
        case: _read(dataset, case, path, exported.get(case)) for case, path in found.items()
    }
    drawn = {case: each for case, each in annotations.items() if each and _shows(each)}
    for case, annotation in drawn.items():
        LabelFile(dataset, case).write(annotation)
    return list(drawn)


def _wanted(desk: Desk, cases: Sequence[str] | None) -> list[str]:
    if cases is not None:
        unknown = [case for case in cases if case not in desk.tables]
        if unknown:
            raise InputError(
                f"--cases {', '.join(unknown)}: not in {desk.dataset.root}. Name its cases."
            )
        return list(dict.fromkeys(cases))
    for table in desk.tables.values():
        table.read()
    return [case for case, table in desk.tables.items() if table.status not in ("done", "locked")]


def _export_case(desk: Desk, case: str, folder: Path, ignore: int) -> tuple[tuple[Slot, ...], str]:
    """Its slices to draw, and a digest of the label file."""
    folder.mkdir(parents=True)
    for number, image in enumerate(desk.dataset.case(case).images):
        ending = ending_of(image.name) or ""
        name = "scan" if number == 0 else f"scan_{number}"
        shutil.copyfile(image, folder / f"{name}{ending}")
    table = desk.table(case)
    if table.untouched():
        table.choose([each.slot for each in desk.suggestions(case)])
    slots = table.chosen()
    labels = slices_to_draw(table.annotation(), slots).label_map(elsewhere=ignore)
    write_labels(folder / f"{case}.nii.gz", labels, desk.dataset.read_grid(case))
    return slots, _digest(labels)


def _digest(labels: NDArray[np.generic]) -> str:
    """Of the voxels, in RAS order: an editor that saves without a change may write other bytes."""
    voxels = np.ascontiguousarray(labels.astype(np.int32))
    return hashlib.blake2b(voxels.tobytes(), digest_size=16).hexdigest()


def _exported(source: Path) -> dict[str, str]:
    """What `export_cases` noted of its files; nothing where the folder is of another origin."""
    try:
        found = json.loads((source / EXPORTED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _drawn_files(dataset: Dataset, source: Path) -> dict[str, Path]:
    """Label files named as a case, in the folder or in a folder of the case's name."""
    folders = [source, *(path for path in list_folder(source) if path.is_dir())]
    found: dict[str, Path] = {}
    for path in (path for folder in folders for path in list_folder(folder)):
        if not path.is_file() or ending_of(path.name) is None:
            continue
        case = stem_of(path).removesuffix(".seg")
        if case not in dataset.cases:
            continue
        if case in found:
            raise InputError(
                f"{path}: case {case} is drawn in {found[case]} too. Keep one of the two."
            )
        found[case] = path
    return found


def _read(dataset: Dataset, case: str, path: Path, was: str | None) -> SparseAnnotation | None:
    """What a file shows; None for one that is as it was exported: the browser's drawing may have
    gone on since, and a slice that nobody drew would come back as one seen to be empty.
    """
    labels = read_label_map(path)
    image = dataset.read_grid(case)
    if not labels.grid.ras.same_as(image.ras):
        raise AnnotationError(
            f"{path}: lies on another grid than its scan "
            f"({labels.grid.ras.against(image.ras)}). Save the label on the scan's own grid."
        )
    if _digest(labels.data) == was:
        return None
    ignore = dataset.ignore if dataset.ignore is not None else add_ignore(dataset.root)
    strange = sorted({int(value) for value in np.unique(labels.data)} - set(range(ignore + 1)))
    if strange:
        raise AnnotationError(
            f"{path}: holds label values {strange}, expected 0 to {ignore}. Repaint them."
        )
    try:
        return annotation_from_labels(labels.data, ignore=ignore)
    except AnnotationError as error:
        raise type(error)(f"{path}: {error}") from None


def _shows(annotation: SparseAnnotation) -> bool:
    """True if anything is drawn: an exported file that nobody touched is passed over."""
    return any(each.mask.any() for each in annotation.slices)


def slices_to_draw(annotation: SparseAnnotation, slots: Sequence[Slot]) -> SparseAnnotation:
    """The drawn slices, and the chosen ones that are not drawn yet as empty."""
    drawn = {(each.plane, each.index): each for each in annotation.slices}
    empty = [slot for slot in slots if slot not in drawn]
    slices = []
    for plane, index in empty:
        size = [side for axis, side in enumerate(annotation.shape) if axis != plane.axis]
        slices.append(AnnotatedSlice(plane, index, np.zeros(size, np.uint8)))
    # Drawn ones last: on the lines where they cross, what is drawn counts.
    return SparseAnnotation(annotation.shape, (*slices, *annotation.slices))


def _where(case: str, slots: Sequence[Slot], grid: Grid) -> str:
    """The slices of one case as both editors count them."""
    lines = [f"{case}"]
    for plane, index in slots:
        # A voxel on the slice, in RAS order, then in the order of the file.
        middle = [side // 2 for side in grid.ras.shape]
        middle[plane.axis] = index
        millimetres = grid.ras.affine @ [*middle, 1]
        voxel = np.linalg.inv(grid.affine) @ millimetres
        x, y, z = (round(float(place)) + 1 for place in voxel[:3])
        lines.append(
            f"  {plane.value:<9} ITK-SNAP: cursor position {x}, {y}, {z}   "
            f"3D Slicer: {_SLICER[plane]} offset near {millimetres[plane.axis]:.1f} mm"
        )
    return "\n".join(lines) + "\n"


_SLICER = {Plane.AXIAL: "red", Plane.CORONAL: "green", Plane.SAGITTAL: "yellow"}


def _write_colours(dataset: Dataset, ignore: int, folder: Path) -> None:
    snap = ["# ITK-SnAP Label Description File", '    0     0    0    0        0  0  0    "Clear"']
    slicer = ["0 background 0 0 0 0"]
    names = {value: name for name, value in dataset.labels.items() if value}
    for value, name in {**names, ignore: "ignore"}.items():
        red, green, blue = (90, 90, 90) if value == ignore else colour_of(value)
        opacity = 0.25 if value == ignore else 1.0
        quoted = name.replace('"', "'")
        snap.append(f'{value:>5} {red:>5} {green:>4} {blue:>4} {opacity:>8.2f}  1  1    "{quoted}"')
        alpha = round(255 * opacity)
        slicer.append(f"{value} {name.replace(' ', '_')} {red} {green} {blue} {alpha}")
    atomic.write_text(folder / "labels.txt", "\n".join(snap) + "\n")
    atomic.write_text(folder / "labels.ctbl", "\n".join(slicer) + "\n")


_HEAD = """Slices to draw, for ITK-SNAP or 3D Slicer

In each case's folder, open scan.nii.gz and load CASE.nii.gz as its segmentation (ITK-SNAP:
Segmentation > Open Segmentation; 3D Slicer: Add Data, as Segmentation). Names and colours:
labels.txt (ITK-SNAP: Segmentation > Import Label Descriptions) or labels.ctbl (3D Slicer: name
segments as there, and export with "Use color table values").
Everything off the chosen slices is covered by 'ignore'. Draw on the clear slices alone: all that
belongs to the targets. Save in place, under the same name. Then:

    twoslice annotate DATASET --import THIS_FOLDER

The clear slices (positions as each editor counts them):
"""
