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
from privaware.schema import Column, Schema
from privaware.workflow import _answer
from privaware.workflow._advice_rules import RULES, AdviceFacts, advice, stored_evidence
from privaware.workflow.run import source as _source

ADULT, DIGITS, SPAM = (datasets.schema(name) for name in ("adult", "digits", "sms_spam"))
SITUATIONS = [
    AdviceFacts(schema=schema, epsilon=epsilon, public=True)
    for schema in (ADULT, DIGITS, SPAM, datasets.schema("medical_cost"), replace(ADULT, rows=20))
    for epsilon in (0.1, 1.0, 20.0)
] + [AdviceFacts(schema=DIGITS, epsilon=1.0)]


def rules(data: Any, epsilon: float, **options: Any) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in advise(data, epsilon=epsilon, **options).advice}


def test_every_rule_applies_somewhere_and_cites_numbers() -> None:
    for rule in RULES:
        assert any(rule.applies(facts) for facts in SITUATIONS), rule.name
        for name in rule.cites or (rule.name,):
            assert any(sign.isdigit() for sign in stored_evidence()["evidence"][name]["ours"]), name


def test_rules_follow_the_form_of_the_data_and_epsilon() -> None:
    assert {"free_features", "simple_network", "frozen_layers"} <= set(rules("digits", 1.0))
    assert "freeze_cnn" in rules("digits", 0.1)
    assert {"larger_network"} == {"larger_network", "simple_network"} & set(rules("digits", 20.0))
    assert set(rules("adult", 1.0)) & {"free_features", "simple_network", "frozen_layers"} == set()
    assert "few_rows" in rules("wisconsin", 0.1)
    assert "few_rows" not in rules("wisconsin", 1.0)
    assert "regression" in rules("medical_cost", 1.0)
    assert "public_images" not in rules("digits", 1.0, public="photographs")


def test_whole_rows_are_not_advised_where_persons_are_protected() -> None:
    schema = Schema(columns=(Column(name="a"),), classes=("no", "yes"), rows=900)
    facts = [AdviceFacts(schema=replace(schema, unit=unit), epsilon=1.0) for unit in ("row", "label", "patient")]
    assert ["labels" in [rule["name"] for rule in advice(of)] for of in facts] == [True, True, False]


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


def test_p59_answer_without_spending_is_about_other_tables() -> None:
    estimates = [advise("wisconsin", accuracy=accuracy).estimate for accuracy in (0.7, 0.8)]
    assert [estimate["about"] for estimate in estimates] == ["other tables"] * 2
    assert [estimate["epsilon"] for estimate in estimates] == [None] * 2
    assert "pilot=" in estimates[0]["reason"]
    assert 0 < estimates[0]["low"] < estimates[1]["low"]


def test_curve_rises_at_five_epsilons() -> None:
    curve = advise("wisconsin").curve
    assert [point["epsilon"] for point in curve] == [0.1, 0.3, 1.0, 3.0, 10.0]
    assert all(point["low"] <= point["accuracy"] <= point["high"] for point in curve)
    assert curve[0]["accuracy"] < curve[-1]["accuracy"]


@pytest.mark.parametrize("data", ["digits", "medical_cost"])
def test_answer_is_unknown_where_nothing_was_measured(data: str) -> None:
    advised = advise(data, accuracy=0.9)
    assert [advised.estimate[name] for name in ("epsilon", "low", "high")] == [None] * 3
    assert "curves were measured" in advised.estimate["reason"]
    assert "`privaware fit --score`" in advised.estimate["reason"]
    assert advised.curve == []


@pytest.mark.parametrize("accuracy", [0.0, 1.0, 90])
def test_accuracy_outside_of_fractions_is_refused(accuracy: float) -> None:
    with pytest.raises(WrongInput, match="fraction between 0 and 1"):
        advise("digits", epsilon=1.0, accuracy=accuracy)


def test_bad_budget_is_refused() -> None:
    with pytest.raises(WrongInput, match="epsilon"):
        advise("digits", epsilon=-1.0)
    with pytest.raises(WrongInput, match="delta"):
        advise("digits", epsilon=1.0, delta=0.5)


def test_findings_of_the_papers_hold_where_their_condition_does() -> None:
    assert {"activation", "group_norm", "low_rank"} <= set(rules("digits", 1.0))
    assert "low_rank" not in rules("digits", 8.0)
    assert "ensembles" not in rules("wisconsin", 1.0)
    assert "ensembles" in rules("wisconsin", 1.0, public="others")
    assert "fully connected" in rules("digits", 1.0)["simple_network"]["rule"]


def test_few_tables_of_a_size_are_the_stated_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_answer, "FEWEST_TABLES", 1000)
    schema = datasets.schema("wisconsin")
    reason = _answer.answer_for(schema, 1e-5, None, None).estimate["reason"]
    assert "measured tables have a similar size" in reason


@pytest.mark.parametrize(
    ("epsilon", "public", "advised"),
    [
        (1.0, None, "Do not search settings on these"),
        (4.0, None, "take `search='rs'`"),
        (1.0, "own", "on the public rows"),
    ],
)
def test_finding_about_searches_takes_a_side(epsilon: float, public: str | None, advised: str) -> None:
    (search,) = [
        finding for finding in advise("digits", epsilon=epsilon, public=public).advice if finding["name"] == "search"
    ]
    assert advised in search["rule"]
