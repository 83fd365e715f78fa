"""`privaware list`: every kind with its names."""

from __future__ import annotations

from privaware.cli.list import catalogue
from tests.cli.people import Run


def test_list_has_every_kind_with_names(run: Run) -> None:
    result = run("list", "--json").json
    kinds = {"learners", "selectors", "strategies", "attacks", "models", "datasets", "spaces"}
    assert kinds <= set(result)
    assert {"linear", "majority", "mean", "alibi", "pate"} <= {row["name"] for row in result["learners"]}
    assert list(run("list", "datasets", "--json").json) == ["datasets"]
    assert "wisconsin" in run("list", "datasets").out


def test_spaces_and_strategies_are_listed(run: Run) -> None:
    listed = run("list", "--json").json
    assert {"fcn", "cnn", "dpnas"} <= {each["name"] for each in listed["spaces"]}
    assert {"paas", "rs", "mgrs", "dpnas", "grid", "optuna", "racing"} == {
        each["name"] for each in listed["strategies"]
    }


def test_transformations_are_not_listed_as_selectors() -> None:
    listed = {thing["name"] for thing in catalogue("selectors")["selectors"]}
    assert {"cfs_greedy", "cfs_ga", "random", "all", "top", "worth"} <= listed
    assert not {"bounds", "normalise", "pca"} & listed
