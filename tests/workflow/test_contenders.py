"""What is compared can be written as text or as JSON; anything else is refused with a sentence."""

from __future__ import annotations

import pytest

from privaware.errors import WrongInput
from privaware.workflow._contenders import contender
from privaware.workflow.crossover import crossover


@pytest.mark.parametrize(
    "text",
    [
        "magic",
        "linear:columns",
        "{",
        '{"learner": "linear", "wings": 2}',
        "linear:columns=nose",
        '{"learner": "linear", "columns": "a"}',
        "",
        "linear:steps=many",
        '{"name": "fcn"}',
        '{"name": "nonsense"}',
    ],
)
def test_invalid_contender_is_refused_with_one_sentence(text: str) -> None:
    with pytest.raises(WrongInput) as answer:
        crossover("wisconsin", simple="majority", complex=text, epsilons=[1.0], repeats=1)
    assert "\n" not in str(answer.value)


def test_a_published_network_takes_the_inputs_of_the_data() -> None:
    result = contender("bao.fcn.mnist.9610:lr=2.0")
    assert result.learner == "dpsgd"
    assert result.settings["architecture"]["hidden"] == [128]
    assert "inputs" not in result.settings["architecture"]
    assert result.settings["lr"] == 2.0
