"""`privaware reproduce`: list and rerun the tables and figures of the papers, with `research/` of a clone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from privaware.cli import _options as o

app = typer.Typer()
ITEM = Annotated[
    str | None, typer.Argument(help="A table or figure, as PAPER/ITEM, or the beginning of several names.")
]
LIST = Annotated[bool, typer.Option("--list", help="List all items, and what became of each table and figure.")]
SCALE = Annotated[str, typer.Option(help="quick (a minute or two on two cores) or full.")]
OUT = Annotated[Path, typer.Option(help="The folder for finished cells. A run with the same folder resumes.")]
TIME_LIMIT = Annotated[float | None, typer.Option(help="The time in seconds after which no new cell starts.")]
ONLY = Annotated[
    list[str] | None,
    typer.Option(
        help="Run only cells with this setting, as NAME=VALUE or NAME=VALUE,VALUE. Can be given several times."
    ),
]
RAY = Annotated[str | None, typer.Option(help="The address of a Ray cluster, or auto.")]
PRICES = Annotated[bool, typer.Option("--prices", help="Only compute noise multipliers and record them.")]
SEED = Annotated[int | None, typer.Option(help="Has no effect, because every table and figure has its own seeds.")]
DEFAULT_OUT = Path("reproduced")
PACKAGE = Path(__file__).parents[1]
"""Folder of the package privaware; in a clone, `research` is next to it."""
INTERRUPTED = 130
"""Exit code of an interrupted process."""
SECONDS_TO_END = 5.0
"""Number of seconds after an interrupt in which the started process may end by itself; then it is terminated."""


class WordsKept(TyperCommand):
    """A command that keeps its arguments as they were typed, as a list of words in `context.obj`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.obj = list(args)
        return super().parse_args(ctx, args)


@app.command(cls=WordsKept, epilog="Example: privaware reproduce bao/table1/fcn/mnist --scale quick --out table1")
def reproduce(
    context: typer.Context,
    item: ITEM = None,
    list_items: LIST = False,
    scale: SCALE = "quick",
    out: OUT = DEFAULT_OUT,
    device: o.DEVICE = "cpu",
    time_limit: TIME_LIMIT = None,
    only: ONLY = None,
    ray: RAY = None,
    prices: PRICES = False,
    seed: SEED = None,
    json: o.JSON = False,
) -> int:
    """Run a table or figure of a paper again, and show it beside the published numbers."""
    from privaware.errors import WrongInput

    clone = PACKAGE.parent
    if not (clone / "research" / "__main__.py").is_file():
        raise WrongInput(
            "reproduce needs a clone of the repository, because an installed privaware does not hold the papers; "
            "clone it and run `pip install -e .` there"
        )
    return _research(clone, context.obj)


def _research(clone: Path, words: list[str]) -> int:
    """Run `python -m research WORDS` with the modules of the folder `clone`; return its exit code.

    If a signal ended the child process, return 128 plus the number of the signal. The output of the child goes where
    the output of this process goes. After an interrupt, this process waits up to `SECONDS_TO_END` seconds for the child
    to end; then it terminates the child and raises `KeyboardInterrupt`. If the child ends with code 130, this process
    exits with 130.
    """
    path = os.pathsep.join(filter(None, [str(clone), os.environ.get("PYTHONPATH")]))
    call = [sys.executable, "-P", "-m", "research", *words]  # -P ignores a folder `research` of the user
    with subprocess.Popen(call, env={**os.environ, "PYTHONPATH": path}) as process:
        try:
            code = process.wait()
        except KeyboardInterrupt as interrupt:  # a terminal interrupts both processes, `kill` only this one
            try:
                code = process.wait(SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                process.terminate()
                raise interrupt from None
    if code == INTERRUPTED:
        sys.exit(code)  # the process has already reported the interrupt
    return code if code >= 0 else 128 - code
