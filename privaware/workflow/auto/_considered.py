"""The learners that a plan considered, each with the reason why it was taken or not.

The reasons follow from public facts, and after the run from the released model (`settled`).

A row is a plain dict: `learner`, `rule` (the rule of the policy, or empty), `taken` and `reason`. `taken` is None while
a comparison that is paid for has not run yet.

>>> unmet("rows_epsilon", ">= 40000", 600.0)
'it needs rows x epsilon to be at least 40,000; here it is 600'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from privaware.workflow.auto._facts import COMPARISON, MOST_CROSSES

Row = dict[str, Any]
SEARCHED = "A candidate of the private search, which releases only the best candidate."
"""The reason of a learner in the space of a private search, before the search has run."""
CHECKED = "It is compared with the model after the training; the comparison is part of the cost."
"""The reason of the constant prediction with which a regression is compared, before the comparison has run."""
NAMES = {
    "rows": "the number of rows",
    "columns": "the number of columns",
    "classes": "the number of classes",
    "rows_epsilon": "rows x epsilon",
    "relative_signal": "rows x epsilon, divided by 450 for numbers, 250 for classes with declared bounds, else 100,",
    "rows_per_cross": "rows x epsilon for each pair of levels",
    "channels": "the number of colour channels",
    "side": "the smaller side in pixels",
}
"""Words for facts; the words for any other fact are its name with spaces, after "the"."""
OPERATORS = {">=": "at least", "<=": "at most", ">": "above", "<": "below"}
WEIGHTS = ("scores", "slopes", "leaves", "swings", "output.weight")
"""Names of the tensors of table models and linear models that are 0 everywhere if the model is a constant."""


def considered(learner: str, reason: str, *, taken: bool | None, rule: str = "") -> Row:
    """Return the row of one learner; `reason` becomes a sentence with a capital letter and a full stop.

    `rule` is the name of the rule of the policy, or empty. `taken` is whether the learner was chosen; it is None while
    a paid comparison has not run yet.
    """
    sentence = f"{reason[0].upper()}{reason[1:].removesuffix('.')}."
    return {"learner": learner, "rule": rule, "taken": taken, "reason": sentence}


def unmet(fact: str, condition: Any, value: Any) -> str:
    """Return why a rule with `condition` on the fact called `fact` does not apply if the fact has this `value`.

    It is a clause such as "it needs rows x epsilon to be at least 40,000; here it is 600".
    """
    if fact == "rows_per_cross" and not value:
        pairs = f"at most {MOST_CROSSES:,} pairs of levels"
        return f"it needs two columns or more, all of them declared categories, with {pairs}"
    listed = condition if isinstance(condition, list) else [condition]
    needed = " and ".join(map(_in_words, listed))
    name = NAMES.get(fact, f"the {fact.replace('_', ' ')}")
    return f"it needs {name} to be {needed}; here it is {_in_words(value)}"


def _in_words(value: Any) -> str:
    if isinstance(value, str) and (found := COMPARISON.fullmatch(value)):
        return f"{OPERATORS[found[1]]} {float(found[2]):,.10g}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,.10g}"


def settled(rows: Iterable[Mapping[str, Any]], tensors: Mapping[str, np.ndarray], learner: str | None) -> list[Row]:
    """Return copies of the rows with the results of the paid comparisons, which the released model shows.

    A row with the reason `CHECKED`, the constant prediction, is taken if the released model is a constant
    (`is_constant`); then a learner that was taken is not taken any more. A row with the reason `SEARCHED` is taken if
    it is the only such row or its learner is `learner`. If there are several such rows and `learner` is None, they stay
    as they are.

    Parameters
    ----------
    rows
        The rows of the plan.
    tensors
        The released tensors.
    learner
        The learner of the best candidate of a search, if a search named one.
    """
    known = [dict(row) for row in rows]
    constant = is_constant(tensors)
    if any(row["reason"] == CHECKED for row in known):
        kept = "The comparison found no clear gain of the model: the released prediction is a constant."
        lost = "The comparison, which is part of the cost, found the model clearly better."
        for row in known:
            if row["reason"] == CHECKED:
                row.update(taken=constant, reason=kept if constant else lost)
            elif row["taken"] and constant:
                row.update(taken=False, reason=f"{row['reason']} After the training a constant was preferred.")
    searched = [row for row in known if row["reason"] == SEARCHED]
    for row in searched if learner is not None or len(searched) == 1 else []:
        best = len(searched) == 1 or row["learner"] == learner
        row.update(taken=best, reason=f"{SEARCHED} It was {'the best' if best else 'not the best'}.")
    return known


def is_constant(tensors: Mapping[str, np.ndarray]) -> bool:
    """Whether all `tensors` named in `WEIGHTS` are 0, so that a table model or a linear model predicts a constant.

    Return False for other models, which have none of these tensors.
    """
    weights = [np.asarray(tensors[name]) for name in WEIGHTS if name in tensors]
    return bool(weights) and not any(np.any(weight != 0) for weight in weights)
