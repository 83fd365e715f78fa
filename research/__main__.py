"""`python -m research`, which `privaware reproduce` starts: the papers' tables and figures, listed and run again."""

from __future__ import annotations

import time
from typing import Any

import typer

from privaware.cli import _options as o
from privaware.cli import main, reproduce
from privaware.cli._terminal import say, show

app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None, add_completion=False)
LEFT_OUT = ("published", "measured", "spread", "repeats", "values", "published_text")


@app.command(epilog="Example: python -m research bao/table1/fcn/mnist --scale quick --out table1")
def research(
    item: reproduce.ITEM = None,
    list_items: reproduce.LIST = False,
    scale: reproduce.SCALE = "quick",
    out: reproduce.OUT = reproduce.DEFAULT_OUT,
    device: o.DEVICE = "cpu",
    time_limit: reproduce.TIME_LIMIT = None,
    only: reproduce.ONLY = None,
    ray: reproduce.RAY = None,
    prices: reproduce.PRICES = False,
    seed: o.SEED = None,
    json: o.JSON = False,
) -> int:
    """Run a table or figure of a paper again, and show it beside the published numbers."""
    from privaware.errors import WrongInput
    from research import papers
    from research.papers import _coverage, _runner

    chosen = papers.items() if item is None else papers.matching(item)
    if list_items:
        words = [f"{one.status:9} {one.id:44} {one.title}{_count(one)}" for one in chosen]
        parts = _coverage.parts(chosen, whole=item is None or "/" not in item.rstrip("/"))
        words += ["", *(f"{part.outcome:15} {part.paper:12} {part.name:12} {part.words}" for part in parts), ""]
        words += _coverage.count_lines(parts)
        show({"items": [one.json() for one in chosen], "parts": [vars(part) for part in parts]}, words, json)
        return 0
    if prices:
        count = _runner.record_prices(chosen, say)
        show({"prices": count}, [f"{count} prices recorded"], json)
        return 0
    if item is None:
        raise WrongInput("expected PAPER/ITEM, such as bao/lemma, got none; `privaware reproduce --list` names all")
    if scale not in ("quick", "full"):
        raise WrongInput(f"expected --scale quick or full, got {scale!r}")
    chosen = papers.restricted(chosen, only or ())
    began = time.monotonic()
    place = _runner.RunPlace(device=device, limit=float("inf") if time_limit is None else time_limit, ray=ray)
    rows, failed = _runner.run_all(_runnable(chosen, scale), out, scale=scale, place=place, say=say)
    seconds = round(time.monotonic() - began, 1)
    facts = {"rows": rows, "failed": failed, "item": item, "scale": scale, "out": str(out), "seconds": seconds}
    show(facts, [_line(row) for row in rows], json)
    return 1 if failed else 0


def _runnable(chosen: list[Any], scale: str) -> list[Any]:
    """Those that can be run at this scale; a single one is kept, so that the runner says why it cannot."""
    return chosen if len(chosen) == 1 else [one for one in chosen if one.runnable and one.cells(scale)]


def _count(item: Any) -> str:
    """How much of an item is measured, where not all of it is."""
    return f" ({item.measured_cells} of {len(item.runs)} cells)" if item.status == "partly" else ""


def _line(row: dict[str, Any]) -> str:
    labels = [str(value) for key, value in row.items() if key not in LEFT_OUT and value is not None]
    published = row.get("published_text") or row["published"]
    return f"{' '.join(labels)}: measured {_shown(row['measured'])}, published {_shown(published)}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value or "-")


if __name__ == "__main__":
    main(verbs=app, name="python -m research")
