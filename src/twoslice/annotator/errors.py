"""Why a request is refused: each kind has the HTTP status that it is told with."""

from __future__ import annotations

from twoslice.errors import TwosliceError


class RequestError(TwosliceError):
    """A request that cannot be done as it stands."""

    status = 400
    code = "bad-request"


class UnknownError(RequestError):
    """There is no such thing to be had."""

    status = 404
    code = "unknown"


class StaleError(RequestError):
    """The drawing has changed since the page saw it last."""

    status = 409
    code = "stale"


class HeldError(RequestError):
    """Another tab has the pen."""

    status = 409
    code = "held"


class ChangedOnDiskError(RequestError):
    """Another program wrote the label file."""

    status = 409
    code = "changed-on-disk"


class LockedError(RequestError):
    """The case cannot be drawn on: a dense label, or one that cannot be read."""

    status = 409
    code = "locked"


class UnsavedError(RequestError):
    """The disk did not take it."""

    status = 507
    code = "unsaved"
