"""The command line: one Typer app over the functions in `commands/`.

Everything heavy is imported inside the command that needs it, so that `twoslice --help` answers
at once. Exit 0 is success, 2 is the user's to mend (one line on stderr), 130 is Ctrl-C; anything
else is our bug and keeps its traceback.
"""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from twoslice import options as o
from twoslice.commands import data, drawing, learning, results, running, studying
from twoslice.errors import TwosliceError
from twoslice.progress import for_stderr

app = typer.Typer(
    name="twoslice",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: drawing boxes takes longer than everything else together
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a fault that the user can mend becomes one line and exit 2."""
    try:
        app(arguments)
    except TwosliceError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        raise SystemExit(2) from None
    except SystemExit as ending:
        if ending.code == 130:
            line = "stopped: what was finished is kept."
            print(line, file=sys.stderr)  # noqa: T201
        raise


@app.callback()
def common(version: o.Version = False) -> None:
    """Segment a set of 3-D scans from two labelled slices in a handful of them.

    Start with `twoslice demo`: it runs everything on made-up scans in under four minutes.
    """


@app.command()
def demo(out: o.OutFolder = Path("twoslice-demo"), seed: o.Seed = 0) -> None:
    """Run everything on made-up scans, to the report.

    In under four minutes. Stopped and typed again, it goes on where it was.
    """
    from twoslice.demo.pipeline import run_demo

    typer.echo(run_demo(out, seed=seed, progress=for_stderr()).in_words())


# In the order of the way from scans to a page.
app.command()(running.run)
app.command("import")(data.import_command)
app.command()(data.simulate)
app.command()(drawing.annotate)
app.command()(data.check)
app.command()(learning.propagate)
app.command()(learning.train)
app.command()(results.predict)
app.command()(results.evaluate)
app.command()(results.report)
app.command()(studying.study)
app.command()(results.export)
