"""The label file of one case: where it lies, whether somebody else wrote it, how it is saved."""

from __future__ import annotations

import threading
from pathlib import Path

from twoslice.annotation.types import SparseAnnotation
from twoslice.annotator.notes import keep_before
from twoslice.errors import AnnotationError, OutputError
from twoslice.io.dataset import Dataset
from twoslice.io.description import add_ignore, refresh_description
from twoslice.io.grid import Grid
from twoslice.io.scans import is_writable, write_slices

_describing = threading.Lock()
"""dataset.json is one file for all cases: who counts the labelled ones does it alone."""

Stamp = tuple[int, int, int] | None


class LabelFile:
    """`labelsTr/CASE.nii.gz`, and the single-plane files that it takes the place of."""

    def __init__(self, dataset: Dataset, case: str) -> None:
        self.dataset, self.case = dataset, case
        found = dataset.case(case)
        self.path = found.label or dataset.root / "labelsTr" / f"{case}{dataset.file_ending}"
        self.parts = tuple(found.parts.values())
        self._grid: Grid | None = None
        self._seen = self._stamps()
        self._before: list[Path] = [path for path in (self.path, *self.parts) if path.exists()]

    def changed(self) -> bool:
        """True if another program wrote the file since it was read or written here."""
        return self._stamps() != self._seen

    @property
    def grid(self) -> Grid:
        """The scan's own grid."""
        if self._grid is None:
            self._grid = self.dataset.read_grid(self.case)
        return self._grid

    def write(self, annotation: SparseAnnotation) -> None:
        """Save the drawn slices; with none drawn there is no file: the case is unlabelled."""
        if not is_writable(self.path.name):
            raise AnnotationError(
                f"{self.path}: labels cannot be written in that format. Turn the dataset into "
                f"NIfTI with 'twoslice import'."
            )
        new = not self.path.exists()
        self._keep_what_was_there()
        if annotation.slices:
            slices = [(each.plane.slice(each.index), each.mask) for each in annotation.slices]
            write_slices(self.path, slices, self._ignore(), self.grid)
        elif not new:
            self._remove(self.path)
        for part in self.parts:
            self._remove(part)
        self._seen = self._stamps()
        if new == bool(annotation.slices):
            self._recount()

    def _ignore(self) -> int:
        if self.dataset.ignore is not None:
            return self.dataset.ignore
        with _describing:
            return add_ignore(self.dataset.root)

    def _recount(self) -> None:
        """Tell dataset.json which cases are labelled, unless it lists files kept elsewhere."""
        usual = self.dataset.root / "imagesTr"
        images = [image for case in self.dataset.cases.values() for image in case.images]
        if all(image.parent == usual for image in images):
            with _describing:
                refresh_description(self.dataset.root)

    def _keep_what_was_there(self) -> None:
        for path in self._before:
            keep_before(self.dataset.root, path)
        self._before = []

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(
                f"{path}: {error.strerror}. Make the folder {path.parent} writable."
            ) from None

    def _stamps(self) -> tuple[Stamp, ...]:
        return tuple(_stamp(path) for path in (self.path, *self.parts))


def _stamp(path: Path) -> Stamp:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
