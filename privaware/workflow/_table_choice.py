"""What `auto` takes for a table, from its schema and epsilon alone.

>>> from privaware.datasets import schema
>>> table_choice(schema("wisconsin"), epsilon=1.0).learner
'linear'
"""

from __future__ import annotations

from privaware.schema import Schema
from privaware.workflow._choice import Choice

__all__ = ["table_choice"]

LARGE = 10_000
"""Rows x epsilon from which boosting beats a linear model on most of the development tables."""


def table_choice(schema: Schema, epsilon: float) -> Choice:
    """A learner for a table with at least one column beside the target, and the releases before it."""
    signal = schema.rows * epsilon
    if signal >= LARGE:
        return Choice(learner="boosted", reasons=(f"boosted: {signal:.3g} rows x epsilon are enough for interactions",))
    return Choice(learner="linear", reasons=(f"linear: {signal:.3g} rows x epsilon are few for interactions",))
