"""The command with which a person draws."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from twoslice import options as o
from twoslice.console import words
from twoslice.errors import SettingsError
from twoslice.progress import for_stderr

if TYPE_CHECKING:
    from twoslice.annotator.desk import Desk


def annotate(
    dataset: o.DatasetFolder,
    port: o.Port = None,
    host: o.Host = "127.0.0.1",
    no_browser: o.NoBrowser = False,
    planes: o.Planes = "axial,coronal",
    scheme: o.Scheme = "orthogonal",
    uncertainty: o.UncertaintyFolder = None,
    cases: o.ExportedCases = None,
    export: o.ExportFolder = None,
    bring: o.ImportFolder = None,
) -> None:
    """Draw the slices in a browser page on this machine.

    The link is printed on a line of its own. With --export the slices go to ITK-SNAP or 3D Slicer
    instead, and with --import they come back.
    """
    if export is not None and bring is not None:
        raise SettingsError("--export and --import are two ways: name one of them.")
    if cases is not None and export is None:
        raise SettingsError("--cases says what to export. Add --export DIR, or leave it out.")
    if bring is not None:
        _bring_back(dataset, bring)
        return
    desk = _desk(dataset, planes, scheme, uncertainty)
    if export is not None:
        _export(desk, export, words(cases))
        return
    _require_web()
    from twoslice.annotator.serve import serve

    typer.echo(
        f"{desk.dataset.name}: {len(desk.tables)} scans. Every stroke is saved in "
        f"{dataset / 'labelsTr'}. Ctrl-C ends. Open this link:"
    )
    serve(desk, host=host, port=port, browser=not no_browser, say=_say)


def _require_web() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise SettingsError(
            f"the annotator needs {error.name}, which is not installed. Run: pip install "
            f"'twoslice[web]'."
        ) from None


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  a pipe must have the link at once


def _desk(root: Path, planes: str, scheme: o.Scheme, uncertainty: Path | None) -> Desk:
    from twoslice.annotation.choice import wishes
    from twoslice.annotator.desk import Desk
    from twoslice.annotator.plan import Plan
    from twoslice.io.dataset import Dataset
    from twoslice.planes import Plane

    wanted = tuple(Plane.parse(plane) for plane in words(planes) or ())
    wishes(scheme, wanted)  # refuses planes that do not make the scheme
    if uncertainty is not None and not uncertainty.is_dir():
        raise SettingsError(
            f"{uncertainty}: there is no such folder. Name what 'predict --uncertainty' wrote."
        )
    return Desk(Dataset.open(root), Plan(scheme, wanted, uncertainty))


def _export(desk: Desk, out: Path, cases: list[str] | None) -> None:
    from twoslice.annotator.exchange import export_cases

    done = export_cases(desk, out, cases, progress=for_stderr())
    typer.echo(
        f"{out}: {len(done)} scans with the slices to draw; README.txt there tells where they lie."
        f"\nNext: draw them, then twoslice annotate {desk.dataset.root} --import {out}"
    )


def _bring_back(root: Path, source: Path) -> None:
    from twoslice.annotator.exchange import import_cases
    from twoslice.io.dataset import Dataset

    done = import_cases(Dataset.open(root), source)
    typer.echo(f"{root}: slices of {len(done)} scans ({', '.join(done)}).")
    typer.echo(f"Next: twoslice check {root}")
