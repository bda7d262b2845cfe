"""twoslice: segment a set of 3-D scans from two labelled slices in a handful of them.

The verbs of the command line are functions here, loaded when they are first asked for, so that
`import twoslice` stays light: `run_demo`, `run`, `import_scans`, `simulate`, `annotate`, `check`,
`propagate`, `train`, `predict`, `evaluate`, `write_report`, `run_study`, `export_run`,
`import_benchmark`; and with them `Dataset`, `Settings`, `load_settings`.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Dataset": ("twoslice.io.dataset", "Dataset"),
    "Settings": ("twoslice.settings", "Settings"),
    "load_settings": ("twoslice.settings", "load_settings"),
    "run_demo": ("twoslice.demo.pipeline", "run_demo"),
    "run": ("twoslice.pipeline.run", "run_pipeline"),
    "import_scans": ("twoslice.io.importing", "import_scans"),
    "simulate": ("twoslice.annotation.simulate", "simulate"),
    "annotate": ("twoslice.annotator.serve", "annotate"),
    "check": ("twoslice.annotation.check", "check_dataset"),
    "propagate": ("twoslice.propagation.dataset", "propagate_dataset"),
    "train": ("twoslice.training.loop", "train"),
    "predict": ("twoslice.inference.predict", "predict"),
    "evaluate": ("twoslice.evaluation.evaluate", "evaluate"),
    "write_report": ("twoslice.report.page", "write_report"),
    "run_study": ("twoslice.studies.study", "run_study"),
    "import_benchmark": ("twoslice.io.benchmarks", "import_benchmark"),
    "export_run": ("twoslice.export.formats", "export"),
}


def __getattr__(name: str) -> Any:
    """Load a public name from its home when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'twoslice' has no attribute '{name}'")
    from importlib import import_module

    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(["__version__", *_HOMES])
