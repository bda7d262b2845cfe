"""Where the label of an imported scan comes from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twoslice.errors import AnnotationError
from twoslice.io import h5
from twoslice.io.find import FoundScan, listed_twice, safe_name, stem_of
from twoslice.io.layout import list_folder
from twoslice.io.scans import Format, ending_of, format_of

_LABELS_BESIDE = {"imagesTr": "labelsTr", "imagesTs": "labelsTs"}


class LabelSources:
    """Finds a case's label: a file named as the case, the dataset's labelsTr, or the .h5 itself.

    `datasets` are the folders whose own labels come along, as they were named whole.
    Files that were named one by one must each belong to a scan; a folder may hold more.
    """

    def __init__(
        self,
        given: Path | Sequence[Path] | None,
        *,
        datasets: Sequence[Path] = (),
        with_labels: bool = True,
    ) -> None:
        given = [given] if isinstance(given, Path) else list(given or ())
        self.datasets = {path.resolve() for path in datasets}
        self.with_labels = with_labels
        self.given = tuple(given)
        files = [
            file for path in given for file in (list_folder(path) if path.is_dir() else [path])
        ]
        self._by_case = _by_case(files)
        self._named = [path for path in given if not path.is_dir()]
        self._used: set[str] = set()
        self._folders: dict[Path, dict[str, Path]] = {}
        for path in self._named:
            format_of(path)  # says what is wrong with a path that cannot be read

    def of(self, scan: FoundScan) -> Path | None:
        """The label file of one scan; None if it has none."""
        if not self.with_labels:
            return None
        if self.given:
            label = self._by_case.get(scan.case)
            if label is not None:
                self._used.add(scan.case)
            return label
        image = scan.paths[0]
        if not image.is_dir() and format_of(image) is Format.H5:
            return image if h5.has_label(image) else None
        return self._beside(image, scan.case)

    def refuse_unused(self) -> None:
        """Refuse labels that were given and belong to no scan: most likely a misspelt name."""
        if not self.with_labels or not self.given:
            return
        for path in self._named:
            case = _case_of(path)
            if case not in self._used:
                raise AnnotationError(f"{path}: no scan is called '{case}'. Name it as its scan.")
        if not self._used:
            raise AnnotationError(
                f"{self.given[0]}: no label in it is named as a scan (found "
                f"{', '.join(sorted(self._by_case)[:3]) or 'none'}). Name each label as its scan."
            )

    def _beside(self, image: Path, case: str) -> Path | None:
        """The label in a dataset's labelsTr beside imagesTr, whatever its ending."""
        name = _LABELS_BESIDE.get(image.parent.name)
        root = image.parent.parent
        if name is None or root.resolve() not in self.datasets:
            return None
        folder = root / name
        if folder not in self._folders:
            self._folders[folder] = _by_case(list_folder(folder))
        return self._folders[folder].get(case)


def _by_case(files: Sequence[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in files:
        if ending_of(path.name) is not None:
            known = found.setdefault(_case_of(path), path)
            if known != path:
                raise listed_twice(_case_of(path), known, path)
    return found


def _case_of(path: Path) -> str:
    """The case that a label file is named as; 3D Slicer puts `.seg` before the ending."""
    return safe_name(stem_of(path).removesuffix(".seg"))
