"""DPMLBench: every table and figure is an item, its cells are priced, and its grid runs within a limit and resumes."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware import accounting, datasets, models
from privaware.bench import _run
from privaware.bench._cells import CellOutcome, TrainingPlace, learner_of, noise_of
from privaware.bench._leakage import attack_of
from privaware.bench._rows import bench_rows, bench_schema
from privaware.bench._store import Cell, Store, cell_key, training_key
from privaware.errors import PrivawareError
from privaware.learners import find_learner
from research import papers
from research.papers import _dpmlbench_grid
from research.papers._dpmlbench_cells import ALGORITHMS, DATA, EPSILONS, NETWORKS, cell, networks_of
from research.papers._dpmlbench_grid import GridRun, line_of, listed_cells, merge, ordered_cells, run_grid
from research.papers._dpmlbench_page import functions as page_functions
from research.papers._dpmlbench_plan import PLAN, GridChoice
from research.papers._dpmlbench_twins import add_twins, settle
from research.papers._page import RESULTS, Page, render
from research.papers._prices import PaperPrices
from research.papers.dpmlbench import ITEMS

TABLES = {f"table{number}" for number in (2, 3, 4, 5, 7, 8, 9, 10, 11)}
FIGURES = {"figure3", "figure4", "figure5", "figure6a", "figure6b", "figure7a", "figure7b", "figure8", "figure8b"}
FIGURES |= {"figure9", "figure10"}
OTHERS = {"areas2", "areas5", "enlarged", "fashion", "finding", "labels", "precision", "rgp_rate"}


def test_every_table_and_figure_is_an_item() -> None:
    assert {item.id.split("/")[1] for item in ITEMS} == TABLES | FIGURES | OTHERS
    ready = {item.id.split("/")[1] for item in ITEMS if item.status != "open"}
    assert ready == (TABLES | FIGURES | OTHERS) - {"table11"}


def published(item: str) -> dict[str, Any]:
    return dict(papers.find(f"dpmlbench/{item}").published)


def test_readable_cells_are_entered_and_unreadable_ones_are_not() -> None:
    assert published("table3/cifar10/dp-sgd")["simple_cnn 1000"] == 40.48
    assert published("table3/cifar10/dp-sgd")["vgg 0.2"] == 90.20
    assert published("table3/mnist/gep")["resnet20 1000"] == 0.46
    assert not any(key.startswith("vgg") for key in published("table3/mnist/gep"))
    assert not any(key.startswith("inception") for key in published("table3/cifar10/dp-sgd"))
    assert published("table5")["resnet20 clipping None"] == 57.42
    assert published("table7")["mlp None"] == 57.32
    assert published("table8/svhn")["inception rgp"] == 93.09
    assert published("figure8/lp-mst") == {"resnet20 4": 71.82}
    assert published("table9/fashion_mnist/priv-knn")["vgg 1000"] == 45.09
    repeated = [key for key in published("table9/fashion_mnist/priv-knn") if key.startswith("inception")]
    assert repeated == []
    for unreadable in ("table4/cifar10/gep", "table9/fashion_mnist/adpclip", "table9/svhn/rgp", "table9/svhn/gep"):
        assert published(unreadable) == {}
    assert len(published("table9/fashion_mnist/pate")) == 15


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_network_of_an_algorithm_fits_and_has_a_price(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "calibrate", None)
    prices, make = PaperPrices("dpmlbench"), find_learner(algorithm)
    for data in DATA:
        for net in networks_of(algorithm):
            settings = cell(algorithm, data, net, 1.0, 0)
            schema, public = bench_schema(settings["rows"], make)
            learner = learner_of(settings, public=public)
            learner.cost(schema, 1.0)
        price = partial(learner.cost, schema)
        noises = [noise_of({**settings, "epsilon": epsilon}, price, prices) for epsilon in EPSILONS]
        by_epsilon = [noise for _, noise in sorted(zip(EPSILONS, noises))]
        assert by_epsilon == sorted(by_epsilon, reverse=True)


@pytest.mark.parametrize(("algorithm", "epsilon"), [("dpsgd", 4.0), ("private_knn", 1.0), ("pate", 1.0), ("gep", 4.0)])
def test_recorded_noise_meets_its_epsilon(algorithm: str, epsilon: float) -> None:
    settings = cell(algorithm, "cifar10", "simple_cnn", epsilon, 0)
    schema, public = bench_schema(settings["rows"], find_learner(algorithm))
    learner = learner_of(settings, public=public)
    noise = noise_of(settings, lambda noise: learner.cost(schema, noise), PaperPrices("dpmlbench"))
    assert 0.99 * epsilon < accounting.epsilon(learner.cost(schema, noise), 1e-5) <= epsilon


def test_parts_of_the_protocol_are_disjoint_and_enlarged() -> None:
    try:
        datasets.path("mnist")
    except PrivawareError:
        pytest.skip("needs the files of mnist")
    table = {"dataset": "mnist", "protocol": "dpmlbench"}
    rows = bench_rows(table, find_learner("pate"))
    assert (len(rows.train), len(rows.test), len(rows.public or ())) == (30_000, 1_000, 9_000)
    assert rows.train.x.shape[1:] == rows.train.schema.shape == (1, 32, 32)
    assert rows.train.schema.rows == 30_000
    assert rows.public is not None
    assert not rows.public.y.any()
    assert {row.tobytes() for row in rows.public.x}.isdisjoint(row.tobytes() for row in rows.test.x)
    assert rows.shadow_train is not None
    assert rows.shadow_test is not None
    assert (len(rows.shadow_train), len(rows.shadow_test)) == (24_000, 6_000)
    attackers = {row.tobytes() for row in rows.shadow_test.x}
    assert all(attackers.isdisjoint(row.tobytes() for row in part.x) for part in (rows.public, rows.test))
    assert len(attackers & {row.tobytes() for row in rows.shadow_train.x}) < 5  # the files repeat a few images
    assert {row.tobytes() for row in rows.train.x[::20]}.isdisjoint(row.tobytes() for row in rows.shadow_train.x)
    schema, public = bench_schema(table, find_learner("pate"))
    assert (schema, len(public or ())) == (rows.train.schema, 9_000)


def test_rows_may_be_halved_in_file_order() -> None:
    try:
        loaded = datasets.load("mnist")
    except PrivawareError:
        pytest.skip("needs the files of mnist")
    rows = bench_rows({"dataset": "mnist", "protocol": "dpmlbench", "shuffled": False}, find_learner("dpsgd"))
    assert np.array_equal(rows.train.y, loaded.train.y[:30_000])
    assert np.array_equal(rows.test.y, loaded.test.y[:5_000])
    assert rows.shadow_test is not None
    assert np.array_equal(rows.shadow_test.y, loaded.test.y[5_000:10_000])


def test_most_informative_cells_come_first() -> None:
    cells = [settings for _, settings in ordered_cells(GridChoice())]
    places = list(dict.fromkeys((c["data"], c["network"], c["algorithm"]) for c in cells))
    assert places[0] == ("cifar10", "simple_cnn", "dpsgd")
    assert places.index(("cifar10", "resnet20", "gep")) < places.index(("fashion_mnist", "simple_cnn", "dpsgd"))
    assert places.index(("svhn", "resnet20", "gep")) < places.index(("cifar10", "vgg", "dpsgd"))
    assert places.index(("svhn", "vgg", "dpsgd")) < places.index(("cifar10", "simple_cnn", "pate"))
    large = [(c["epsilon"], c["algorithm"]) for c in cells if (c["data"], c["network"]) == ("cifar10", "resnet20")]
    assert large.index((1.0, "gep")) < large.index((4.0, "dpsgd"))
    assert [(c["epsilon"], c["seed"]) for c in cells[:4]] == [(1.0, 0), (1.0, 1), (1.0, 2), (4.0, 0)]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Networks that were trained; each cell takes a second."""
    networks: list[str] = []

    def train(place: TrainingPlace, cells: Any) -> list[CellOutcome]:
        networks.extend(cell["network"] for cell in cells)
        return [CellOutcome(result={"score": 0.5, "error": 50.0}, seconds=1.0)] * len(cells)

    monkeypatch.setattr(_run, "train_cells", train)
    monkeypatch.setattr(_dpmlbench_grid, "_rows_are_here", lambda cell: True)
    return networks


