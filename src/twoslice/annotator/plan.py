"""Plan: which slices a person is asked to draw, and whose doubts guide the choice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from twoslice.annotation.choice import Scheme
from twoslice.annotator import suggest
from twoslice.planes import Plane


@dataclass(frozen=True)
class Plan:
    """What is to be drawn in a scan, and where a model's doubts lie, if they were written."""

    scheme: Scheme = "orthogonal"
    planes: tuple[Plane, ...] = (Plane.AXIAL, Plane.CORONAL)
    uncertainty: Path | None = None

    @property
    def wanted(self) -> suggest.Wanted:
        """The slices that a scan gets."""
        if self.scheme == "single":
            return suggest.Wanted(self.planes[:1], (0.5,))
        if self.scheme == "parallel":
            return suggest.Wanted(self.planes[:1] * 2, (1 / 3, 2 / 3))
        return suggest.Wanted(self.planes, (0.5,) * len(self.planes))
