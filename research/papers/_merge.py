"""Adds cells that were run elsewhere to the pages of their items.

    python -m research.papers._merge FILE...      # each a cells.jsonl
    python -m research.papers._page               # then writes the pages

A cell that its item plans is added once. It takes the place of the item's cells with earlier settings.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from privaware.bench._store import Cell, Store, cell_key
from research.papers import RESULTS, Item, items

__all__ = ["merge"]


def merge(cells: Iterable[Cell], results: Path = RESULTS, known: Iterable[Item] | None = None) -> int:
    """Add `cells` to the stored cells of their pages and return how many were added.

    Parameters
    ----------
    cells
        Finished cells. Failed cells, and cells that no item plans, are left out. Cells of an item without a page go to
        the page that is called like the paper.
    results
        The folder of the pages.
    known
        The items; all items of all papers if it is not given.
    """
    by_id = {item.id: item for item in (items() if known is None else known)}
    added = 0
    for cell in cells:
        item = by_id.get(cell.item)
        if item is None or "failed" in cell.result:
            continue
        planned = {cell_key(item.id, settings) for settings in item.runs}
        store = Store(results / (item.page or item.paper) / "cells.jsonl")
        stored = list(store.read().values())
        if cell.key not in planned or cell.key in {one.key for one in stored}:
            continue
        outdated = [at for at, one in enumerate(stored) if one.item == item.id and one.key not in planned]
        place = outdated[0] if outdated else len(stored)
        stored.insert(place, cell)
        store.path.parent.mkdir(parents=True, exist_ok=True)
        store.write(one for one in stored if one.item != item.id or one.key in planned)
        added += 1
    return added


if __name__ == "__main__":
    print(merge(cell for file in sys.argv[1:] for cell in Store(Path(file)).read().values()), "cells added")
