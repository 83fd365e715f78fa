"""Release a feature map of a table, such as normalisation or principal components, with a charge of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np

from privaware.data import Data
from privaware.events import Event
from privaware.features.onehot import OneHot
from privaware.guarantee import assumptions, guarantee_sentence
from privaware.mechanism import Mechanism
from privaware.noise import Rng
from privaware.preprocessing import find_transformation
from privaware.schema import Schema
from privaware.workflow.run.charge import charged_run
from privaware.workflow.run.learner_settings import configured
from privaware.workflow.run.options import RunArguments, RunOptions
from privaware.workflow.run.pricing import expect_budget, priced


@dataclass(frozen=True, kw_only=True)
class ReleasedMap:
    """A released feature map `feature`, and the schema by which rows are encoded for it.

    `epsilon` and `event` are the cost of releasing both. `sentence` states the guarantee, and `assumptions` what the
    guarantee takes for granted. `certified` is false if the run has a seed or the schema was not reviewed.
    """

    schema: Schema
    feature: Any
    epsilon: float
    event: Event = field(repr=False)
    certified: bool
    sentence: str = field(repr=False)
    assumptions: list[str] = field(repr=False)

    def __call__(self, rows: Data) -> np.ndarray:
        """Return the features of rows that were encoded by `schema`: a float64 matrix (rows, `self.width`)."""
        return np.asarray(self.feature(OneHot()(rows.x, self.schema), self.schema), dtype=np.float64)

    @property
    def width(self) -> int:
        """The number of features of a row."""
        return int(self.feature.width(self.schema))


@dataclass(frozen=True, kw_only=True)
class WithSchema:
    """A mechanism that releases the pair of the schema of its rows and the release of `mechanism`.

    Privacy: the same as for `mechanism`. The schema is public: it was declared, or paid for before.
    """

    mechanism: Mechanism[Any]

    def cost(self, schema: Schema, noise: float) -> Event:
        return self.mechanism.cost(schema, noise)

    def run(self, data: Data, noise: float, rng: Rng) -> tuple[Schema, Any]:
        return data.schema, self.mechanism.run(data, noise, rng)


def transform(
    data: Any, *, name: str, what: str, settings: Mapping[str, Any], epsilon: float, **run_options: Unpack[RunArguments]
) -> ReleasedMap:
    """Release the feature map called `name`, after releasing the bounds and categories that are not declared.

    Parameters
    ----------
    data : DataFrame
        The rows of a table.
    name : str
        The name of a transformation: `normalise` or `pca`.
    what : str
        A plural that names the release in the ledger ("release WHAT") and in the guarantee ("these WHAT").
    settings : mapping
        The settings of the mechanism.
    epsilon : float
        The total privacy budget.
    **run_options
        As for `privaware.fit`, without `dry_run` and `out`.

    Returns
    -------
    ReleasedMap
        The feature map, which may be published.
    """
    options = RunOptions.of(run_options)
    with charged_run("transform", data, options) as run:
        delta = options.delta_for(run.schema)
        expect_budget(run.schema, epsilon, delta)
        mechanism = WithSchema(mechanism=configured(name, find_transformation(name), settings))
        run.charge(priced(name, mechanism, run.schema, f"release {what}", epsilon=epsilon, delta=delta))
        schema, feature = run.execute()
        run.publish_result("transformation.json", {})
        return ReleasedMap(
            schema=schema,
            feature=feature,
            epsilon=run.plan.epsilon,
            event=run.plan.event,
            certified=run.certified,
            sentence=guarantee_sentence(run.plan, run.options.seed, what=f"these {what}"),
            assumptions=list(assumptions(run.plan)),
        )
