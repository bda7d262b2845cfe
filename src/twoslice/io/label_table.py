"""Names and colours of labels, in the forms that viewers read.

- in the NIfTI header itself, as Connectome Workbench and TotalSegmentator write and read them
- `labels.txt`: label descriptions of ITK-SNAP (Segmentation > Import Label Descriptions)
- `labels.ctbl`: a colour table of 3D Slicer (load it, then choose it for the segmentation)
"""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from pathlib import Path

from twoslice.io import atomic

Colour = tuple[int, int, int]
_GOLDEN = 0.6180339887498949  # of the colour wheel: neighbours in number are far apart in hue


def colour_of(value: int) -> Colour:
    """The colour of a label value, 0 to 255 each; the same in every file."""
    if value == 0:
        return 0, 0, 0
    hue, dark = (value - 1) * _GOLDEN % 1.0, ((value - 1) // 6) % 3
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.75, 1.0 - 0.22 * dark)
    return round(255 * red), round(255 * green), round(255 * blue)


def label_table(names: Sequence[str]) -> bytes:
    """The names, background first, as the XML of a Caret header extension."""
    rows = []
    for value, name in enumerate(names):
        parts = zip(("Red", "Green", "Blue"), colour_of(value), strict=True)
        shown = " ".join(f'{part}="{level / 255:.3f}"' for part, level in parts)
        # CDATA holds any name but one with its own closing mark.
        text = name.replace("]]>", "]] >")
        alpha = 1 if value else 0
        rows.append(f'<Label Key="{value}" {shown} Alpha="{alpha}"><![CDATA[{text}]]></Label>')
    table = "".join(rows)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><CaretExtension>'
        f'<Date/><VolumeInformation Index="0"><LabelTable>{table}</LabelTable>'
        f"<StudyMetaDataLinkSet/><VolumeType>Label</VolumeType></VolumeInformation>"
        f"</CaretExtension>"
    ).encode()


def write_label_files(folder: Path, names: Sequence[str]) -> None:
    """`labels.txt` for ITK-SNAP and `labels.ctbl` for 3D Slicer, into `folder`."""
    snap = ["# ITK-SNAP label descriptions: value, red, green, blue, opacity, shown, mesh, name"]
    slicer = ["# 3D Slicer colour table: value, name, red, green, blue, opacity"]
    for value, name in enumerate(names):
        red, green, blue = colour_of(value)
        seen = 1 if value else 0
        quoted = name.replace('"', "'")
        snap.append(
            f'{value:5} {red:5} {green:4} {blue:4} {seen:8} {seen:2} {seen:2}    "{quoted}"'
        )
        # Slicer parts the columns at spaces and shows underscores as such.
        slicer.append(f"{value} {'_'.join(name.split())} {red} {green} {blue} {255 * seen}")
    atomic.write_text(folder / "labels.txt", "\n".join(snap) + "\n")
    atomic.write_text(folder / "labels.ctbl", "\n".join(slicer) + "\n")
