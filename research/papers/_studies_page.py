"""Functions of the template of docs/results/studies.md, and the list of its items in search.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from privaware.bench._shown import markdown
from privaware.bench._store import Cell
from research.papers import Item, find, items
from research.papers._page import Page, seeds_of
from research.papers._results import with_published

__all__ = ["functions"]

TABLE1 = [("FCN", n) for n in ("mnist", "fashion_mnist", "svhn", "cifar10")] + [
    ("CNN", n) for n in ("mnist", "svhn", "cifar10")
]
VALUES = ("DP-SGD", "ours", "with noise", "accuracy")


def functions(page: Page) -> dict[str, Callable[..., Any]]:
    known = {"table_one": lambda: table_one(page), "item_list": lambda: item_list(page)}
    return {**known, "measured": page.items, "open_studies": open_studies}


def open_studies() -> list[Item]:
    """What could be run and is not: the figures of both papers that are like those on the page."""
    figures = ("tramer_boneh/figure", "bao/figure")
    ready = [item for item in items() if item.status == "ready" and item.page == "studies"]
    return [item for item in ready if item.id.startswith(figures)]


def table_one(page: Page) -> str:
    """The seven parts of Table I together."""
    head = ["network", "data", "workflow", "parameters", "DP-SGD", "SGD", "best DP-SGD run", "published", "run"]
    rows = []
    for kind, data in TABLE1:
        id = f"bao/table1/{kind.lower()}/{data}"
        [cell] = page.cells(id)
        _, lines = with_published(find(id), cell.result["tables"][0])
        rows += [[kind, data, *line, seeds_of(cell)] for line in lines]
    return markdown(head, rows)


def item_list(page: Page) -> str:
    """One line an item, with a link to its section."""
    lines = []
    for id in page.items():
        item, [cell] = find(id), page.cells(id)
        seeds = f" ({seeds_of(cell)})" if seeds_of(cell) else ""
        lines.append(f"* [{item.title}](studies.md#{anchor(item.title)}){seeds}: {brief(item, cell)}")
    lines += [f"* {item.title}: not run (`privaware reproduce {item.id}`)." for item in open_studies()]
    return "\n".join(lines)


def anchor(title: str) -> str:
    """A heading's name in a link, as GitHub builds it.

    >>> anchor("Table I: FCN on fashion_mnist")
    'table-i-fcn-on-fashion_mnist'
    """
    return re.sub(r"[^a-z0-9_ -]", "", title.lower()).replace(" ", "-")


def brief(item: Item, cell: Cell) -> str:
    """An item's result in one line: the values with noise, the best place of each curve, or its first remark."""
    shown, words = cell.result["tables"][0], cell.result.get("words", [])
    head, rows = with_published(item, shown)
    if head[0] in ("parameters", "learning rate"):
        return "best " + ", ".join(_best(head, rows, at) for at in range(1, len(head))) + "."
    values = [at for at, name in enumerate(head) if name in VALUES]
    if values:
        last = values[0]
        parts = [f"{_label(head[:last], row[:last])} {row[last]}" for row in rows]
        published = [at for at, name in enumerate(head) if name.startswith("published")]
        if published:
            parts = [f"{part} ({row[published[0]]})" for part, row in zip(parts, rows)]
        return "; ".join(parts) + (" (published in brackets)." if published else ".")
    best = [match for text in words for match in re.findall(r"Best with noise: [^.]*\.\d+[^.]*\.\d+", text)]
    return f"{best[0]}." if best else str(words[0] if words else shown["title"])


def _label(head: list[str], row: list[str]) -> str:
    form = {"inputs": "{} inputs", "parameters": "of {}", "epsilon": "at {}", "rate": "at {}"}
    return " ".join(form.get(name, "{}").format(value) for name, value in zip(head, row))


def _best(head: list[str], rows: list[list[str]], at: int) -> str:
    row = max((row for row in rows if row[at]), key=lambda row: float(row[at].split()[0]))
    return f"{head[at]} {row[at]} at {row[0]}"