def test_grid_resumes_and_begins_nothing_that_would_not_end(tmp_path: Path, trained: list[str]) -> None:
    choice = GridChoice(data=("cifar10",), algorithms=("dpsgd",))
    store = Store(tmp_path / "cells.jsonl")
    run_grid(ordered_cells(choice), store, TrainingPlace(deadline=time.time() + 90))
    assert Counter(trained) == {"simple_cnn": 15, "resnet20": 15}  # InceptionNet is guessed at 190 s, VGG at 100 s
    for _ in range(2):
        run_grid(ordered_cells(choice), store, TrainingPlace(deadline=time.time() + 500))
        assert Counter(trained) == dict.fromkeys(NETWORKS, 15)
    assert _dpmlbench_grid._seconds_a_cell(store.read().values(), ordered_cells(choice)[0][1]) == pytest.approx(1.1)


def test_processes_with_one_folder_of_claims_share_cells(tmp_path: Path, trained: list[str]) -> None:
    wanted = ordered_cells(GridChoice(data=("cifar10",), networks=("simple_cnn",), algorithms=("dpsgd",)))
    how, place = GridRun(claims=tmp_path / "claims"), TrainingPlace(deadline=time.time() + 1e4)
    assert how.claim(wanted[0])  # by another process
    for name in ("one", "two"):
        run_grid(wanted, Store(tmp_path / name / "cells.jsonl"), place, how)
    assert len(trained) == len(wanted) - 1


