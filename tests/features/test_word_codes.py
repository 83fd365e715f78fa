"""Sequences of word codes, and the network that reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.features import WordCodes
from privaware.learners.dpsgd import DpSgd
from privaware.noise import Rng
from privaware.schema import Column, Schema

TEXT = Schema(form="text", columns=(Column(name="message", kind="text"),), classes=("no", "yes"), rows=200)


def texts(rows: int, seed: int) -> Data:
    """Whether "not" comes before "good": a bag of words cannot tell."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=rows)
    x = np.array(["good not" if label else "not good" for label in y], dtype=object)
    return Data(schema=TEXT, x=x, y=y)


def test_codes_keep_word_order_and_are_padded_on_the_left() -> None:
    one, two, long = WordCodes(words=50, length=3)(np.array(["a b", "b a", "a b a b"], dtype=object))
    assert one[0] == two[0] == 0
    assert (one[1], one[2]) == (two[2], two[1])
    assert list(long) == [one[1], one[2], one[1]]
    assert 0 < one[1] < 50


def test_lstm_is_reachable_from_a_learner_and_learns_order() -> None:
    description = {"name": "lstm", "words": 20, "length": 2, "embedding": 4, "units": 4, "hidden": [], "dropout": 0.0}
    learner = DpSgd(architecture=description, steps=40, batch=200, lr=4.0, norm=1.0)
    assert accounting.epsilon(learner.cost(TEXT, 1.0), 1e-5) > 0
    model = learner.run(texts(200, 1), noise=0.3, rng=Rng(1))
    assert model.architecture["name"] == "lstm"
    test = texts(200, 2)
    assert (model.predictions(test) == test.y).mean() > 0.9


def test_the_name_of_an_architecture_is_its_description() -> None:
    assert DpSgd(architecture="lstm") == DpSgd(architecture={"name": "lstm"})  # type: ignore[arg-type]
    texts = Schema(form="text", classes=("n", "y"), rows=100)
    assert DpSgd(architecture="lstm", steps=2).cost(texts, 1.0) == DpSgd(steps=2).cost(texts, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "fix"),
    [
        ({"form": "image", "shape": (1, 8, 8)}, "got images; take simple_cnn"),
        ({"columns": (Column(name="a", low=0, high=1),)}, "got a table; take fcn, or learners for tables"),
    ],
)
def test_lstm_without_text_is_refused_before_the_charge(facts: dict[str, Any], fix: str) -> None:
    schema = Schema(classes=("n", "y"), rows=100, **facts)
    with pytest.raises(WrongInput, match=f"lstm, which reads words in order, {fix}"):
        DpSgd(architecture={"name": "lstm", "units": 4, "hidden": []}).cost(schema, 1.0)
