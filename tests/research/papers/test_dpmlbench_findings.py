"""Findings of DPMLBench: judged by cells alone, either way, and not at all without enough of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privaware.bench._store import Cell, Store
from research import papers
from research.papers._dpmlbench_cells import cell
from research.papers._dpmlbench_figures import FIGURES
from research.papers._dpmlbench_findings import FINDINGS, NOT_YET, verdicts
from research.papers._dpmlbench_means import Means
from research.papers._dpmlbench_page import Compared
from research.papers._results import rows
from research.papers._runner import run


def stored(learner: str, epsilon: float | None, **result: Any) -> Cell:
    """A cell with this accuracy, and areas of both attacks if `auc` is one of the results."""
    more = {key: result.pop(key) for key in ("network", "data") if key in result}
    settings = cell("dpsgd", more.get("data", "cifar10"), "simple_cnn", epsilon, 0)
    area = result.pop("auc", None)
    areas = {} if area is None else {"auc black_box": area, "auc white_box": area}
    settings = {**settings, "learner": learner, "network": more.get("network", "simple_cnn")}
    return Cell(item="dpmlbench/some", settings=settings, result={"accuracy": 50.0, **result, **areas})


def verdict(name: str, *cells: Cell) -> str:
    [finding] = [each for each in FINDINGS if each.name == name]
    return finding.verdict(Means.of(cells))[0]


def attacked(**areas: float) -> list[Cell]:
    """A baseline that leaks, and Tanh with these areas, by network or data."""
    name = "data" if "svhn" in areas else "network"
    pairs = [
        (stored("sgd", None, auc=0.7, **{name: of}), stored("tanh", 4.0, auc=area, **{name: of}))
        for of, area in areas.items()
    ]
    return [cell for pair in pairs for cell in pair]


def both(
    first: float, second: float, learners: str, epsilons: tuple[float, ...], network: str = "simple_cnn"
) -> list[Cell]:
    """Two learners with these accuracies at each epsilon."""
    accuracies = dict(zip(learners.split(), (first, second)))
    return [
        stored(name, epsilon, network=network, accuracy=value)
        for epsilon in epsilons
        for name, value in accuracies.items()
    ]


def by_network(learner: str, epsilon: float, **accuracies: float) -> list[Cell]:
    return [
        stored(learner, epsilon, network=name.replace("_", " "), accuracy=value) for name, value in accuracies.items()
    ]


def baselines(*areas: float) -> list[Cell]:
    """SGD on data sets in the order of how hard they are."""
    return [
        stored("sgd", None, auc=area, data=name)
        for name, area in zip(("fashion_mnist", "svhn", "cifar10"), areas, strict=True)
    ]


BASE = stored("sgd", None, auc=0.70, accuracy=70.0)
ALL = (1.0, 4.0, 100.0, 1000.0)
CASES: dict[str, tuple[list[Cell], list[Cell]]] = {
    "defence": ([stored("tanh", 4.0, auc=0.51)], [stored("tanh", 4.0, auc=0.54)]),
    "budget": ([BASE, stored("tanh", 1000.0, auc=0.53)], [BASE, stored("tanh", 1000.0, auc=0.6)]),
    "clipping": ([BASE, stored("clipping", None, auc=0.53)], [BASE, stored("clipping", None, auc=0.6)]),
    "clipping_as_noise": (
        [stored("clipping", None, auc=0.52), stored("dpsgd", 8.0, auc=0.51)],
        [stored("clipping", None, auc=0.56), stored("dpsgd", 8.0, auc=0.51)],
    ),
    "clipping_accuracy": (
        [BASE, stored("clipping", None, accuracy=60.0)],
        [BASE, stored("clipping", None, accuracy=50.0)],
    ),
    "clipping_larger": (
        [stored("clipping", None, auc=0.55, network="vgg"), stored("dpsgd", 1000.0, auc=0.52, network="vgg")],
        [stored("clipping", None, auc=0.51, network="vgg"), stored("dpsgd", 1000.0, auc=0.52, network="vgg")],
    ),
    "vgg": (attacked(simple_cnn=0.52, vgg=0.51), attacked(simple_cnn=0.52, vgg=0.53)),
    "harder_data": (baselines(0.52, 0.6, 0.7), baselines(0.6, 0.52, 0.7)),
    "mnist": ([stored("sgd", None, auc=0.51, data="mnist")], [stored("sgd", None, auc=0.6, data="mnist")]),
    "features": (
        [stored("rgp", 100.0, auc=0.51), stored("dpsgd", 100.0, auc=0.52)],
        [stored("rgp", 100.0, auc=0.53), stored("dpsgd", 100.0, auc=0.52)],
    ),
    "no_access": ([stored("pate", 4.0, auc=0.51)], [stored("pate", 4.0, auc=0.53)]),
    "labels": (
        [BASE, stored("alibi", 4.0, auc=0.6), stored("dpsgd", 4.0, auc=0.51)],
        [BASE, stored("alibi", 4.0, auc=0.5), stored("dpsgd", 4.0, auc=0.51)],
    ),
    "reduction_alone": ([BASE, stored("rgp", None, accuracy=60.0)], [BASE, stored("rgp", None, accuracy=71.0)]),
    "public_rows": (
        [stored("gep", 1000.0, network="resnet20", accuracy=70.0), stored("sgd", None, network="resnet20")],
        [stored("gep", 1000.0, network="resnet20", accuracy=40.0), stored("sgd", None, network="resnet20")],
    ),
    "large_models": (
        [stored("dpsgd", 4.0, network="vgg", accuracy=11.0)],
        [stored("dpsgd", 4.0, network="vgg", accuracy=40.0)],
    ),
    "labels_useful": (
        [stored("alibi", 4.0, accuracy=60.0), stored("dpsgd", 4.0)],
        [stored("alibi", 4.0, accuracy=40.0), stored("dpsgd", 4.0)],
    ),
    "networks": (attacked(a=0.52, b=0.52, c=0.53), attacked(a=0.5, b=0.52, c=0.6)),
    "data": (
        attacked(fashion_mnist=0.56, svhn=0.54, cifar10=0.52),
        attacked(fashion_mnist=0.52, svhn=0.54, cifar10=0.56),
    ),
    "tanh": (both(60, 50, "tanh dpsgd", ALL), both(40, 50, "tanh dpsgd", ALL)),
    "reduction_large_models": (
        both(60, 50, "rgp dpsgd", (1.0, 4.0), "vgg"),
        both(40, 50, "rgp dpsgd", (1.0, 4.0), "vgg"),
    ),
    "reduction_large_budget": (both(40, 50, "rgp dpsgd", (100.0, 1000.0)), both(60, 50, "rgp dpsgd", (100.0, 1000.0))),
    "group_norm": (
        by_network("dpsgd", 100.0, relu=50, relu_with_group_norm=55, tanh=60, tanh_with_group_norm=58),
        by_network("dpsgd", 100.0, relu=50, relu_with_group_norm=55, tanh=57, tanh_with_group_norm=58),
    ),
    "linear_model": (
        by_network("hand_dp", 0.2, mlp=30, resnet20=10) + by_network("hand_dp", 1000.0, mlp=50, resnet20=60),
        by_network("hand_dp", 0.2, mlp=10, resnet20=30) + by_network("hand_dp", 1000.0, mlp=50, resnet20=60),
    ),
}


def test_areas_on_data_whose_files_differ_are_not_leakage() -> None:
    assert verdict("defence", stored("dpgen", 4.0, auc=0.54, data="svhn")) == "-"


def test_findings_that_do_not_hold_stand_first() -> None:
    cells = [stored("tanh", 4.0, auc=0.54), *baselines(0.52, 0.6, 0.7)]
    assert [row[1] for row in verdicts(cells, "leakage")][:3] == ["no", "yes", "-"]


@pytest.mark.parametrize("name", [finding.name for finding in FINDINGS])
def test_finding_is_judged_by_its_cells(name: str) -> None:
    holds, fails = CASES[name]
    assert (verdict(name, *holds), verdict(name, *fails), verdict(name)) == ("yes", "no", "-")


def test_cells_of_a_trial_and_failed_ones_judge_nothing() -> None:
    good = stored("tanh", 4.0, auc=0.51)
    small = Cell(item=good.item, settings={**good.settings, "rows": {"train": 600}}, result=good.result)
    failed = Cell(item=good.item, settings=good.settings, result={"failed": "diverged"})
    assert verdict("defence", small, failed) == "-"


def test_each_finding_is_an_item_that_says_what_is_missing(tmp_path: Path) -> None:
    item = papers.find("dpmlbench/finding/leakage/defence")
    [first] = run(item, tmp_path / "empty", scale="full")
    assert first.result == {"holds": None, "words": [NOT_YET]}
    Store(tmp_path / "full" / "cells.jsonl").add(stored("tanh", 4.0, auc=0.51))
    [second] = run(item, tmp_path / "full", scale="full")
    assert second.result["holds"] == 1.0
    names = {item.id.split("/")[-1] for item in papers.items() if item.id.startswith("dpmlbench/finding/")}
    assert names == {finding.name for finding in FINDINGS}


def test_figures_are_drawn_from_stored_cells(tmp_path: Path) -> None:
    store = Store(tmp_path / "cells.jsonl")
    cells = [
        BASE,
        stored("tanh", 4.0, auc=0.52, accuracy=35.0),
        stored("dpsgd", 4.0, auc=0.54, accuracy=49.0),
        stored("alibi", 4.0, auc=0.6),
        stored("rgp at 0.1", 4.0, auc=0.7),
        stored("sgd", None, auc=0.51, network="resnet20"),
        stored("dpsgd", 4.0, auc=0.51, network="resnet20"),
    ]
    for number, each in enumerate(cells):
        store.add(replace(each, settings={**each.settings, "number": number}))
    drawn = {}
    for name in FIGURES:
        [cell] = run(papers.find(f"dpmlbench/{name}"), tmp_path, scale="full")
        drawn[name] = [row for shown in cell.result["tables"] for row in shown["rows"]]
        assert {point["curve"] for chart in cell.result["charts"] for point in chart["points"]} == {
            row[0] for row in drawn[name]
        }
    assert drawn["figure5"] == [["model design: TanhAct", "10.0"], ["model training: DP-SGD", "20.0"]]
    assert drawn["figure6a"] == [["resnet20", "0.0"], ["simple_cnn", "40.0 (30.0 to 50.0)"]]
    assert drawn["figure6b"] == [["simple_cnn", "15.0 (10.0 to 20.0)"]]  # SGD leaks nothing on the other
    assert drawn["figure7b"] == [["cifar10", "15.0 (10.0 to 20.0)"]]
    assert drawn["figure8b"] == [["ALIBI", "50.0"], ["DP-SGD", "20.0"], ["TanhAct", "10.0"]]
    assert drawn["figure10"] == []


def test_areas_of_tables_2_and_5_stand_beside_the_published_ones(tmp_path: Path) -> None:
    for each in (BASE, stored("clipping", None, auc=0.53), stored("dpsgd", 8.0, auc=0.51)):
        Store(tmp_path / "cells.jsonl").add(each)
    shown: dict[str, tuple[float, float]] = {}
    for name in ("areas2", "areas5"):
        item = papers.find(f"dpmlbench/{name}")
        known = rows(item, list(run(item, tmp_path, scale="full")))
        shown |= {row["cell"]: (row["measured"], row["published"]) for row in known}
    assert shown == {
        "sgd, simple_cnn, cifar10, without noise, black_box": (0.7, 0.78),
        "sgd, simple_cnn, cifar10, without noise, white_box": (0.7, 0.72),
        "dpsgd, simple_cnn, cifar10, epsilon 8, black_box": (0.51, 0.52),
        "clipping, simple_cnn, cifar10, without noise, black_box": (0.53, 0.52),
    }


def test_every_finding_is_printed_with_a_verdict() -> None:
    rows = verdicts([BASE], "leakage") + verdicts([BASE], "utility")
    assert len(rows) == len(FINDINGS)
    assert {row[1] for row in rows} == {"-"}


def test_wins_where_both_hardly_learnt_are_no_wins() -> None:
    def compared(ours: float, published: float) -> Compared:
        place = {"algorithm": "dpsgd", "data": "cifar10", "network": "simple_cnn", "epsilon": 0.2}
        return Compared(**place, ours=ours, spread=0.0, seeds=1, published=published)

    assert compared(50.0, 60.0).at_least_as_accurate
    assert compared(50.0, 90.0).at_least_as_accurate
    apart = compared(88.0, 90.0)
    assert apart.hardly_learnt
    assert not apart.at_least_as_accurate


def test_share_of_a_model_that_hardly_leaks_is_left_out() -> None:
    cells = [stored("sgd", None, auc=0.527), stored("tanh", 4.0, auc=0.52)]
    assert Means.of(cells).leakage(("tanh", "simple_cnn", "cifar10", 4.0)) is None
