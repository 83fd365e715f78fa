"""The guarantee names unit, relation, seed and flaw, and what it takes as public or trusted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privaware.datasets import schema
from privaware.events import Disjoint, Gaussian, Group, Pure, Sampled
from privaware.guarantee import (
    assumptions,
    attack_rates,
    attacker_sentence,
    earlier_sentences_of,
    feature_names,
    guarantee_sentence,
    protection,
    sampler_sentence,
    sentence_of,
)
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
    assert ", plus 1e-5 (delta). This is a strong guarantee" in sentence


def test_sentence_of_a_seeded_or_flawed_plan_says_so(plan: Plan) -> None:
    assert guarantee_sentence(plan, 3).startswith(
        "SEEDED, NOT FOR RELEASE: for anybody who does not know the seed, adding"
    )
    flawed = replace(plan, flaw="the search saw the rows without noise")
    assert guarantee_sentence(flawed, None).startswith(
        "NOT PRIVATE: the search saw the rows without noise. Apart from that, "
    )


@pytest.mark.parametrize(("epsilon", "word"), [(1.0, "strong"), (1.01, "moderate"), (10.0, "moderate"), (10.1, "weak")])
def test_strength_follows_from_epsilon(plan: Plan, epsilon: float, word: str) -> None:
    assert protection(epsilon) == word
    assert f"This is a {word} guarantee, because epsilon is " in sentence_of(plan.schema, epsilon, 1e-5)


def test_uncertified_guarantee_is_never_called_strong(plan: Plan) -> None:
    for facts in ({"seed": 1}, {"flaw": "no noise"}):
        assert "guarantee, because" not in sentence_of(plan.schema, 1.0, 1e-5, **facts)  # type: ignore[arg-type]
        assert "a weak guarantee" in sentence_of(plan.schema, 11.0, 1e-5, **facts)  # type: ignore[arg-type]
    assert "strong" not in sentence_of(replace(plan.schema, reviewed=False), 1.0, 1e-5)
    assert sentence_of(plan.schema, 1.0, 1e-5, overlap="more was released").startswith(
        "NOT CERTIFIED: more was released. For this release alone: Adding"
    )


def test_epsilon_in_a_sentence_is_rounded_up(plan: Plan) -> None:
    assert "a factor of 2.72 (epsilon 0.9999), plus 1e-5 (delta)" in sentence_of(plan.schema, 0.99981, 1e-5)
    assert "a factor of exp(800) (epsilon 800)" in sentence_of(plan.schema, 800.0, 1e-5)


def test_attacker_is_as_good_as_the_events_allow(plan: Plan) -> None:
    rates = attack_rates(Gaussian(noise=4.0), 1.0, 1e-5)
    assert "is right at most 55% of the time" in attacker_sentence(rates, plan.schema)
    assert "not certified" in attacker_sentence(rates, plan.schema, certified=False)
    hopeless = attack_rates(Gaussian(noise=0.05), 100.0, 1e-5)
    assert "does not exclude" in attacker_sentence(hopeless, plan.schema)
    for change, words in (
        ({"unit": "label"}, "whether the label of a given row is the true one"),
        ({"unit": "Person"}, "whether the rows of a given Person were in the data"),
        ({"relation": "replace_one"}, "whether a given row was replaced"),
    ):
        assert words in attacker_sentence(rates, replace(plan.schema, **change))


def test_earlier_sentences_keep_their_wording(plan: Plan) -> None:
    oldest, later = earlier_sentences_of(plan.schema, 1.0, 1e-5)
    assert later == (
        "Adding or removing any one row changes the probability of every outcome computed from this model by at most "
        "a factor of 2.72 (epsilon 1), plus 1e-05 (delta)."
    )
    assert oldest == (
        "Whoever sees this model learns little about whether any one row was in the data or not: no conclusion becomes "
        "more than 2.72 times as likely (epsilon 1), except with a chance of 1e-05 (delta)."
    )


def test_assumptions_of_the_schema_come_first(plan: Plan) -> None:
    declared = replace(plan, schema=replace(plan.schema, assumed=("the range of age",)))
    assert assumptions(declared)[0] == "public: the range of age"
    assert assumptions(plan)[-1].startswith("trusted: ")


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
def test_attackers_success_is_an_upper_bound(epsilon: float) -> None:
    exact = np.exp(epsilon) / (1 + np.exp(epsilon))  # randomised response reaches it
    assert attack_rates(Pure(epsilon=epsilon), epsilon, 0.0).accuracy >= exact - 1e-12
    assert attack_rates(Pure(epsilon=epsilon), epsilon, 0.0).accuracy <= exact + 1e-3


def test_samples_of_a_person_and_of_parts_are_named() -> None:
    step = Sampled(event=Gaussian(noise=1.0), rate=0.25)
    for event in (step, Group(event=step, size=3), Disjoint(events=(step, Gaussian(noise=2.0)))):
        assert "with probability 0.25" in sampler_sentence(event)
    assert (
        sampler_sentence(Group(event=Gaussian(noise=1.0), size=3))
        == "every row of the training takes part in every step"
    )


def test_an_estimated_schema_is_not_called_public(plan: Plan) -> None:
    estimated = replace(plan, schema=schema("wisconsin").bare())
    said = "public: the schema, the number of rows and every setting in the plan"
    assert said in assumptions(plan)
    assert said not in assumptions(estimated)
    stated = replace(plan, schema=replace(schema("wisconsin").bare(), assumed=("the number of rows", "the classes")))
    assert assumptions(stated)[:2] == (
        "public: the classes",
        "public: the number of rows and every setting in the plan",
    )


def test_facts_of_a_schema_that_leaves_bounds_open_are_public(plan: Plan) -> None:
    part = replace(plan, schema=replace(schema("wisconsin").bare(), assumed=()))
    said = "public: what the schema declares, the number of rows and every setting in the plan"
    assert said in assumptions(part)


def test_networks_inside_a_mixed_feature_are_assumptions(plan: Plan) -> None:
    mixed = {"name": "mixed", "text": {"name": "sentences", "words": 0.5}}
    assert feature_names([mixed, "bounded"]) == ["mixed", "bounded", "sentences"]
    assert feature_names([{"name": "mixed", "image": [{"name": "resize"}, {"name": "extractor"}]}])[1:] == [
        "resize",
        "extractor",
    ]
    facts = assumptions(replace(plan, settings={"features": [mixed]}))
    assert any("all-MiniLM-L6-v2" in fact for fact in facts)
