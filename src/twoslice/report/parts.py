"""What sections are made of; the template knows these and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from twoslice.report.tables import Table


@dataclass(frozen=True)
class Picture:
    """An SVG, what it shows, and its width against its height (for setting it in a row)."""

    svg: str
    caption: str
    width: float


@dataclass(frozen=True)
class Card:
    """The pictures of one scan."""

    title: str
    pictures: tuple[Picture, ...]
    figure: str = ""
    note: str = ""


@dataclass(frozen=True)
class Diagram:
    """A chart with its title."""

    title: str
    svg: str
    note: str = ""


@dataclass(frozen=True)
class Block:
    """Text to be unfolded."""

    title: str
    text: str


@dataclass(frozen=True)
class Viewer:
    """Scans to scroll through: case and JSON of each."""

    scans: tuple[tuple[str, str], ...]
    has_reference: bool
    note: str = ""


@dataclass(frozen=True)
class Section:
    """One part of the page; what is empty is left out."""

    anchor: str
    heading: str
    words: tuple[str, ...] = ()
    table: Table | None = None
    cards: tuple[Card, ...] = ()
    curves: tuple[Diagram, ...] = ()
    blocks: tuple[Block, ...] = ()
    viewer: Viewer | None = None
    items: tuple[str, ...] = ()
