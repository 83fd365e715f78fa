"""A charged selection of columns before a training: it releases names of columns, then a model is trained on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import NOTHING
from privaware.mechanism import Mechanism
from privaware.preprocessing._ranges.open_columns import outline
from privaware.registry import names
from privaware.schema import Schema
from privaware.selectors import find_selector
from privaware.selectors._tables import expect_table
from privaware.workflow.auto import Stage
from privaware.workflow.run.learner_settings import configured

__all__ = ["keep_columns", "selection_stage", "selector_for"]

FRACTION = 0.2
"""Approximate fraction of epsilon for the selection of columns before a training."""


def selection_stage(
    schema: Schema, method: str, settings: Mapping[str, Any], learner: Any, budget: Mapping[str, float]
) -> Stage:
    """Return the selection of columns by the selector `method` with `settings`, as a stage before `learner`.

    `learner` is the mechanism that trains on the selected columns. `budget` has the `epsilon` and `delta` of selection
    and learner together. If the selection has a cost, the noise multiplier of the stage is set so that the selection
    takes about `FRACTION` of this epsilon. Raise `WrongInput` for an unknown selector or setting, and if the data are
    not a table.
    """
    selector = selector_for(schema, method, settings)
    outlined = schema if schema.bounded else outline(schema)
    what = f"choose columns with {method}"
    if selector.cost(outlined, 1.0) == NOTHING:
        return Stage(what=what, mechanism=selector, join=keep_columns)
    epsilon, delta = budget["epsilon"], budget["delta"]
    choosing = accounting.calibrate(lambda noise: selector.cost(outlined, noise), FRACTION * epsilon, delta)
    training = accounting.calibrate(lambda noise: learner.cost(outlined, noise), (1 - FRACTION) * epsilon, delta)
    share = choosing / training
    return Stage(what=what, mechanism=selector, join=keep_columns, share=share)


def selector_for(schema: Schema, method: str, settings: Mapping[str, Any]) -> Mechanism[tuple[str, ...]]:
    """Return the selector called `method` with `settings`.

    Raise `WrongInput` for an unknown selector or setting, and if the data are not a table or hold whole texts or
    images.
    """
    if method in names("preprocessing"):
        raise WrongInput(f"{method} does not choose columns; expected one of {', '.join(names('selectors'))}")
    make = find_selector(method)
    if schema.form != "table" or schema.has_whole_columns:
        expect_table(schema)
    return configured(method, make, settings)


def keep_columns(data: Data, names: tuple[str, ...]) -> Data:
    """Return `data` with only the columns `names`, in the order of the schema.

    If `names` is empty, keep the first column, because a model needs one.
    """
    return data.keep(names or tuple(column.name for column in data.schema.used[:1]))
