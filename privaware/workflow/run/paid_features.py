"""Charged features before a training: normalisation, principal components, and weights of features.

The `features` of a learner may name `normalise`, `pca` and `weigh` beside the data-independent features of
`privaware.features`. Each of them sees the rows after the preceding features, releases a feature map with noise, and is
replaced by that map in the list. The learner then gets a list of plain features. The cost of the learner depends only
on the shape of a row, which is public, and not on the released maps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from privaware import features as transforms
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Event, leaves
from privaware.features.project import Project
from privaware.features.standardise import Standardise
from privaware.features.weighed import Weighed
from privaware.learners._fixed_features import feature_for, shape_after
from privaware.mechanism import Mechanism
from privaware.noise import Rng
from privaware.preprocessing import Transformation, find_transformation
from privaware.schema import Schema
from privaware.workflow.auto import share_for
from privaware.workflow.run.learner_settings import configured

__all__ = ["PAID", "PaidFeatures", "described_features", "names_paid"]

PAID = ("normalise", "pca", "weigh")
"""Features that are mechanisms, and so are charged."""
FRACTION = 0.1
"""Approximate fraction of the budget of a charged feature and its learner that releases the feature."""

Described = Mapping[str, Any]


def described_features(features: Any) -> list[dict[str, Any]]:
    """Return features as a list of tables; a name alone means the table `{"name": NAME}`.

    A single name or table gives a list of one. Raise `WrongInput` for anything else, and for no features.

    >>> described_features(["scatter", {"name": "pca", "components": 8}])
    [{'name': 'scatter'}, {'name': 'pca', 'components': 8}]
    """
    listed = [features] if isinstance(features, (str, Mapping)) else features
    tables = isinstance(listed, Sequence) and all(isinstance(each, (str, Mapping)) for each in listed)
    if not tables or not listed:
        raise WrongInput(f'expected features as names or tables such as {{"name": "pca"}}, got {features!r:.120}')
    return [{"name": each} if isinstance(each, str) else dict(each) for each in listed]


def names_paid(features: Any) -> bool:
    """Whether `features` is a list with at least one table that names a charged feature."""
    listed = features if isinstance(features, list) else []
    return any(isinstance(each, Mapping) and each.get("name") in PAID for each in listed)


@dataclass(frozen=True, kw_only=True)
class PaidFeatures:
    """A learner after charged features.

    `described` are all features, plain and charged, in order, each as a table with its `name` and settings. `build`
    returns the learner for a list of plain features. `shares` are, for each charged feature, its noise multiplier
    divided by the noise multiplier of the learner. `_learners` caches the learner of each schema.

    Privacy: the composition of all releases, each of which is a mechanism of its own.
    """

    described: tuple[Described, ...]
    build: Callable[[list[dict[str, Any]]], Mechanism[Any]] = field(compare=False)
    shares: tuple[float, ...]
    _learners: dict[Schema, Mechanism[Any]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        described: Sequence[Described],
        build: Callable[[list[dict[str, Any]]], Mechanism[Any]],
        schema: Schema,
        price: Callable[[Mechanism[Any], Schema], Event],
    ) -> PaidFeatures:
        """Build the mechanism, with `shares` at which each charged feature takes about `FRACTION` of the budget.

        `price(learner, schema)` returns the cost of training one model with noise multiplier 1. If the first of
        `described` is `pca` or `weigh`, or `normalise` on data that are not images, the default feature of the data
        comes before it.
        """
        first = described[0]["name"]
        if first in ("pca", "weigh") or (first == "normalise" and schema.form != "image"):
            described = [transforms.describe(feature_for(schema)), *described]
        unshared = cls(described=tuple(described), build=build, shares=())
        share = share_for(price(unshared.learner(schema), schema), FRACTION)
        costs = [_transformation(each, ()).cost(schema, 1.0) for each in described if each["name"] in PAID]
        counts = [sum(times for _, times in leaves(cost)) for cost in costs]
        return replace(unshared, shares=tuple(share * math.sqrt(count) for count in counts))

    def cost(self, schema: Schema, noise: float) -> Event:
        first, *others = (event for _, event in self.parts("", schema, noise))
        return sum(others, start=first)

    def parts(self, what: str, schema: Schema, noise: float) -> list[tuple[str, Event]]:
        """Return each release with its event, in order; the last release is the model, described by `what`.

        `noise` is the noise multiplier of the learner.
        """
        paid = [each for each in self.described if each["name"] in PAID]
        events = [
            (f"release {WORDS[each['name']]}", _transformation(each, ()).cost(schema, noise * share))
            for each, share in zip(paid, self.shares, strict=True)
        ]
        return [*events, (what, self.learner(schema).cost(schema, noise))]

    def run(self, data: Data, noise: float, rng: Rng) -> Any:
        chain: list[Any] = []
        shares = iter(self.shares)
        for each in self.described:
            if each["name"] in PAID:
                chain.append(_transformation(each, tuple(chain)).run(data, noise * next(shares), rng))
            else:
                chain.append(transforms.build(dict(each)))
        return self.build([transforms.describe(feature) for feature in chain]).run(data, noise, rng)

    def learner(self, schema: Schema) -> Mechanism[Any]:
        """Return the learner on features of the shapes that will be released, with placeholder values."""
        if schema not in self._learners:
            self._learners[schema] = self._built(schema)
        return self._learners[schema]

    def _built(self, schema: Schema) -> Mechanism[Any]:
        chain: list[Any] = []
        for each in self.described:
            if each["name"] in PAID:
                _transformation(each, tuple(chain))  # a wrong setting raises here, before anything is charged
                chain.append(_empty(each, shape_after(tuple(chain), schema)))
            else:
                chain.append(transforms.build(dict(each)))
        return self.build([transforms.describe(feature) for feature in chain])


WORDS = {
    "normalise": "means and deviations of features",
    "pca": "principal components",
    "weigh": "how frequent each entry is",
}


def _transformation(each: Described, before: tuple[Any, ...]) -> Transformation:
    """Return the mechanism of the charged feature `each`; `before` are the plain features before it.

    Raise `WrongInput` for a wrong setting, and for the settings `private` and `features`.
    """
    name = str(each["name"])
    settings = {key: value for key, value in each.items() if key != "name"}
    if unsafe := [key for key in ("private", "features") if key in settings]:
        raise WrongInput(f"{name}: expected no setting {unsafe[0]!r} in a list of features; leave it out")
    mechanism: Any = configured(name, find_transformation(name), settings | {"features": before})
    return mechanism  # type: ignore[no-any-return]


def _empty(each: Described, shape: tuple[int, ...]) -> Any:
    """Return a plain feature with placeholder values, of the shape that the charged feature `each` will release.

    `shape` is the shape of a row before this feature.
    """
    if each["name"] == "normalise":
        return Standardise(mean=(0.0,) * shape[0], deviation=(1.0,) * shape[0])
    width = math.prod(shape)
    if each["name"] == "weigh":
        return Weighed(letters="a" * width)
    components = min(int(each.get("components", 64)), width)
    return Project(matrix=tuple(map(tuple, np.eye(width, components, dtype=np.float32).tolist())))
