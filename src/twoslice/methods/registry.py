"""The methods by the name a user gives them."""

from __future__ import annotations

import difflib

from twoslice.errors import SettingsError
from twoslice.methods.base import Method
from twoslice.methods.coranet import CoraNet
from twoslice.methods.cps import CrossPseudoSupervision
from twoslice.methods.ctbct import CrossTeaching
from twoslice.methods.desco import Desco
from twoslice.methods.mean_teacher import MeanTeacher
from twoslice.methods.plus import Plus
from twoslice.methods.supervised import Supervised
from twoslice.methods.ua_mt import UncertaintyAwareMeanTeacher

METHODS: dict[str, type[Method]] = {
    "desco": Desco,
    "mean_teacher": MeanTeacher,
    "ua_mt": UncertaintyAwareMeanTeacher,
    "cps": CrossPseudoSupervision,
    "ctbct": CrossTeaching,
    "coranet": CoraNet,
    "supervised": Supervised,
    "plus": Plus,
}


def find_method(name: str) -> type[Method]:
    """The method called `name`, or one line with a guess at what was meant."""
    if name in METHODS:
        return METHODS[name]
    close = difflib.get_close_matches(name, METHODS, n=1)
    hint = f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(METHODS)}."
    raise SettingsError(f"no method is called '{name}'. {hint}")
