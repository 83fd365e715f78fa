"""Papers, one a file: the numbers each published, and the items that redo them.

An item is a table, a figure or a part of one. `privaware reproduce --list` shows all of them, `privaware reproduce
bao/table1/fcn/mnist --scale quick --out DIR` runs one (`_runner.py`), and `_page.py` writes the pages of docs/results
from the stored cells.

>>> find("bao/table1/fcn/mnist").published["PAW"]
'94.94 / 96.34'
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from privaware._validate import nearest
from privaware.bench import Result, Settings
from privaware.bench._store import Store, cell_key
from privaware.errors import WrongInput

__all__ = ["RESULTS", "Item", "combinations", "find", "grid", "items", "matching", "open_items", "restricted"]

RESULTS = Path(__file__).parents[2] / "docs" / "results"
"""The folder of the pages of results; PAGE/cells.jsonl holds the cells of a page."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One table, figure or claim of a paper: what was published, and how the package reruns it.

    `runs` are the settings of its cells, `quick` those of a small version of at most two minutes on two cores.
    `run(bench, settings)` gives the result of one cell; `run_population(bench, cells)` yields the results of several in
    their order. Cells that agree in `columns` are repeats: the mean of their result `measured` (None: all of a result)
    is one row, and stands beside `published[key]`, where `key` joins the values of `columns` with spaces. A result may
    instead hold whole `tables` (see `_results.py`). `page` names the page of docs/results with the full run; an item
    without one is open, and `note` says what is missing. `priced` items look up noise multipliers when they run.
    """

    id: str
    title: str
    published: Mapping[str, Any] = field(default_factory=dict)
    published_as: str = "published"
    runs: Sequence[Settings] = ()
    quick: Sequence[Settings] = ()
    columns: Sequence[str] = ()
    measured: str | None = "score"
    run: Callable[[Any, Settings], Result] | None = None
    run_population: Callable[[Any, Sequence[Settings]], Iterable[Result]] | None = None
    page: str | None = None
    note: str = ""
    priced: bool = True

    @property
    def paper(self) -> str:
        return self.id.split("/")[0]

    @property
    def runnable(self) -> bool:
        return self.run is not None or self.run_population is not None

    @property
    def measured_cells(self) -> int:
        """How many cells of the full run are stored with the page that is called like the paper."""
        known = _stored_keys(self.paper)
        return sum(cell_key(self.id, settings) in known for settings in self.runs)

    @property
    def is_outdated(self) -> bool:
        """Whether the page shows cells of this item, all of them measured with other settings than `runs`."""
        shown = _keys_on_page(self.page).get(self.id, frozenset()) if self.page else frozenset()
        return bool(shown) and shown.isdisjoint(cell_key(self.id, settings) for settings in self.runs)

    @property
    def status(self) -> str:
        """`measured` where a page has the full run, `partly` some of its cells, `ready` where it can run, or `open`."""
        on_page = self.page is not None and self.id in _keys_on_page(self.page)
        if on_page or 0 < self.measured_cells == len(self.runs):
            return "measured"
        if self.measured_cells:
            return "partly"
        return "ready" if self.runnable and self.runs else "open"

    def json(self) -> dict[str, Any]:
        """The entry of `reproduce --list`."""
        scales = [name for name in ("quick", "full") if self.runnable and self.cells(name)]
        page = self.page or (self.paper if self.measured_cells else None)
        return {
            "id": self.id,
            "paper": self.paper,
            "title": self.title,
            "status": self.status,
            "page": f"docs/results/{page}.md" if page else None,
            "cells": {"measured": self.measured_cells, "full": len(self.runs)} if self.status == "partly" else None,
            "scales": scales,
            "published": dict(self.published),
            "note": self.note,
        }

    def cells(self, scale: str) -> Sequence[Settings]:
        return self.quick if scale == "quick" else self.runs


@lru_cache
def _stored_keys(paper: str) -> frozenset[str]:
    """The keys of the cells that are stored with the page of a paper and did not fail."""
    cells = Store(RESULTS / paper / "cells.jsonl").read()
    return frozenset(key for key, cell in cells.items() if "failed" not in cell.result)


@lru_cache
def _keys_on_page(page: str) -> Mapping[str, frozenset[str]]:
    """Return the keys of the cells that are stored with a page, by item."""
    keys: dict[str, set[str]] = {}
    for key, cell in Store(RESULTS / page / "cells.jsonl").read().items():
        keys.setdefault(cell.item, set()).add(key)
    return {item: frozenset(known) for item, known in keys.items()}


def grid(*, seeds: Iterable[int] = (), **axes: Any) -> tuple[Settings, ...]:
    """Every combination of the axes; what is not a list or tuple is the same for all of them.

    >>> grid(data="mnist", epsilon=(1, 3), seeds=range(2))[1]
    {'data': 'mnist', 'epsilon': 1, 'seed': 1}
    """
    return combinations({**axes, "seed": tuple(seeds)} if seeds else axes)


def combinations(axes: Mapping[str, Any]) -> tuple[Settings, ...]:
    """As `grid`, for axes of any name."""
    lists = {name: values if isinstance(values, (list, tuple)) else (values,) for name, values in axes.items()}
    return tuple(dict(zip(lists, values)) for values in itertools.product(*lists.values()))


def open_items(paper: str, missing: Mapping[str, str], note: str = "") -> list[Item]:
    """Items that nobody can run yet: the rest of the identifier and the title of each."""
    return [Item(id=f"{paper}/{name}", title=title, note=note) for name, title in missing.items()]


def items() -> list[Item]:
    """All items of all papers, in the order of their files."""
    return [item for paper in _papers() for item in import_module(f"research.papers.{paper}").ITEMS]


def _papers() -> list[str]:
    """The papers: one a file."""
    files = (path.stem for path in Path(__file__).parent.glob("*.py"))
    return sorted(name for name in files if not name.startswith("_"))


def find(id: str) -> Item:
    """The item with this identifier; a wrong one is answered with those close to it."""
    known = {item.id: item for item in items()}
    if id not in known:
        near = nearest(id, known)
        advice = f"did you mean {near}?" if near else f"names begin with {', '.join(f'{name}/' for name in _papers())}"
        raise WrongInput(f"no item is called {id!r:.80}; {advice} (see reproduce --list)")
    return known[id]


def matching(name: str) -> list[Item]:
    """The item of this name, or all that begin with it: `bao/table1` is each of its parts."""
    name = name.rstrip("/")
    return [item for item in items() if item.id.startswith(f"{name}/") or item.id == name] or [find(name)]


def restricted(chosen: Iterable[Item], only: Iterable[str]) -> list[Item]:
    """Return the items with the cells whose settings `only` allows; an item without such cells is left out.

    Each entry of `only` is NAME=VALUE or NAME=VALUE,VALUE. Entries of one name add up, and a cell must match all names.
    A cell without a setting of that name does not match.

    >>> [one.runs for one in restricted([find("bao/lemma")], ["draws=20000"])]
    [[{'draws': 20000}]]
    """
    allowed: dict[str, set[str]] = {}
    for entry in only:
        name, _, values = entry.partition("=")
        if not name or not values:
            raise WrongInput(f"expected --only NAME=VALUE, got {entry!r:.80}")
        allowed.setdefault(name, set()).update(values.split(","))
    if not allowed:
        return list(chosen)

    def kept(cells: Sequence[Settings]) -> list[Settings]:
        return [
            one for one in cells if all(name in one and str(one[name]) in values for name, values in allowed.items())
        ]

    matched = [replace(item, runs=kept(item.runs), quick=kept(item.quick)) for item in chosen]
    matched = [item for item in matched if item.runs or item.quick]
    if not matched:
        raise WrongInput(f"no cell has the settings {', '.join(map(str, only))}")
    return matched
