"""The page of unseen images: the share of the plain gain, and that over tables, texts and images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privaware.bench._store import Cell, Store
from research.papers import _unseen_tables_page, _unseen_texts_page
from research.papers._page import Page
from research.papers._unseen_images_page import EARLIER, ITEM, PUBLIC, WEIGHED, functions

PRIVATE = ("auto", "private constant")


def stored(folder: Path, page: str, item: str, name: dict[str, str], scores: dict[str, list[float]]) -> None:
    for method, values in scores.items():
        for seed, score in enumerate(values):
            bare = method.removesuffix(WEIGHED).removesuffix(PUBLIC)
            private = {"epsilon": 1.0, "seed": seed} if bare in PRIVATE else {}
            settings: dict[str, Any] = {**name, "method": bare, **private}
            settings |= {"network": "EfficientNet-Lite0"} if PUBLIC in method else {}
            settings |= {"weighed": True} if method.endswith(WEIGHED) else {}
            facts = {"rows": 900, "classes": 2, "learner": "linear", "shape": [1, 28, 28], "half": "check"}
            result = {"score": score, "task": "classification", **facts}
            cell = Cell(item=item, settings=settings, result=result, run={"commit": "abc"})
            Store(folder / page / "cells.jsonl").add(cell)


def images(folder: Path, name: str, scores: dict[str, list[float]]) -> None:
    stored(folder, "unseen_images", ITEM, {"images": name}, scores)


def cells_of(table: str) -> list[list[str]]:
    return [[entry.strip() for entry in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def test_share_uses_the_better_plain_method_and_names_low_sets(tmp_path: Path) -> None:
    plain = {"constant": [0.5], "logistic regression": [0.7], "network": [0.9]}
    images(tmp_path, "good", {"auto": [0.7, 0.9], "private constant": [0.5, 0.5], **plain})
    images(tmp_path, "low", {"auto": [0.46, 0.46], "private constant": [0.48, 0.5], **plain, "network": [0.6]})
    images(tmp_path, "half measured", {"auto": [0.9], "private constant": [0.5]})
    shown = functions(Page("unseen_images", results=tmp_path))
    assert cells_of(shown["begun"]()) == [["half measured", "900", "1", "1", "0.900", "0.500"]]
    assert cells_of(shown["shares"]()) == [["1", "2", "2", "0.433", "0.433", "0.433", "0.433", "low"]]
    assert [row[:4] for row in cells_of(shown["every"]())] == [
        ["good", "900", "2", "grey"],
        ["low", "900", "2", "grey"],
    ]


def test_earlier_features_are_compared_where_they_were_better(tmp_path: Path) -> None:
    private = {"auto": [0.7], "private constant": [0.5], "constant": [0.5]}
    images(tmp_path, "one", {**private, "logistic regression": [0.7], "network": [0.6], EARLIER: [0.9]})
    shown = functions(Page("unseen_images", results=tmp_path))
    assert cells_of(shown["shares"]())[0][3] == "0.500"
    assert cells_of(shown["every"]())[0][-2:] == ["0.900", ""]


def test_both_shares_are_shown_where_public_network_was_taken(tmp_path: Path) -> None:
    plain = {"constant": [0.5], "logistic regression": [0.7], "network": [0.6]}
    private = {"auto": [0.6, 0.6], f"auto{PUBLIC}": [0.7], "private constant": [0.5]}
    images(tmp_path, "one", {**private, **plain, f"logistic regression{PUBLIC}": [0.9]})
    shown = functions(Page("unseen_images", results=tmp_path))
    assert cells_of(shown["shares"]()) == [["1", "1", "1", "0.500", "1.000", "1.000", "0.500", "none"]]
    row = cells_of(shown["every"]())[0]
    assert (row[6:10], row[-1]) == (["0.700", "0.700", "0.600", "0.500"], "0.900")
    joint = {cells[0]: cells[-1] for cells in cells_of(shown["joint"](1.0))}
    assert (joint["images"], joint["images, of the best with the public network"]) == ("1.000", "0.500")


def test_weighed_parts_of_auto_stand_beside_earlier_parts(tmp_path: Path) -> None:
    plain = {"constant": [0.5], "logistic regression": [0.7], "network": [0.6]}
    private = {"auto": [0.52], f"auto{PUBLIC}": [0.6], f"auto{PUBLIC}{WEIGHED}": [0.66], "private constant": [0.5]}
    logistic = {f"logistic regression{PUBLIC}": [0.7], f"logistic regression{PUBLIC}{WEIGHED}": [0.9]}
    images(tmp_path, "one", {**private, **plain, **logistic})
    shown = functions(Page("unseen_images", results=tmp_path))
    assert cells_of(shown["shares"]()) == [["1", "1", "1", "0.100", "0.500", "0.800", "0.400", "none"]]
    row = cells_of(shown["every"]())[0]
    assert (row[6:9], row[-1]) == (["0.660", "0.600", "0.520"], "0.900")


def test_the_joint_share_sums_gains_of_all_three_pages(tmp_path: Path) -> None:
    private = {"auto": [0.7], "private constant": [0.5], "constant": [0.5]}
    images(tmp_path, "one", {**private, "logistic regression": [0.7], "network": [0.9]})
    stored(
        tmp_path,
        "unseen_texts",
        _unseen_texts_page.ITEM,
        {"text": "two"},
        {**private, "plain": [0.7], f"logistic regression{PUBLIC}": [1.0]},
    )
    stored(tmp_path, "unseen_tables", _unseen_tables_page.ITEM, {"table": "three"}, {**private, "plain trees": [0.9]})
    rows = cells_of(functions(Page("unseen_images", results=tmp_path))["joint"](1.0))
    assert rows == [
        ["tables", "1", "0.200", "0.400", "0.500"],
        ["texts", "1", "0.200", "0.200", "1.000"],
        ["images", "1", "0.200", "0.400", "0.500"],
        ["all together", "3", "0.600", "1.000", "0.600"],
        ["texts, of the best with the public network", "1", "0.200", "0.500", "0.400"],
        ["images, of the best with the public network", "1", "0.200", "0.400", "0.500"],
        ["all together, of the best with them", "3", "0.600", "1.300", "0.462"],
    ]
