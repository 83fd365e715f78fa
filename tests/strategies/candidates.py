"""Small spaces and candidates that the tests of searches share."""

from __future__ import annotations

from typing import Any

from privaware import accounting
from privaware.learners.dpsgd import DpSgd
from privaware.models.spaces import Space
from privaware.schema import Schema
from privaware.strategies._search import Search
from privaware.testing import example
from privaware.testing._strategy import Votes

SPACE = Space.load(
    {
        "choices": {"layers": [1, 2], "units1": [8, 16], "units2": [8, 16], "lr": [1.0, 4.0]},
        "when": {"units2": {"layers": [2]}},
        "build": {"architecture": {"name": "fcn", "hidden": ["$units1", "$units2"], "dropout": 0.0}, "lr": "$lr"},
    }
)
SCHEMA = example(rows=400)


def short(settings: dict[str, Any]) -> DpSgd:
    return DpSgd(**settings, steps=6, batch=100)


def epsilon(search: Search, noise: float, schema: Schema = SCHEMA) -> float:
    return accounting.epsilon(search.cost(schema, noise), 1e-5)


VOTES = Space.load(
    {
        "choices": {"power": [1.0, 2.0, 3.0, 4.0], "weight": [0.5, 1.0, 2.0, 3.0]},
        "build": {"power": "$power", "weight": "$weight"},
    }
)


def votes(settings: dict[str, Any]) -> Votes:
    return Votes(**settings)