def test_a_file_of_cells_is_run_in_its_order(tmp_path: Path) -> None:
    wanted = ordered_cells(GridChoice(data=("mnist",), algorithms=("tanh", "dpsgd")))[::-7]
    (tmp_path / "order").write_text("\n".join(line_of(*pair) for pair in wanted))
    assert listed_cells(tmp_path / "order") == wanted


def test_a_line_that_names_no_cell_is_refused(tmp_path: Path) -> None:
    (tmp_path / "order").write_text("dpmlbench/table3/mnist/dp-sgd\tmnist\tdpsgd\tsimple_cnn\t3.0\t0")
    with pytest.raises(PrivawareError, match="expected cells of the paper's items"):
        listed_cells(tmp_path / "order")


def test_failed_cells_run_again_only_if_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "OutOfMemoryError: CUDA out of memory",
    ]

    def train(place: TrainingPlace, cells: Any) -> list[CellOutcome]:
        return [CellOutcome(result={"failed": reasons[0]})] * len(cells)

    monkeypatch.setattr(_run, "train_cells", train)
    wanted = ordered_cells(GridChoice(data=("cifar10",), networks=("simple_cnn",), algorithms=("dpsgd", "tanh")))
    store, place = Store(tmp_path / "cells.jsonl"), TrainingPlace(deadline=time.time() + 1e4)
    monkeypatch.setattr(_dpmlbench_grid, "_rows_are_here", lambda cell: True)
    assert not run_grid(wanted, store, place)
    assert len(store.read()) == 1
    reasons.pop(0)
    assert run_grid(wanted, store, place)  # goes on with the next
    assert {cell.result["failed"] for cell in store.of("dpmlbench/table3/cifar10/tanhact")} == {reasons[0]}
    assert len(store.path.read_text().splitlines()) == 30
    assert run_grid(wanted, store, place, GridRun(retry=True))
    assert len(store.path.read_text().splitlines()) == 60


def test_merge_adds_what_is_missing_once(tmp_path: Path) -> None:
    [(item, first), (_, second), *_] = ordered_cells(GridChoice())
    source, target = Store(tmp_path / "new.jsonl"), Store(tmp_path / "docs" / "cells.jsonl")
    source.add(Cell(item=item, settings=first, result={"score": 0.1}))
    source.add(Cell(item=item, settings=second, result={"failed": "out of memory"}))
    target.add(Cell(item="other", settings={}, result={}))
    assert merge(source.path, target.path) == 2  # it is one of Figure 4 too
    assert merge(source.path, target.path) == 0
    assert cell_key(item, first) in target.read()
    assert len(target.read()) == 3


