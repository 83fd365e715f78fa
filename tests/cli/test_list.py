"""`privaware list`: every kind with its names."""

from __future__ import annotations

from dataclasses import make_dataclass

import pytest

from privaware import accounting
from privaware.cli.list import catalogue
from privaware.learners import PHASES, find_learner
from privaware.registry import find, names
from privaware.schema import Schema
from privaware.workflow.run.learner_settings import described_settings
from tests.cli.people import Run

PURE = "(epsilon, delta), or epsilon with gamma noise"
GUARANTEES = ("epsilon", "(epsilon, delta)", PURE)


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


def test_long_names_keep_the_columns_aligned(run: Run) -> None:
    listed = catalogue("learners")["learners"]
    assert max(len(thing["name"]) for thing in listed) > 18
    lines = run("list", "learners").out.splitlines()
    starts = [line.index("[unit") for line in lines if line.lstrip().startswith("[unit")]
    named = {thing["name"]: thing["what"].split()[0] for thing in listed}
    for line in lines:
        words = line.split()
        if line.startswith("  ") and line[2] != " " and words[0] in named:
            starts.append(line.index(named[words[0]], 2 + len(words[0])))
    assert len(set(starts)) == 1


def test_transformations_are_not_listed_as_selectors() -> None:
    listed = {thing["name"] for thing in catalogue("selectors")["selectors"]}
    assert {"cfs_greedy", "cfs_ga", "random", "all", "top", "worth"} <= listed
    assert not {"bounds", "normalise", "pca"} & listed


def test_list_shows_phase_unit_guarantee_and_auxiliary(run: Run) -> None:
    listed = {row["name"]: row for row in run("list", "learners", "--json").json["learners"]}
    columns = ("phase", "unit", "guarantee", "auxiliary")
    assert [listed["dpsgd"][name] for name in columns] == ["model training", "row", "(epsilon, delta)", "none"]
    assert [listed["alibi"][name] for name in columns] == ["label privacy", "label", "epsilon", "none"]
    assert listed["pate"]["auxiliary"] == "public rows"
    assert listed["linear"]["phase"] == ""
    assert all(row["phase"] in ("", *PHASES) for row in listed.values())
    assert all(row["guarantee"] in GUARANTEES or row["guarantee"].startswith("none: ") for row in listed.values())
    words = " ".join(run("list", "learners").out.split())
    assert "[phase: model training; unit: row; guarantee: (epsilon, delta); auxiliary data: none]" in words


def test_pure_epsilon_learner_has_a_price_without_delta() -> None:
    schema = Schema(classes=("no", "yes"), rows=50, unit="label")
    assert accounting.epsilon(find_learner("alibi")().cost(schema, 0.5), 1e-12) == pytest.approx(2.0)


def test_list_of_one_learner_shows_settings_with_ranges(run: Run) -> None:
    [linear] = run("list", "learners", "linear", "--json").json["learners"]
    settings = {each["name"]: each for each in linear["settings"]}
    assert settings["norm"]["default"] == 0.5
    assert settings["norm"]["range"] == "from 1e-09 to 1e+09"
    assert settings["norm"]["what"] == "Clipping norm."
    assert "device" not in settings
    words = " ".join(run("list", "learners", "linear").out.split())
    assert "steps int, default 100, a whole number >= 1 Number of gradient steps." in words


def test_every_number_of_every_learner_has_a_range() -> None:
    open_ended = [
        f"{name}.{setting.name}"
        for name in names("learners")
        for setting in described_settings(find_learner(name))
        if setting.type in ("int", "float") and not setting.range
    ]
    assert open_ended == []


@pytest.mark.parametrize("kind", ["learners", "strategies"])
def test_every_setting_has_a_sentence(kind: str) -> None:
    silent = [
        f"{name}.{setting.name}"
        for name in names(kind)
        for setting in described_settings(find(kind, name))
        if not setting.what
    ]
    assert silent == []


def test_type_of_a_setting_from_another_module_is_plain() -> None:
    made = make_dataclass("Own", [("smooth", float, 1.0)], frozen=True)
    assert [setting.type for setting in described_settings(made)] == ["float"]


def test_list_of_one_space_shows_its_choices(run: Run) -> None:
    [fcn] = run("list", "spaces", "fcn", "--json").json["spaces"]
    assert fcn["choices"]["layers"] == [1, 2, 3]
    assert "layers 1, 2, 3" in " ".join(run("list", "spaces", "fcn").out.split())


def test_list_of_an_unknown_name_suggests_one(run: Run) -> None:
    assert "did you mean linear?" in run("list", "learners", "lineer").err
