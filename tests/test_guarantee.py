"""The guarantee names unit, relation, seed and flaw, and what it takes as public or trusted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from privaware.datasets import schema
from privaware.guarantee import assumptions, guarantee_sentence
from privaware.workflow._plan import Plan
from privaware.workflow._training_plan import training_plan


@pytest.fixture(scope="module")
def plan() -> Plan:
    return training_plan(schema("wisconsin"), epsilon=1.0, delta=1e-5, learner="majority")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "whether any one row was in the data or not"),
        ({"relation": "replace_one"}, "whether any one row was replaced"),
        ({"unit": "label"}, "whether the label of any one row was replaced"),
        ({"unit": "person"}, "whether all rows of any one person were in the data or not"),
        ({"unit": "person", "relation": "replace_one"}, "whether all rows of any one person were replaced"),
    ],
)
def test_sentence_names_unit_and_relation(plan: Plan, change: dict[str, Any], words: str) -> None:
    sentence = guarantee_sentence(replace(plan, schema=replace(plan.schema, **change)), None)
    assert sentence.startswith("Whoever sees this model learns little about ")
    assert words in sentence
    assert sentence.endswith("except with a chance of 1e-05 (delta).")


def test_sentence_of_a_seeded_or_flawed_plan_says_so(plan: Plan) -> None:
    assert guarantee_sentence(plan, 3).startswith("SEEDED, NOT FOR RELEASE: without the seed, whoever")
    flawed = replace(plan, flaw="the search saw the rows without noise")
    assert guarantee_sentence(flawed, None).startswith("NOT PRIVATE: the search saw the rows without noise. But for")


def test_assumptions_of_the_schema_come_first(plan: Plan) -> None:
    declared = replace(plan, schema=replace(plan.schema, assumed=("the range of age",)))
    assert assumptions(declared)[0] == "public: the range of age"
    assert assumptions(plan)[-1].startswith("trusted: ")