def test_attacked_cells_also_fill_the_error_rate_tables(tmp_path: Path) -> None:
    store = Store(tmp_path / "cells.jsonl")
    choice = GridChoice(data=("cifar10",), networks=("simple_cnn",), algorithms=("dpsgd",), items=("table4", "table5"))
    wanted = ordered_cells(choice)
    for item, settings in wanted:
        areas = {f"auc {attack_of(one).label}": 0.6 for one in settings["attacks"]}
        result = {"score": 0.5, "error": 50.0, **areas}
        store.add(Cell(item=item, settings=settings, result=result, run={"seconds": 1.0}))
    assert add_twins(store) == 15 + 15 + 3 + 3  # Tables 3, 2 and 8, and Figure 4
    assert add_twins(store) == 0
    known = store.read()
    error_rates = ordered_cells(GridChoice(data=("cifar10",), networks=("simple_cnn",), algorithms=("dpsgd",)))
    assert [known[cell_key(*pair)].result for pair in error_rates] == [{"score": 0.5, "error": 50.0}] * 15
    baseline = [
        settings for settings in papers.find("dpmlbench/table2/cifar10").runs if settings["network"] == "simple_cnn"
    ]
    assert [known[cell_key("dpmlbench/table2/cifar10", settings)].result for settings in baseline] == [result] * 3


def test_training_that_was_run_twice_counts_once_everywhere(tmp_path: Path) -> None:
    store = Store(tmp_path / "cells.jsonl")
    choice = GridChoice(data=("cifar10",), networks=("simple_cnn",), algorithms=("dpsgd",), epsilons=(1.0,), seeds=(0,))
    [(table3, plain)], [(table4, attacked)] = (ordered_cells(replace(choice, items=(n,))) for n in ("table3", "table4"))
    areas = {"score": 0.3, "auc black_box": 0.6}
    store.add(Cell(item=table3, settings=plain, result={"score": 0.1}, run={"date": "2026-11-17"}))
    assert add_twins(store) == 1  # Figure 4
    store.add(Cell(item=table4, settings=attacked, result=areas, run={"date": "2026-11-16"}))
    old = {**plain, "settings": {**plain["settings"], "lr": 0.5}}
    store.add(Cell(item=table3, settings=old, result={"score": 0.2}, run={"date": "2026-11-18"}))
    planned = {cell_key(item.id, run) for item in ITEMS for run in item.runs}
    assert settle(store, planned) == 3
    assert {cell.item: cell.result["score"] for cell in store.read().values()} == dict.fromkeys(
        (table3, table4, "dpmlbench/figure4"), 0.3
    )
    moved = Store(tmp_path / "superseded.jsonl").read().values()
    assert sorted(cell.result["score"] for cell in moved) == [0.1, 0.1, 0.2]
    assert settle(store, planned) == 0


def test_no_training_stands_twice_in_the_stored_cells() -> None:
    runs: dict[str, set[float]] = {}
    for each in Store(RESULTS / "dpmlbench" / "cells.jsonl").read().values():
        if "rows" in each.settings:
            runs.setdefault(training_key(each.settings), set()).add(each.result["score"])
    assert len(runs) > 200
    assert all(len(scores) == 1 for scores in runs.values())


def trained_as(settings: Any) -> tuple[Any, ...]:
    """What tells trainings apart: the parsed network, and the settings of the descent."""
    schema, public = bench_schema(settings["rows"], find_learner(settings["algorithm"]))
    learner: Any = learner_of(settings, public=public)
    same = {name: getattr(learner, name) for name in ("epochs", "batch", "lr", "momentum", "norm", "average")}
    return models.parse(learner._architecture(schema)), learner._features(schema), same, learner.cost(schema, 1.0)


@pytest.mark.parametrize("algorithm", ["dpsgd", "tanh"])
def test_figure_4_cells_without_group_norm_are_those_of_table_3(tmp_path: Path, algorithm: str) -> None:
    store = Store(tmp_path / "cells.jsonl")
    choice = GridChoice(data=("cifar10",), networks=("simple_cnn",), algorithms=(algorithm,), epsilons=(4.0,))
    (item, settings), *_ = ordered_cells(choice)
    store.add(Cell(item=item, settings=settings, result={"score": 0.5}))
    assert add_twins(store) == 1
    [twin] = store.of("dpmlbench/figure4")
    assert twin.settings["network"] == {"dpsgd": "relu", "tanh": "tanh"}[algorithm]
    assert trained_as(twin.settings) == trained_as(settings)
    assert (twin.settings["epsilon"], twin.settings["seed"]) == (4.0, 0)


