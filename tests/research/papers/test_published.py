"""Items written as data: axes, ranges, quick versions and several items from one entry."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from research.papers import Item, _published
from research.papers._published import load_items


def measure(bench: Any, settings: Any, *, data: str = "") -> dict[str, Any]:
    return {"score": settings["seed"], "data": data}


def loaded(monkeypatch: pytest.MonkeyPatch, **entry: Any) -> list[Item]:
    entry = {"id": "test/{data}", "title": "On {data}", "run": "here.measure", **entry}
    monkeypatch.setattr(_published, "tables", lambda paper: {"item": [entry]})
    return load_items("test", here=sys.modules[__name__])


def test_each_value_gives_an_item_whose_function_is_given_it(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = loaded(
        monkeypatch, cell={"seed": 3}, each=[{"data": "mnist"}, {"data": "cifar10", "page": "studies"}]
    )
    assert (first.id, first.title, first.page) == ("test/mnist", "On mnist", None)
    assert (second.id, second.title, second.page) == ("test/cifar10", "On cifar10", "studies")
    assert second.run is not None
    assert second.run(None, second.runs[0]) == {"score": 3, "data": "cifar10"}


def test_lists_are_axes_of_a_grid_and_values_of_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    [item] = loaded(monkeypatch, grid={"columns": "1..3", "seed": [0, 1]})
    assert [tuple(cell.values()) for cell in item.runs] == [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]
    [item] = loaded(monkeypatch, cell={"rates": (1.0, 2.0), "seeds": 5}, quick={"seeds": 1})
    assert list(item.runs) == [{"rates": (1.0, 2.0), "seeds": 5}]
    assert list(item.quick) == [{"rates": (1.0, 2.0), "seeds": 1}]
