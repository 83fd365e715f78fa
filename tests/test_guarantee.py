"""The guarantee names unit, relation, seed and flaw, and what it takes as public or trusted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from privaware.datasets import schema
from privaware.guarantee import assumptions, earlier_sentence_of, guarantee_sentence, sentence_of
from privaware.workflow.run.plan import Plan
from privaware.workflow.run.training_plan import training_plan


@pytest.fixture(scope="module")
def plan() -> Plan:
    return training_plan(schema("wisconsin"), epsilon=1.0, delta=1e-5, learner="majority")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "Adding or removing any one row changes"),
        ({"relation": "replace_one"}, "Replacing any one row changes"),
        ({"unit": "label"}, "Changing the label of any one row changes"),
        ({"unit": "Person"}, "Adding or removing all rows of any one Person changes"),
        ({"unit": "Person", "relation": "replace_one"}, "Replacing all rows of any one Person changes"),
    ],
)
def test_sentence_names_unit_and_relation(plan: Plan, change: dict[str, Any], words: str) -> None:
    sentence = guarantee_sentence(replace(plan, schema=replace(plan.schema, **change)), None)
    assert sentence.startswith(
        f"{words} the probability of every outcome computed from this model by at most a factor of "
    )
    assert sentence.endswith(", plus 1e-05 (delta).")


def test_sentence_of_a_seeded_or_flawed_plan_says_so(plan: Plan) -> None:
    assert guarantee_sentence(plan, 3).startswith(
        "SEEDED, NOT FOR RELEASE: for anybody who does not know the seed, adding"
    )
    flawed = replace(plan, flaw="the search saw the rows without noise")
    assert guarantee_sentence(flawed, None).startswith(
        "NOT PRIVATE: the search saw the rows without noise. Apart from that, "
    )


def test_an_epsilon_above_ten_is_called_weak(plan: Plan) -> None:
    assert "weak guarantee" not in sentence_of(plan.schema, 10.0, 1e-5)
    assert "This is a weak guarantee" in sentence_of(plan.schema, 10.1, 1e-5)


def test_earlier_sentence_keeps_its_wording(plan: Plan) -> None:
    assert earlier_sentence_of(plan.schema, 1.0, 1e-5) == (
        "Whoever sees this model learns little about whether any one row was in the data or not: no conclusion becomes "
        "more than 2.72 times as likely (epsilon 1), except with a chance of 1e-05 (delta)."
    )


def test_assumptions_of_the_schema_come_first(plan: Plan) -> None:
    declared = replace(plan, schema=replace(plan.schema, assumed=("the range of age",)))
    assert assumptions(declared)[0] == "public: the range of age"
    assert assumptions(plan)[-1].startswith("trusted: ")