def test_plan_begins_with_one_seed_of_every_algorithm() -> None:
    chosen = [ordered_cells(choice) for choice in PLAN[:-1]]
    assert all(chosen)
    cells = [settings for group in chosen for _, settings in group if not settings["attacks"]]
    small = {(c["algorithm"], c["data"], c["epsilon"], c["seed"]) for c in cells if c["network"] == "simple_cnn"}
    assert {(name, data, epsilon, 0) for name in ALGORITHMS for data in DATA for epsilon in EPSILONS} <= small
    seeded = {(name, data) for name, data, epsilon, seed in small if seed == 2}
    assert seeded == {(n, data) for n in set(ALGORITHMS) - {"private_set"} for data in ("cifar10", "fashion_mnist")}
    large = {(c["network"], c["algorithm"]) for c in cells} - {("simple_cnn", name) for name in ALGORITHMS}
    assert {("resnet20", "hand_dp"), ("inception", "rgp"), ("vgg", "tanh")} <= large
    attacked = {(c["learner"], c["network"]) for group in chosen for _, c in group if c["attacks"]}
    assert {("sgd", "simple_cnn"), ("pate", "simple_cnn"), ("tanh", "resnet20"), ("alibi", "vgg")} <= attacked


def test_parts_of_the_plan_are_disjoint_and_leave_out_nothing() -> None:
    def part(number: int) -> list[str]:
        options = ["--plan", "--networks", "simple_cnn", "--items", "labels", "--part", f"{number}/3"]
        return [cell_key(*pair) for pair in _dpmlbench_grid._wanted(_dpmlbench_grid._parser().parse_args(options))]

    parts = [part(number) for number in (1, 2, 3)]
    assert len(set().union(*parts)) == sum(map(len, parts)) == 2 * len(DATA) * len(EPSILONS) * 3


def test_cells_wait_for_files_of_their_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: list[str]
) -> None:
    here, order = {"mnist"}, []
    monkeypatch.setattr(_dpmlbench_grid, "_rows_are_here", lambda cell: cell["data"] in here)
    monkeypatch.setattr(_dpmlbench_grid.time, "sleep", lambda seconds: here.add("cifar10"))
    run = _dpmlbench_grid._run_one
    monkeypatch.setattr(
        _dpmlbench_grid, "_run_one", lambda pair, *rest: order.append(pair[1]["data"]) or run(pair, *rest)
    )
    choice = GridChoice(data=("cifar10", "mnist"), networks=("simple_cnn",), algorithms=("dpsgd",), seeds=(0,))
    store, place = Store(tmp_path / "cells.jsonl"), TrainingPlace(deadline=time.time() + 100)
    assert run_grid(ordered_cells(choice), store, place, GridRun(wait=True))
    assert order == ["mnist"] * 5 + ["cifar10"] * 5


def test_cell_records_how_it_was_run(tmp_path: Path, trained: list[str]) -> None:
    choice = GridChoice(data=("mnist",), networks=("simple_cnn",), algorithms=("gep",), epsilons=(4.0,), seeds=(0,))
    store = Store(tmp_path / "cells.jsonl")
    place = TrainingPlace(device="cpu", commit="abc", command="python -m grid", deadline=time.time() + 1e4)
    run_grid(ordered_cells(choice), store, place)
    [cell] = store.read().values()
    assert set(cell.run) == {"commit", "machine", "date", "command", "seconds", "precision"}
    assert (cell.run["commit"], cell.run["command"], cell.run["precision"]) == ("abc", "python -m grid", "float32")


def test_focal_cells_train_by_equation_3() -> None:
    settings = cell("focal", "mnist", "simple_cnn", 1.0, 0)
    schema, public = bench_schema(settings["rows"], find_learner("focal"))
    loss = learner_of(settings, public=public)._descent(schema, 1.0).loss  # type: ignore[attr-defined]
    assert (type(loss).__name__, loss.gamma, loss.epochs) == ("losing_less", 5.0, 60.0)


