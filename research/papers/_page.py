"""Writes the pages of docs/results from their stored cells.

    python -m research.papers._page                 # all pages and their plots
    python -m research.papers._page studies dpnas   # some
    python -m research.papers._page --check         # nothing is written; ends with 1 if a page would change

A page is the template pages/NAME.md.j2: prose, tables, and plots inserted by functions. Every template has `page`
(cells, plots, sections), `find`, `spread` and `markdown`; a page with functions of its own has them in
`_NAME_page.py`, whose `functions(page)` returns them by name, and `functions_of(NAME)` are those of another page. Cells
are in docs/results/NAME/cells.jsonl.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from privaware.bench._shown import markdown, spread
from privaware.bench._store import Cell, Store
from research.papers import RESULTS, find
from research.papers._results import with_published

__all__ = ["Page", "measured_at", "names", "percent", "render", "seeds_of", "write"]

TEMPLATES = Path(__file__).with_name("pages")


@dataclass
class Page:
    """What a template works with. Plots are kept in `charts` and saved when the page is written."""

    name: str
    results: Path = RESULTS
    charts: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def _cells(self) -> dict[str, list[Cell]]:
        grouped: dict[str, list[Cell]] = {}
        for cell in Store(self.results / self.name / "cells.jsonl").read().values():
            grouped.setdefault(cell.item, []).append(cell)
        return grouped

    def cells(self, item: str) -> list[Cell]:
        """The stored cells of one item, in the order of the file."""
        return self._cells.get(item, [])

    def items(self) -> list[str]:
        """The items with stored cells, in the order of the file."""
        return list(self._cells)

    def cell(self, item: str, **settings: Any) -> Cell:
        """The one cell of an item with these settings."""
        [cell] = [c for c in self.cells(item) if all(c.settings.get(k) == v for k, v in settings.items())]
        return cell

    def plot(self, name: str, title: str, chart: Any) -> str:
        """The link to a plot of an Altair chart."""
        self.charts[name] = chart
        return f"![{title}]({self.name}/{name}.svg)"

    def section(self, id: str) -> str:
        """Heading, provenance, tables, plots and remarks of an item whose one cell holds them all."""
        from privaware.workflow._curves import Point, lines

        item, cell = find(id), self.cells(id)[0]
        out = [f"## {item.title}", provenance(cell)]
        for shown in cell.result.get("tables", []):
            out.append(f"{shown['title']}:\n\n{markdown(*with_published(item, shown))}")
        for stored in cell.result.get("charts", []):
            points = [Point(**{**p, "scores": tuple(p["scores"])}) for p in stored["points"]]
            chart = lines(points, **{key: stored[key] for key in ("x", "y", "log") if key in stored})
            out.append(self.plot(stored["name"], item.title, chart))
        out += cell.result.get("words", [])
        return "\n\n".join(out)


def provenance(cell: Cell) -> str:
    """How a cell is rerun, and at which commit, on which machine and when it was measured."""
    facts = cell.run
    where = facts["machine"] + (" in TF32" if facts.get("precision") == "tf32" else "")
    seeds = f"{seeds_of(cell)}, " if seeds_of(cell) else ""
    return (
        f"`privaware reproduce {cell.item}`: measured at commit {facts['commit']}, {seeds}{where}, "
        f"{facts['date']}, {facts['seconds']:g} s."
    )


def measured_at(cells: Sequence[Cell]) -> str:
    """Commits, machines and dates of cells, as one phrase."""
    commits = dict.fromkeys(str(cell.run["commit"])[:7] for cell in cells)
    machines = dict.fromkeys(str(cell.run["machine"]) for cell in cells)
    dates = sorted({str(cell.run["date"]) for cell in cells})
    return f"commit {', '.join(commits)}; {'; '.join(machines)}; {' to '.join(dict.fromkeys((dates[0], dates[-1])))}"


def seeds_of(cell: Cell) -> str:
    """Which seeds a cell was run with: those it states, or the first of its settings."""
    count = cell.settings.get("seeds")
    stated = cell.run.get("seeds") or (f"0 to {count - 1}" if count else "")
    return f"seeds {stated}" if stated else ""


def percent(values: Sequence[float], digits: int = 2) -> str:
    """Mean and standard deviation of shares, in per cent.

    >>> percent([0.9, 0.92])
    '91.00 ± 1.41'
    """
    middle, deviation = spread(values)
    return f"{100 * middle:.{digits}f} ± {100 * deviation:.{digits}f}"


def names() -> list[str]:
    """All pages that have a template."""
    return sorted(path.name.removesuffix(".md.j2") for path in TEMPLATES.glob("*.md.j2"))


def render(page: Page) -> str:
    """The page as text; its plots are in `page.charts`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    known: Mapping[str, Any] = {"page": page, "markdown": markdown, "percent": percent, "find": find, "spread": spread}
    others = {"functions_of": lambda name: functions_of(Page(name, page.results))}
    return environment.get_template(f"{page.name}.md.j2").render({**known, **others, **functions_of(page)})


def functions_of(page: Page) -> dict[str, Any]:
    """What `_NAME_page.py` gives to its template."""
    module = f"research.papers._{page.name}_page"
    return import_module(module).functions(page) if find_spec(module) else {}  # type: ignore[no-any-return]


def write(name: str, *, check: bool = False) -> bool:
    """Renders a page; writes text and plots, or with `check` nothing. Whether the text is as it was."""
    from privaware.report import _charts

    page = Page(name)
    text, path = render(page), page.results / f"{name}.md"
    same = path.exists() and path.read_text() == text
    if not check:
        path.write_text(text)
        for plot, chart in page.charts.items():
            _charts.save(chart, page.results / name / f"{plot}.svg")
    return same


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("pages", nargs="*", choices=[*names(), []], help="default: all")
    arguments.add_argument("--check", action="store_true")
    options = arguments.parse_args()
    changed = [name for name in options.pages or names() if not write(name, check=options.check)]
    print("\n".join(f"{name}.md {'differs' if options.check else 'changed'}" for name in changed) or "nothing changed")
    sys.exit(1 if changed and options.check else 0)


if __name__ == "__main__":
    main()
