"""The learner `auto`: a choice from public facts (form, declared rows, columns, classes, epsilon, device, time limit).

>>> from privaware.datasets import schema
>>> choose(schema("wisconsin"), epsilon=0.01).learner
'majority'
"""

from __future__ import annotations

from privaware.schema import Schema
from privaware.workflow._choice import Choice
from privaware.workflow._table_choice import table_choice

__all__ = ["choose"]

ENOUGH = 50
"""Below this many rows x epsilon, measured on public benchmark data, a constant is the better bet."""


def choose(schema: Schema, epsilon: float) -> Choice:
    """The best learner we know for these public facts."""
    constant = "majority" if schema.classes else "mean"
    if schema.form == "table" and not schema.used:
        return Choice(learner=constant, reasons=(f"{constant}: there is no column beside the target to learn from",))
    if schema.rows * epsilon < ENOUGH:
        why = f"{schema.rows} rows at epsilon {epsilon:g} are too few for more than a constant"
        return Choice(learner=constant, reasons=(f"{constant}: {why}",))
    if schema.form == "table":
        return table_choice(schema, epsilon)
    signal = schema.rows * epsilon / max(len(schema.classes), 1)
    return Choice(learner="linear", reasons=(f"linear: {signal:.3g} rows x epsilon a class",))
