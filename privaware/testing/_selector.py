"""Check selectors: the contract of every mechanism, and a tuple of column names as release."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from privaware import accounting
from privaware.data import Data
from privaware.schema import Schema
from privaware.selectors import Selector
from privaware.testing._call import BrokenPromise
from privaware.testing._check import check_mechanism
from privaware.testing._replay import record
from privaware.testing._rows import example, rows_for

SIZES = (0, 1, 24)
"""Numbers of synthetic rows to check on. Rows that the caller passes replace all but the first."""


@runtime_checkable
class _LimitsColumns(Protocol):
    """A selector with the setting `columns`, the largest number of columns that it may release."""

    columns: int | None


def check_selector(
    selector: Selector,
    *,
    schema: Schema | None = None,
    data: Data | None = None,
    epsilon: float = 1.0,
    delta: float = accounting.DEFAULT_DELTA,
    games: int = 200,
) -> float:
    """Check that a selector passes `check_mechanism` and releases a tuple of column names.

    The tuple has at least one name and no name twice. All names are columns that a learner uses, in the schema's order,
    so never an ignored column or the target. There are no more names than the selector's setting `columns`, if it has
    this setting.

    Parameters
    ----------
    selector : Selector
        The selector.
    schema : Schema, optional
        The schema of synthetic rows. Default: the schema of `data`, or else `example()`.
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
    >>> from privaware.selectors.random import Random
    >>> check_selector(Random(columns=2))
    0.0
    """
    schema = schema or (data.schema if data is not None else example())
    noise = max(accounting.calibrate(lambda noise: selector.cost(schema, noise), epsilon, delta), 1e-6)
    name = type(selector).__name__
    if not isinstance(selector, Selector) or selector.releases != "columns":
        raise BrokenPromise(f'{name}: expected releases = "columns"; inherit from privaware.selectors.Selector')
    for rows in SIZES:
        sample = data if data is not None and rows else rows_for(schema, rows)
        for seed in range(3):
            problem = _wrong(selector, schema, record(selector, sample, noise, seed=seed).released)
            if problem:
                raise BrokenPromise(f"{name}: {problem}")
    return check_mechanism(selector, schema=schema, data=data, epsilon=epsilon, delta=delta, games=games)


def _wrong(selector: Selector, schema: Schema, released: Any) -> str:
    known = [column.name for column in schema.used]
    if not isinstance(released, tuple) or not all(isinstance(name, str) for name in released):
        return f"expected a tuple of column names, got {released!r:.120}"
    if unknown := [name for name in released if name not in known]:
        return f"{unknown[0]!r} is not a column that a learner sees"
    positions = [known.index(name) for name in released]
    if len(positions) == 0 or list(np.unique(positions)) != positions:
        return f"expected at least one column, each once and in the schema's order, got {released}"
    if isinstance(selector, _LimitsColumns) and selector.columns is not None and len(released) > selector.columns:
        return f"expected at most {selector.columns} columns, got {len(released)}"
    return ""
