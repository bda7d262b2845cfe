"""A DICOM series in a folder, one file a slice: headers through pydicom, pixels through GDCM (in
SimpleITK), which applies rescale slope and intercept and knows the compressed forms.

Nothing is resampled: a series whose slices do not stack into a box (tilted gantry, missing or
uneven slices, two images at one place) is refused with what was seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twoslice.errors import ScanError
from twoslice.io.border import Stored, foreign, silent_stderr, usable_affine
from twoslice.io.dicom_stack import stack_affine
from twoslice.io.grid import Grid
from twoslice.io.itk import quiet_sitk

_PREAMBLE = 128
_PLACE_TAGS = ("PixelSpacing", "ImagePositionPatient", "ImageOrientationPatient")
_TAGS = [
    *_PLACE_TAGS,
    "SOPClassUID",
    "SeriesInstanceUID",
    "SeriesNumber",
    "SeriesDescription",
    "Modality",
    "ImageType",
    "Rows",
    "Columns",
    "SamplesPerPixel",
    "NumberOfFrames",
]


class Place(NamedTuple):
    """Where one slice lies: PixelSpacing, ImagePositionPatient, ImageOrientationPatient."""

    spacing: NDArray[np.float64]
    position: NDArray[np.float64]
    orientation: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Image:
    """What the header of one DICOM file says."""

    path: Path
    series: str
    number: str
    description: str
    modality: str
    localizer: bool
    frames: int
    colours: int
    size: tuple[int, int]
    place: Place | None


def is_dicom(path: Path) -> bool:
    """True if the file carries DICOM's mark after its preamble."""
    try:
        with path.open("rb") as file:
            return file.read(_PREAMBLE + 4)[_PREAMBLE:] == b"DICM"
    except OSError:
        return False


def holds_dicom(folder: Path) -> bool:
    """True if a file in the folder itself is DICOM."""
    return any(is_dicom(path) for path in _files(folder))


def read(folder: Path, *, series: str | None = None) -> Stored:
    """The voxels of one series after rescaling, and their grid."""
    images, grid = _stack(folder, series)
    paths = [image.path for image in images]
    try:
        return Stored(_voxels(folder, paths).T.reshape(grid.shape), grid)
    except ScanError:
        for path in paths:
            _voxels(path, [path])  # raises at the file that is at fault, and so names it
        raise


def _voxels(where: Path, paths: Sequence[Path]) -> NDArray[np.float32]:
    """The rescaled voxels of some slices, as GDCM reads them."""
    sitk = quiet_sitk()
    with foreign(where, "DICOM"), silent_stderr():
        reader = sitk.ImageSeriesReader()
        reader.SetFileNames([str(path) for path in paths])
        # The slope may differ from slice to slice (PET), so the first one must not set the type.
        reader.SetOutputPixelType(sitk.sitkFloat32)
        data: NDArray[np.float32] = sitk.GetArrayFromImage(reader.Execute())
    return data


def read_grid(folder: Path, *, series: str | None = None) -> Grid:
    """The grid of one series; only headers are read."""
    return _stack(folder, series)[1]


def modality(folder: Path, *, series: str | None = None) -> str:
    """CT, MR, …: the Modality of one series; empty if it is not said."""
    return _choose(folder, series)[0].modality


def list_series(folder: Path) -> dict[str, list[Image]]:
    """The image series in the folder itself, by UID; other files and DICOM objects are passed."""
    found: dict[str, list[Image]] = {}
    for path in _files(folder):
        image = _header(path) if is_dicom(path) else None
        if image is not None:
            found.setdefault(image.series, []).append(image)
    return found


def _stack(folder: Path, series: str | None) -> tuple[list[Image], Grid]:
    """The images of one series in their order along the stack, and its grid."""
    images = _choose(folder, series)
    places = _places(folder, images)
    order, affine = stack_affine(
        folder,
        [image.path.name for image in images],
        np.array([place.position for place in places]),
        places[0].orientation,
        places[0].spacing,
    )
    rows, columns = images[0].size
    grid = Grid((columns, rows, len(images)), usable_affine(folder, affine))
    return [images[index] for index in order], grid


def _choose(folder: Path, wanted: str | None) -> list[Image]:
    """The series called `wanted` (number, description or UID), or the only one."""
    found = list_series(folder)
    if not found:
        raise ScanError(f"{folder}: no DICOM images in it. Name the folder that holds the scan.")
    matching = {
        uid: images
        for uid, images in found.items()
        if wanted is None or wanted.strip().casefold() in _names(uid, images[0])
    }
    if len(matching) == 1:
        return next(iter(matching.values()))
    listed = "; ".join(_describe(uid, images) for uid, images in (matching or found).items())
    what = "holds" if wanted is None else f"'{wanted}' names {len(matching)} of the series: it has"
    raise ScanError(
        f"{folder}: {what} {len(matching or found)} series: {listed}. Name one with --series "
        f"(its number, description or UID)."
    )