def test_rgp_takes_the_rate_of_the_script_at_small_epsilons(tmp_path: Path) -> None:
    choice = GridChoice(data=("cifar10",), networks=("simple_cnn",), algorithms=("rgp",), seeds=(0,))
    rates = {settings["epsilon"]: settings["settings"]["lr"] for _, settings in ordered_cells(choice)}
    assert rates == {0.2: 0.01, 1.0: 0.01, 4.0: 0.1, 100.0: 0.1, 1000.0: 0.1}
    for items, learner in ((("rgp_rate",), "rgp at 0.01"), (("table3",), "rgp")):
        store = Store(tmp_path / learner / "cells.jsonl")
        for item, settings in ordered_cells(replace(choice, items=items, learners=(learner,))):
            store.add(Cell(item=item, settings=settings, result={"score": 0.5}))
        add_twins(store)
        known = set(store.read())
        assert known <= {cell_key(item.id, cell) for item in ITEMS for cell in item.runs}
        assert sum("rgp at 0.01" in key for key in known) == {"rgp": 2, "rgp at 0.01": 5}[learner]
        assert sum(key.startswith("dpmlbench/table3") for key in known) == {"rgp": 5, "rgp at 0.01": 2}[learner]


def test_slow_algorithm_is_not_begun_where_it_would_not_end(tmp_path: Path, trained: list[str]) -> None:
    choice = GridChoice(data=("cifar10",), networks=("simple_cnn",), algorithms=("dpsgd", "gep"))
    run_grid(ordered_cells(choice), Store(tmp_path / "cells.jsonl"), TrainingPlace(deadline=time.time() + 60))
    assert len(trained) == 15  # a cell of GEP is guessed at 120 s


def test_page_counts_what_is_met_and_lists_what_is_missed(tmp_path: Path) -> None:
    store = Store(tmp_path / "dpmlbench" / "cells.jsonl")
    errors = {0.2: 0.88, 1.0: 0.70, 4.0: 0.60, 100.0: 0.41}  # published for DP-SGD: 89.80, 89.13, 48.79 and 40.03
    for item, settings in ordered_cells(GridChoice(data=("cifar10",), networks=("simple_cnn",), algorithms=("dpsgd",))):
        if settings["epsilon"] in errors:
            score = 1 - errors[settings["epsilon"]] + 0.01 * (settings["seed"] - 1)
            store.add(Cell(item=item, settings=settings, result={"score": score}, run={"seconds": 1.0}))
    text = render(Page("dpmlbench", tmp_path))
    assert "both errors are above 85% in 1: these count neither as wins nor as losses" in " ".join(text.split())
    assert "Of the other 3, ours are at least as accurate in 1 (33%), and level in 1 more" in " ".join(text.split())
    assert (
        "| dpsgd | 88.00 ± 1.00 (89.80) | **70.00 ± 1.00 (89.13)** | 60.00 ± 1.00 (48.79) | 41.00 ± 1.00 (40.03) |  |"
        in text
    )
    assert "| dpsgd | cifar10 | simple_cnn | 4 | 60.00 ± 1.00 | 48.79 | 11.21 | not known |" in text
    assert "| 41.00 ± 1.00 | 40.03 | 0.97 | within two standard errors |" in text
    planned = sum(len(item.runs) for item in ITEMS if item.run_population is not None)
    assert f"12 of {planned} planned cells" in " ".join(text.split())


def test_other_algorithms_far_behind_are_listed(tmp_path: Path) -> None:
    store = Store(tmp_path / "dpmlbench" / "cells.jsonl")
    errors = {4.0: 0.40, 1000.0: 0.346}  # published for PATE on MNIST: 33.36 and 10.98
    for item, settings in ordered_cells(GridChoice(data=("mnist",), networks=("simple_cnn",), algorithms=("pate",))):
        if settings["epsilon"] in errors and settings["seed"] == 0:
            store.add(Cell(item=item, settings=settings, result={"score": 1 - errors[settings["epsilon"]]}, run={}))
    view = page_functions(Page("dpmlbench", tmp_path))
    assert view["misses"]() == "None."
    assert "| pate | mnist | simple_cnn | 1000 | 34.60 | 10.98 | 23.62 | not known |" in view["misses"](gradient=False)
    assert "33.36" in view["misses"](gradient=False, above=5.0)
    assert "33.36" not in view["misses"](gradient=False, above=7.0)
