"""Check learners: the contract of every mechanism, the protocol `Learner`, and a model as release."""

from __future__ import annotations

from typing import Any

from privaware import accounting
from privaware.data import Data
from privaware.learners import Learner
from privaware.model import Model
from privaware.registry import members
from privaware.schema import Schema
from privaware.testing._call import BrokenPromise
from privaware.testing._check import check_mechanism
from privaware.testing._replay import record
from privaware.testing._rows import example, rows_for


def expect_members(algorithm: object, protocol: Any) -> None:
    """Raise `BrokenPromise` if the object `algorithm` lacks a public attribute or method of the class `protocol`."""
    missing = [member for member in members(protocol) if not hasattr(algorithm, member)]
    if missing:
        raise BrokenPromise(
            f"{type(algorithm).__name__}: no attribute {missing[0]!r}, which the protocol {protocol.__name__} asks "
            f"for; inherit from {protocol.__module__}.{protocol.__name__}"
        )


TASKS = ("classification", "regression")
"""Tasks that a learner may have."""


def check_learner(
    learner: Learner,
    *,
    schema: Schema | None = None,
    data: Data | None = None,
    epsilon: float = 1.0,
    delta: float = accounting.DEFAULT_DELTA,
    games: int = 200,
) -> float:
    """Check that a learner follows the protocol `Learner`, releases a model, and passes `check_mechanism`.

    Parameters
    ----------
    learner : Learner
        The learner.
    schema : Schema, optional
        The schema of synthetic rows. By default it is the schema of `data`, or else a small table for classification
        (for regression if the learner cannot classify).
    data : Data, optional
        Rows to use instead of synthetic rows.
    epsilon, delta : float
        The budget at which to check.
    games : int
        Number of runs on each side in each canary game.

    Returns
    -------
    float
        The largest epsilon that the canary games proved.

    Raises
    ------
    BrokenPromise
        An AssertionError that names the broken promise.

    Examples
    --------
    >>> from privaware.learners.majority import Majority
    >>> check_learner(Majority(), games=0)
    0.0
    >>> class Unsaid(Majority):
    ...     tasks = ("ranking",)
    >>> check_learner(Unsaid())
    Traceback (most recent call last):
    privaware.testing.BrokenPromise: Unsaid: expected tasks among classification and regression, got ('ranking',)
    """
    name = type(learner).__name__
    expect_members(learner, Learner)
    if not learner.tasks or not set(learner.tasks) <= set(TASKS):
        raise BrokenPromise(f"{name}: expected tasks among {' and '.join(TASKS)}, got {learner.tasks!r:.80}")
    if learner.unit not in ("row", "label"):
        raise BrokenPromise(f"{name}: expected unit = 'row' or 'label', got {learner.unit!r:.80}")
    classes = 2 if "classification" in learner.tasks else 0
    schema = schema or (data.schema if data is not None else example(classes=classes, unit=learner.unit))
    released = record(learner, data if data is not None else rows_for(schema, 24), 1.0).released
    if not isinstance(released, Model):
        raise BrokenPromise(f"{name}: expected a Model as release, got {type(released).__name__}")
    return check_mechanism(learner, schema=schema, data=data, epsilon=epsilon, delta=delta, games=games)
