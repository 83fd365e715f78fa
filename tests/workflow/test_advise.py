"""Advice: from public facts, with evidence that exists, and estimates that hold where they were not fitted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware import accounting, advise, datasets
from privaware.errors import WrongInput
from privaware.events import Gaussian
from privaware.workflow import _estimates
from privaware.workflow._advice_rules import RULES, AdviceFacts, stored_evidence
from privaware.workflow._estimates import epsilon_at, estimates, fit_law
from privaware.workflow.run import source as _source

ADULT, DIGITS, SPAM = (datasets.schema(name) for name in ("adult", "digits", "sms_spam"))
SITUATIONS = [
    AdviceFacts(schema=schema, epsilon=epsilon)
    for schema in (ADULT, DIGITS, SPAM, datasets.schema("medical_cost"), replace(ADULT, rows=20))
    for epsilon in (0.1, 1.0, 20.0)
]


def rules(data: Any, epsilon: float, **options: Any) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in advise(data, epsilon=epsilon, **options).advice}


def test_every_rule_applies_somewhere_and_cites_numbers() -> None:
    for rule in RULES:
        assert any(rule.applies(facts) for facts in SITUATIONS), rule.name
        assert rule.cites
        assert all(any(sign.isdigit() for sign in stored_evidence()["evidence"][name]["ours"]) for name in rule.cites)


def test_rules_follow_the_form_of_the_data_and_epsilon() -> None:
    assert {"free_features", "simple_network", "frozen_layers"} <= set(rules("digits", 1.0))
    assert "freeze_cnn" in rules("digits", 0.1)
    assert {"larger_network"} == {"larger_network", "simple_network"} & set(rules("digits", 20.0))
    assert set(rules("adult", 1.0)) & {"free_features", "simple_network", "frozen_layers"} == set()
    assert "few_rows" in rules("wisconsin", 0.1)
    assert "few_rows" not in rules("wisconsin", 1.0)
    assert "public_images" not in rules("digits", 1.0, public="photographs")


def test_frozen_layers_say_that_our_runs_differ_from_the_paper() -> None:
    [evidence] = rules("digits", 1.0)["frozen_layers"]["evidence"]
    assert evidence["differs"] is True
    assert "never wins" in evidence["ours"]
    assert "1.4" in evidence["paper"]


def write_people(path: Path, seed: int) -> Path:
    draw = np.random.default_rng(seed)
    lines = [f"{draw.integers(18, 90)},{draw.normal(50, 20):.2f},{'no' if row % 2 else 'yes'}" for row in range(400)]
    path.write_text("\n".join(["age,weight,y", *lines]) + "\n")
    return path


def test_with_a_schema_the_rows_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("rows were read")

    monkeypatch.setattr(_source, "read", refuse)
    people = write_people(tmp_path / "people.csv", 0)
    columns = tuple(replace(column, name=f"c{at}") for at, column in enumerate(ADULT.columns))
    advised = advise(people, epsilon=1.0, schema=replace(ADULT, columns=columns, rows=400))
    assert advised.facts["rows"] == 400
    assert "only the schema was read" in advised.charged
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


def test_no_value_of_a_row_changes_the_advice(tmp_path: Path) -> None:
    first, second = (
        advise(write_people(tmp_path / "people.csv", seed), epsilon=1.0, target="y", accuracy=0.8) for seed in (0, 1)
    )
    assert first.json() == second.json()
    assert "takes these facts as public" in first.charged
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


def test_risk_of_a_gaussian_is_below_that_of_epsilon_alone() -> None:
    [_, middle, _] = advise("digits", epsilon=1.0).risk
    noise = accounting.calibrate(lambda noise: Gaussian(noise=noise), 1.0, 1e-5)
    assert middle["gaussian"] == pytest.approx(accounting.trade_off(Gaussian(noise=noise)).power(0.01), abs=1e-4)
    assert middle["gaussian"] < middle["any"] == pytest.approx(np.e * 0.01 + 1e-5, abs=1e-4)


def test_law_is_recovered_from_curves_that_follow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def accuracy(rows: int, epsilon: float) -> float:
        return float(1 - 1 / (1 + rows * epsilon / 100))

    epsilons = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    curves = [
        {
            "data": "made",
            "form": "table",
            "learner": "linear",
            "rows": rows,
            "scores": {f"{e:g}": [accuracy(rows, e)] * 5 for e in epsilons},
        }
        for rows in (300, 1000, 3000)
    ]
    monkeypatch.setattr(_estimates, "stored_evidence", lambda: {"curves": curves})
    [estimate] = estimates("mine", "table", accuracy=0.9, rows=1000, epsilon=0.5)
    assert estimate["epsilon"]["value"] == pytest.approx(0.9, rel=0.1)
    assert estimate["rows"]["value"] == pytest.approx(1800, rel=0.1)
    assert estimate["epsilon"]["low"] <= 0.9 <= estimate["epsilon"]["high"]


@pytest.mark.parametrize("left_out", [3000, 10_000])
@pytest.mark.parametrize("accuracy", [0.84, 0.85])
def test_law_predicts_a_size_of_adult_that_was_left_out(left_out: int, accuracy: float) -> None:
    sizes = {each["rows"]: each["scores"] for each in stored_evidence()["curves"] if each["data"] == "adult"}
    spent = {rows: at for rows, scores in sizes.items() if (at := epsilon_at(scores, accuracy)) is not None}
    measured = spent.pop(left_out)
    assert fit_law(spent).epsilon(left_out) == pytest.approx(measured, rel=0.35)


def test_accuracy_out_of_reach_is_said() -> None:
    [beyond] = advise("adult", epsilon=1.0, accuracy=0.99).estimates
    assert beyond["epsilon"] is None
    assert "not reached" in beyond["note"]
    [low], [high] = (advise("adult", epsilon=1.0, accuracy=accuracy).estimates for accuracy in (0.83, 0.85))
    assert low["epsilon"]["value"] < high["epsilon"]["value"]
    assert low["rows"]["value"] < high["rows"]["value"]


@pytest.mark.parametrize("accuracy", [0.0, 1.0, 90])
def test_accuracy_outside_of_fractions_is_refused(accuracy: float) -> None:
    with pytest.raises(WrongInput, match="fraction between 0 and 1"):
        advise("digits", epsilon=1.0, accuracy=accuracy)


def test_regression_has_no_accuracy() -> None:
    with pytest.raises(WrongInput, match="regression"):
        advise("medical_cost", epsilon=1.0, accuracy=0.9)
    assert "regression" in rules("medical_cost", 1.0)


def test_bad_budget_is_refused() -> None:
    with pytest.raises(WrongInput, match="epsilon"):
        advise("digits", epsilon=-1.0)
    with pytest.raises(WrongInput, match="delta"):
        advise("digits", epsilon=1.0, delta=0.5)
