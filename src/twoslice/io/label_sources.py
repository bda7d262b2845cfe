"""Where the label of an imported scan comes from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from twoslice.errors import AnnotationError
from twoslice.io import h5
from twoslice.io.find import FoundScan, listed_twice, safe_name, stem_of
from twoslice.io.layout import list_folder
from twoslice.io.scans import Format, ending_of, format_of
from twoslice.planes import Plane

_LABELS_BESIDE = {"imagesTr": "labelsTr", "imagesTs": "labelsTs"}


class LabelSources:
    """Finds a case's labels: files named as the case, the dataset's labelsTr, or the .h5 itself.

    `cases` are all cases that are brought in; `datasets` are the folders whose own labels come
    along, as they were named whole. Labels that were given must each belong to a scan.
    """

    def __init__(
        self,
        given: Path | Sequence[Path] | None,
        *,
        cases: Collection[str],
        datasets: Sequence[Path] = (),
        with_labels: bool = True,
    ) -> None:
        given = [given] if isinstance(given, Path) else list(given or ())
        self.cases = frozenset(cases)
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

    def of(self, scan: FoundScan) -> dict[str, Path]:
        """The label files of one scan by the names that they go by: CASE, CASE_axial, …"""
        if not self.with_labels:
            return {}
        if self.given:
            found = self._named_as(scan.case, self._by_case)
            self._used.update(found)
            return found
        image = scan.paths[0]
        if not image.is_dir() and format_of(image) is Format.H5:
            return {scan.case: image} if h5.has_label(image) else {}
        return self._beside(image, scan.case)

    def refuse_unused(self) -> None:
        """Refuse labels that were given and belong to no scan: most likely a misspelt name."""
        if not self.with_labels or not self.given:
            return
        if not self._used and not self._named:
            raise AnnotationError(
                f"{self.given[0]}: no label in it is named as a scan (found "
                f"{', '.join(sorted(self._by_case)[:3]) or 'none'}). Name each label as its scan."
            )
        for case, path in self._by_case.items():
            if case not in self._used:
                raise AnnotationError(
                    f"{path}: no scan is called '{case}'. Name it as its scan, or leave it out."
                )

    def _named_as(self, case: str, files: Mapping[str, Path]) -> dict[str, Path]:
        """The case's own file and those of single planes, unless one is another case's own."""
        parts = [name for plane in Plane if (name := f"{case}_{plane}") not in self.cases]
        return {name: files[name] for name in (case, *parts) if name in files}

    def _beside(self, image: Path, case: str) -> dict[str, Path]:
        """The labels in a dataset's labelsTr beside imagesTr, whatever their endings."""
        name = _LABELS_BESIDE.get(image.parent.name)
        root = image.parent.parent
        if name is None or root.resolve() not in self.datasets:
            return {}
        folder = root / name
        if folder not in self._folders:
            self._folders[folder] = _by_case(list_folder(folder))
        return self._named_as(case, self._folders[folder])


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
