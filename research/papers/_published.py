"""Published numbers and lists of items as data: published/PAPER.toml.

A file has tables of numbers, and items as `[[item]]`: the fields of `Item`, `run` as MODULE.FUNCTION, and its cells as

    grid = {epsilon = [1.0, 3.0], data = "mnist", seed = [0, 1]}   # every combination; a list is an axis
    grids = [{...}, {...}]                                         # several grids, one after another
    grid = {columns = "1..43", repeats = 30}                       # a range as an axis
    cell = {epsilons = [1.0, 3.0], seeds = 5}                      # one cell; a list is a value
    with = {head = ["model", "ours"]}                              # what else the function is given
    each = [{data = "mnist"}, {data = "cifar10", page = "dpnas"}]  # several items: {data} in id and title is filled
    quick = {seeds = 1}                                            # what differs from `cell`, or a list of cells
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

from privaware.bench import Settings
from research.papers import Item, combinations

__all__ = ["keyed", "load_items", "tables"]

CELLS = ("cell", "grid", "grids", "quick", "with")
FIELDS = {*CELLS, *(field.name for field in dataclasses.fields(Item))}


@cache
def tables(paper: str) -> dict[str, Any]:
    """What the file of a paper holds, lists as tuples."""
    text = Path(__file__).with_name("published").joinpath(f"{paper}.toml").read_text(encoding="utf-8")
    return {name: _frozen(value) for name, value in tomllib.loads(text).items()}


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _frozen(one) for name, one in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def keyed(rows: Sequence[Sequence[Any]], keys: int = 1) -> dict[Any, Any]:
    """Rows by their first entry, or entries: the rest is a tuple, or one value.

    >>> keyed([["mnist", "linear", 98.8, 0.2], ["mnist", "cnn", 98.8, 0.3]], keys=2)
    {('mnist', 'linear'): (98.8, 0.2), ('mnist', 'cnn'): (98.8, 0.3)}
    """
    pairs = [(tuple(row[:keys]), tuple(row[keys:])) for row in rows]
    return {key if keys > 1 else key[0]: rest if len(rest) > 1 else rest[0] for key, rest in pairs}


def load_items(paper: str, **modules: ModuleType) -> list[Item]:
    """The items of a paper's file; `modules` hold the functions that run them."""
    return [_item(one, modules) for entry in tables(paper)["item"] for one in _each(entry)]


def _each(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """An entry for each value of `each`: fields of its own, and what fills the braces and is given to the function."""
    for values in entry.get("each", [{}]):
        own = {name: value for name, value in values.items() if name in FIELDS}
        given = {name: value for name, value in values.items() if name not in FIELDS}
        one = {**{name: value for name, value in entry.items() if name != "each"}, **own}
        words = {name: one[name].format(**given) for name in ("id", "title", "note") if name in one and given}
        yield {**one, **words, "with": {**entry.get("with", {}), **given}}


def _ranges(axes: Settings) -> dict[str, Any]:
    """Axes with "1..43" as the list of these numbers."""
    spans = {name: re.fullmatch(r"(\d+)\.\.(\d+)", str(value)) for name, value in axes.items()}
    return {name: list(range(int(m[1]), int(m[2]) + 1)) if (m := spans[name]) else v for name, v in axes.items()}


def _item(entry: Mapping[str, Any], modules: Mapping[str, ModuleType]) -> Item:
    fields = {name: value for name, value in entry.items() if name not in CELLS}
    for way in ("run", "run_population"):
        if way in fields:
            module, _, function = fields[way].partition(".")
            fields[way] = partial(getattr(modules[module], function), **entry.get("with", {}))
    if fields.get("measured") == "":
        fields["measured"] = None
    axes = entry.get("grids", [entry["grid"]] if "grid" in entry else [])
    runs: list[Settings] = (
        [entry["cell"]] if "cell" in entry else [cell for each in axes for cell in combinations(_ranges(each))]
    )
    quick = entry.get("quick", [])
    return Item(**fields, runs=runs, quick=[{**runs[0], **quick}] if isinstance(quick, dict) else quick)
