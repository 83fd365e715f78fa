"""Grids of a user's own benchmark: every combination, and kind refusals before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware.bench._grid import read_grid
from privaware.errors import WrongInput
from tests.bench.grids import SMALL, grid_cells

NETWORKS = {"a": {"name": "fcn", "hidden": [4]}, "b": {"name": "fcn", "hidden": [8]}}


def test_grid_has_every_combination() -> None:
    cells = grid_cells({**SMALL, "architectures": NETWORKS, "learners": {"linear": {}, "dpsgd": {"steps": 2}}})
    places = [(cell["learner"], cell["network"], cell["epsilon"], cell["seed"]) for cell in cells]
    assert len(set(places)) == len(places) == 4 + 8
    assert {cell["network"] for cell in cells if cell["learner"] == "linear"} == {"-"}
    assert cells[-1]["architecture"] == NETWORKS["b"]
    assert cells[-1]["settings"] == {"steps": 2}


def test_line_may_choose_its_architectures_data_and_epsilons() -> None:
    line = {"learner": "dpsgd", "architectures": ["b"], "epsilons": [3.0], "loss": {"name": "focal"}}
    cells = grid_cells({**SMALL, "architectures": NETWORKS, "learners": {"dpsgd + focal": line}})
    assert {(cell["network"], cell["epsilon"]) for cell in cells} == {("b", 3.0)}
    assert cells[0]["algorithm"] == "dpsgd"
    assert cells[0]["settings"] == {"loss": {"name": "focal"}}


def test_baseline_is_trained_without_noise() -> None:
    cells = grid_cells({**SMALL, "baseline": {"learner": "dpsgd", "steps": 2}})
    assert [cell["epsilon"] for cell in cells if cell["learner"] == "baseline"] == [None, None]


def test_published_network_is_found_by_its_name() -> None:
    grid = {
        **SMALL,
        "learners": {"dpsgd": {"steps": 2}},
        "architectures": {"resnet": {"named": "resnet32.colour.461882"}},
    }
    with pytest.raises(WrongInput, match="resnet"):  # digits are too small for it, and that is said before a run
        grid_cells({**grid, "data": ["wisconsin"]})
    cells = grid_cells({**grid, "data": {"cifar10": {"protocol": "dpmlbench"}}})
    assert cells[0]["architecture"]["depth"] == 32


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": [1.0]}, "among architectures, attacks, baseline, data, delta, epsilons, learners, seeds, shadow"),
        ({"epsilon": [1.0]}, "got 'epsilon'; did you mean epsilons?"),
        ({"data": []}, "data as a list of names"),
        ({"data": ["digit"]}, "did you mean digits"),
        ({"data": {"digits": {"shuffled": False}}}, "data.digits: expected shuffled as true or false with protocol"),
        (
            {"data": {"digits": {"rows": 9}}},
            "data.digits: expected entries among dataset, protocol, shuffled, test, train, got 'rows'",
        ),
        ({"epsilons": [0.0]}, "grid: expected epsilons > 0, got 0"),
        ({"epsilons": 1.0}, "epsilons as a list"),
        ({"epsilons": []}, "expected epsilons, in this table or for the whole grid"),
        ({"seeds": 0}, "seeds as a positive number of seeds or a list"),
        ({"delta": 1.0}, "delta in (0, 1)"),
        ({"delta": 0.1}, "expected delta below 1 / 60 rows, got 0.1"),
        ({"learners": {}}, "at least one learner"),
        ({"learners": {"liner": {}}}, "did you mean linear"),
        ({"learners": {"linear": {"step": 3}}}, "linear has no setting 'step'"),
        ({"learners": {"linear": {"steps": "many"}}}, "steps is expected as int"),
        ({"learners": {"mean": {}}}, "mean on digits: expected data for regression, got classification"),
        ({"learners": {"baseline": {"learner": "linear"}}}, "another name than baseline"),
        ({"learners": {"linear": {"data": ["mnist"]}}}, "data among digits"),
        ({"attacks": ["telepathy"]}, "telepathy"),
        ({"architectures": {"a": {"hidden": [4]}}, "learners": {"dpsgd": {}}}, 'a "name" of `privaware list models`'),
        ({"architectures": {"a": {"name": "fcn", "wings": 2}}, "learners": {"dpsgd": {}}}, "fcn has no field 'wings'"),
    ],
)
def test_wrong_grid_is_refused_in_a_sentence(change: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongInput) as refusal:
        grid_cells({**SMALL, **change})
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_file_that_is_no_grid_is_refused(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text("data = [")
    with pytest.raises(WrongInput, match="expected a grid in TOML"):
        read_grid(tmp_path / "grid.toml")
    with pytest.raises(WrongInput, match="cannot read the grid"):
        read_grid(tmp_path / "none.toml")


def own_rows(folder: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 2)).round(3)
    lines = [f"{a},{b},{'yes' if a > 0 else 'no'}" for a, b in rows]
    (folder / "own.csv").write_text("a,b,c\n" + "\n".join(lines) + "\n")


def test_own_rows_must_be_declared_public(tmp_path: Path) -> None:
    own_rows(tmp_path)
    table = {"file": "own.csv", "target": "c"}
    for public in ({}, {"public": False}, {"public": "yes"}):
        with pytest.raises(
            WrongInput, match=r"data.mine: expected public = true, because a benchmark trains many models"
        ):
            grid_cells({**SMALL, "data": {"mine": {**table, **public}}}, tmp_path)
    cells = grid_cells({**SMALL, "data": {"mine": {**table, "public": True}}}, tmp_path)
    assert cells[0]["rows"]["file"] == str(tmp_path / "own.csv")


def test_changed_rows_are_other_cells(tmp_path: Path) -> None:
    own_rows(tmp_path)
    grid = {**SMALL, "data": {"mine": {"file": "own.csv", "target": "c", "public": True}}}
    before = grid_cells(grid, tmp_path)
    (tmp_path / "own.csv").write_text((tmp_path / "own.csv").read_text() + "0.5,0.5,yes\n")
    assert grid_cells(grid, tmp_path)[0]["rows"] != before[0]["rows"]
