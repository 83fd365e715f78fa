"""The check of a whole grid before anything runs: what cannot be is named with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from privaware import datasets
from privaware.bench._possible import impossible
from privaware.bench._rows import bench_rows, bench_schema
from privaware.errors import WrongInput
from privaware.learners import find_learner
from tests.bench.grids import SMALL, grid_cells

ONE = {"data": ["digits"], "epsilons": [1.0], "learners": {"dpsgd": {"steps": 2}}}


def reason(**change: Any) -> str:
    """The sentence with which a grid is refused."""
    with pytest.raises(WrongInput) as refusal:
        grid_cells({**ONE, **change})
    return str(refusal.value)


@pytest.mark.parametrize(("attack", "shadows"), [("black_box", 1), ("white_box", 1), ("rmia", 1), ("lira", 2)])
def test_shadows_are_as_many_as_the_attacks_need(attack: str, shadows: int) -> None:
    [cell] = grid_cells({**ONE, "attacks": ["threshold", attack]})
    assert cell["shadows"] == shadows


def test_attack_without_shadows_leaves_the_rows_whole() -> None:
    [cell] = grid_cells({**ONE, "attacks": ["threshold"]})
    assert cell["rows"] == {"dataset": "digits"}
    assert "shadows" not in cell


def test_shadow_models_halve_the_rows() -> None:
    [cell] = grid_cells({**ONE, "attacks": ["black_box"]})
    assert cell["rows"] == {"dataset": "digits", "protocol": "halves"}
    rows = bench_rows(cell["rows"], find_learner("dpsgd"))
    assert rows.shadow_train is not None
    assert rows.shadow_test is not None
    assert [len(part) for part in (rows.train, rows.shadow_train, rows.test, rows.shadow_test)] == [719, 719, 179, 179]
    assert rows.train.schema.rows == bench_schema(cell["rows"], find_learner("dpsgd"))[0].rows == 719


def test_halves_leave_the_public_part_to_learners_that_need_it() -> None:
    rows = bench_rows({"dataset": "digits", "protocol": "halves"}, find_learner("gep"))
    schema, public = bench_schema({"dataset": "digits", "protocol": "halves"}, find_learner("gep"))
    assert rows.public is not None
    assert public is not None
    assert len(rows.public) == len(public) == datasets.source("digits").public_rows
    assert rows.train.schema.rows == schema.rows == len(rows.train) == 647


def test_attack_may_have_settings() -> None:
    [cell] = grid_cells({**ONE, "attacks": [{"name": "black_box", "epochs": 2}]})
    assert cell["attacks"] == [{"name": "black_box", "epochs": 2}]
    assert "black_box has no setting 'epoch'" in reason(attacks=[{"name": "black_box", "epoch": 2}])
    assert "attacks as names, or tables with a name" in reason(attacks=[{"epochs": 2}])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attacks": ["lira"], "shadows": 1}, "expected at least 2 shadow models for lira, got 1"),
        ({"attacks": ["black_box"], "data": {"digits": {"protocol": "official"}}}, 'expected protocol = "halves"'),
        (
            {"data": {"digits": {"protocol": "dpmlbench"}}, "learners": {"gep": {}}},
            "gep on digits: expected at least 4,002 test rows, from which protocol dpmlbench takes public rows, got 3",
        ),
        (
            {"data": {"digits": {"protocol": "dpmlbench"}}, "learners": {"pate": {}}},
            "pate on digits: expected at least 10,000 test rows",
        ),
        ({"learners": {"pate": {"queries": 200}}}, "pate on digits: pate: expected at least 200 public rows"),
        (
            {"learners": {"gep": {}}, "architectures": {"wide": {"name": "fcn", "hidden": [4096, 4096]}}},
            "gep with wide on digits: gep: expected a basis of at most",
        ),
        (
            {"data": ["medical_cost"], "attacks": ["label_only"], "learners": {"linear": {}}},
            "linear on medical_cost: expected classes for the attack label_only, got regression",
        ),
        (
            {"attacks": ["white_box"], "learners": {"majority": {}}},
            "majority on digits: white_box: expected a network whose last layer is linear",
        ),
    ],
)
def test_impossible_grid_is_refused_before_it_runs(change: dict[str, Any], words: str) -> None:
    assert words in reason(**change)


def test_all_impossible_combinations_are_counted() -> None:
    learners = {"mean": {}, "median": {}, "majority": {}}
    sentence = reason(learners=learners)
    assert sentence.startswith("2 of 3 combinations of the grid are impossible; the first is mean on digits: expected")
    assert "--skip-impossible" in sentence


def test_one_impossible_combination_of_several_may_be_skipped() -> None:
    sentence = reason(learners={"mean": {}, "majority": {}})
    assert sentence.startswith("mean on digits: expected data for regression, got classification; change the grid, or")
    assert "--skip-impossible" in sentence


def test_grid_of_impossible_combinations_only_cannot_be_skipped() -> None:
    assert "--skip-impossible" not in reason(learners={"mean": {}, "median": {}})


def test_possible_cells_are_known_beside_impossible_ones() -> None:
    from privaware.bench._grid import all_cells

    cells = all_cells({**SMALL, "learners": {"mean": {}, "majority": {}}})
    assert impossible(cells) == {("mean", "-", "digits"): "expected data for regression, got classification"}


def test_wrong_setting_is_no_impossible_combination() -> None:
    from privaware.bench._grid import all_cells

    with pytest.raises(WrongInput, match="linear has no setting 'step'"):
        impossible(all_cells({**SMALL, "learners": {"linear": {"step": 3}}}))