def _names(uid: str, image: Image) -> set[str]:
    return {name.casefold() for name in (uid, image.number, image.description) if name}


def _describe(uid: str, images: Sequence[Image]) -> str:
    first = images[0]
    kind = "localizer" if first.localizer else first.modality
    return f"{first.number or '?'} '{first.description}' ({kind}, {len(images)} images, {uid})"


def _places(folder: Path, images: Sequence[Image]) -> list[Place]:
    """Where each slice lies, or why the series is not a stack of parallel grey slices."""
    first = images[0]
    where = f"{folder}: series {first.number or first.series} '{first.description}'"
    _refuse_other_kinds(where, images)
    places = []
    for image in images:
        if image.place is None:
            raise ScanError(
                f"{where}: {image.path.name} lacks ImagePositionPatient, ImageOrientationPatient "
                f"or PixelSpacing. Export the series again with its geometry."
            )
        places.append(image.place)
        if image.size != first.size or _apart(places, "spacing") > 1e-4:
            raise ScanError(
                f"{where}: {image.path.name} differs in size or pixel spacing from "
                f"{first.path.name}. Put each scan into a folder of its own."
            )
        if _apart(places, "orientation") > 1e-3:
            raise ScanError(
                f"{where}: {image.path.name} lies in another plane than {first.path.name}, as in "
                f"a localizer. Put each plane into a folder of its own."
            )
    if len(images) < 2:
        raise ScanError(f"{where} is a single slice, expected a volume. Give the whole series.")
    return places


def _refuse_other_kinds(where: str, images: Sequence[Image]) -> None:
    for image in images:
        if image.frames > 1:
            raise ScanError(
                f"{where} is multi-frame ({image.path.name} holds {image.frames} frames), expected "
                f"one file a slice. Convert it to NIfTI (dcm2niix does) or export it as classic "
                f"DICOM."
            )
        if image.localizer:
            raise ScanError(f"{where} is a localizer, not a volume. Name another series.")
        if image.colours != 1:
            raise ScanError(f"{where} holds colour images, expected grey. Name another series.")


def _apart(places: Sequence[Place], name: str) -> float:
    """How far the last place's `name` is from the first one's."""
    return float(np.abs(getattr(places[-1], name) - getattr(places[0], name)).max())


def _files(folder: Path) -> list[Path]:
    try:
        found = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        # The table of contents of a DICOM disk is itself DICOM, but no image.
        return [path for path in found if path.is_file() and path.name.upper() != "DICOMDIR"]
    except OSError as error:
        raise ScanError(f"{folder}: {error.strerror}. Make the folder readable.") from None


def _header(path: Path) -> Image | None:
    """The header of one file; None for a DICOM object that is no image (report, directory).

    An image without its size is damaged, and a stack without it would be a slice short.
    """
    import pydicom

    with foreign(path, "DICOM"):
        tags = pydicom.dcmread(path, stop_before_pixels=True, specific_tags=list(_TAGS))
        if "Rows" not in tags or "SeriesInstanceUID" not in tags:
            _refuse_damaged(path, tags)
            return None
        kinds = tags.get("ImageType") or []
        return Image(
            path=path,
            series=str(tags.SeriesInstanceUID),
            number=_text(tags, "SeriesNumber"),
            description=_text(tags, "SeriesDescription"),
            modality=_text(tags, "Modality"),
            localizer="LOCALIZER" in [str(kind).upper() for kind in kinds],
            frames=int(tags.get("NumberOfFrames") or 1),
            colours=int(tags.get("SamplesPerPixel") or 1),
            size=(int(tags.Rows), int(tags.Columns)),
            place=_place(tags),
        )


def _refuse_damaged(path: Path, tags: Any) -> None:
    """Refuse a header that lacks Rows or SeriesInstanceUID, unless its kind of object may."""
    from pydicom.uid import UID, MediaStorageDirectoryStorage

    kind = UID(_text(tags, "SOPClassUID") or _text(tags.file_meta, "MediaStorageSOPClassUID"))
    image = "Image Storage" in kind.name or "Rows" in tags
    if image or ("SeriesInstanceUID" not in tags and kind != MediaStorageDirectoryStorage):
        lacking = [name for name in ("SeriesInstanceUID", "Rows") if name not in tags]
        raise ScanError(
            f"{path}: lacks {' and '.join(lacking)}, so it is damaged or cut short. Copy or export "
            f"it again, or take it out of the folder if it is no slice of the scan."
        )


def _text(tags: Any, name: str) -> str:
    value = tags.get(name)
    return "" if value is None else str(value).strip()


def _place(tags: Any) -> Place | None:
    found = []
    for name, count in zip(_PLACE_TAGS, (2, 3, 6), strict=True):
        value = tags.get(name)
        if value is None or len(value) != count:
            return None
        found.append(np.array([float(number) for number in value]))
    return Place(*found)
