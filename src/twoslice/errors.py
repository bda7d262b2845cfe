"""What a user can mend, told in one line.

    TwosliceError            exit 2: what was found, where, and what to do next
    ├── InputError           a file or folder that was given cannot be used
    │   ├── ScanError        an image: unreadable, wrong dimension, not finite, no geometry
    │   ├── DatasetError     a dataset folder: dataset.json, its layout, its cases
    │   └── AnnotationError  labels and drawn slices: values, grid, planes, crossing line
    ├── SettingsError        a setting, an option or a command's arguments
    ├── OutputError          a result cannot be written: disk full, no permission, already there
    ├── TrainingError        a training that cannot go on: a loss that is no number, no memory
    ├── EngineError          jobs cannot run there: no scheduler, no worker, a missing package
    │   └── JobError         one job that failed each time it was tried; its log says how
    └── PartialError         some cases failed, the others are done

Anything else that is raised is our bug and keeps its traceback.
"""

from __future__ import annotations


class TwosliceError(Exception):
    """Base of everything that a user can mend; its text is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class InputError(TwosliceError):
    """A file or folder that was given cannot be used."""


class ScanError(InputError):
    """An image cannot be used."""


class DatasetError(InputError):
    """A dataset folder cannot be used."""


class AnnotationError(InputError):
    """Labels or drawn slices cannot be used."""


class SettingsError(TwosliceError):
    """A setting, an option or a command's arguments cannot be used."""


class OutputError(TwosliceError):
    """A result cannot be written."""


class TrainingError(TwosliceError):
    """A training cannot go on."""


class EngineError(TwosliceError):
    """Jobs cannot run where they were sent."""


class JobError(EngineError):
    """A job failed each time it was tried, and not for its input."""


class PartialError(TwosliceError):
    """Some cases failed; the others are done and kept."""
