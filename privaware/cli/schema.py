"""`privaware schema`: draft a schema from the rows, for their owner to edit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privaware.cli import _options as o
from privaware.cli._early import expect_data
from privaware.cli._terminal import show

app = typer.Typer()


@app.command(epilog="Example: privaware schema people.csv --target income --out people.toml")
def schema(
    data: o.DATA,
    target: o.TARGET = None,
    task: Annotated[str | None, typer.Option(help="classification or regression.")] = None,
    unit: o.UNIT = None,
    header: o.HEADER = None,
    sep: o.SEP = None,
    decimal: o.DECIMAL = None,
    encoding: o.ENCODING = None,
    out: Annotated[Path | None, typer.Option(help="The new .toml file to write, to review and edit.")] = None,
    kinds: Annotated[bool, typer.Option("--kinds", help="Draft only the kinds of columns, from their names.")] = False,
    show_values: o.SHOW_VALUES = False,
    seed: o.NO_SEED = None,
    json: o.JSON = False,
) -> None:
    """Draft a schema from the rows, to review and edit. A schema states which facts about the data are public."""
    from privaware._files import atomic_write
    from privaware.errors import WrongInput
    from privaware.workflow.run.declared_kinds import draft_kinds
    from privaware.workflow.run.source import draft_schema

    expect_data(data)
    reading = {"header": header, "sep": sep, "decimal": decimal, "encoding": encoding}
    if out is not None and out.exists():
        raise WrongInput(f"{str(out)!r} exists and is not overwritten; choose another --out")
    if kinds:
        _show_kinds(draft_kinds(data, without=(target, unit), **reading), out, json)
        return
    draft = draft_schema(data, target=target, task=task, unit=unit, **reading)
    if out is not None:
        atomic_write(out, draft.toml().encode())
    facts = {"columns": draft.json()["columns"], "reviewed": draft.reviewed, "out": None if out is None else str(out)}
    advice = f"Draft written to {out}. Review it, set reviewed = true in it, and pass it with --schema."
    show(facts, [advice] if out else [draft.toml()], json)


def _show_kinds(draft: str, out: Path | None, json: bool) -> None:
    """Write `draft`, the kinds of columns in TOML, to `out`, or print it if `out` is None.

    With `json`, print the kinds and `out` as JSON; the file is written, too, unless `out` is None.
    """
    import tomllib

    if out is not None:
        from privaware._files import atomic_write

        atomic_write(out, draft.encode())
    facts = {"kinds": tomllib.loads(draft), "out": None if out is None else str(out)}
    show(facts, [f"Draft written to {out}. Edit it, and pass it with --kinds."] if out else [draft], json)
