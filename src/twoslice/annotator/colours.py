"""The colours of labels: apart from each other, and from grey, on a dark ground."""

from __future__ import annotations

Colour = tuple[int, int, int]

COLOURS: tuple[Colour, ...] = (
    (255, 107, 107),
    (78, 205, 196),
    (255, 209, 102),
    (123, 158, 255),
    (199, 125, 255),
    (144, 218, 90),
    (255, 159, 67),
    (240, 130, 190),
    (90, 200, 250),
    (200, 180, 140),
    (160, 220, 180),
    (230, 230, 120),
)
"""page/palette.js has the same list; a test compares them."""


def colour_of(value: int) -> Colour:
    """The colour of a label from 1 on; they come round after the last."""
    return COLOURS[(value - 1) % len(COLOURS)]
