"""What is compared: a learner with its settings and columns, from a few words or from JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privaware import models, registry
from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["Contender", "contender"]

NETWORK = "dpsgd"
"""The learner of a model that is given as an architecture."""
WAYS = (
    "expected a learner such as linear or linear:columns=age+town, a published model (models.named()), or JSON such as "
    '{"name": "fcn", "hidden": [16]} or {"learner": "linear", "columns": ["age"], "settings": {"steps": 50}}'
)


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One of two that are compared. Without `columns` it sees all of them."""

    name: str
    learner: str
    settings: Mapping[str, Any]
    columns: tuple[str, ...] | None = None

    def facts(self, schema: Schema) -> Schema:
        """The schema with its own columns only."""
        if self.columns is None:
            return schema
        known = [column.name for column in schema.used]
        unknown = [name for name in self.columns if name not in known]
        if schema.form != "table" or unknown or not self.columns:
            shown = ", ".join(known[:8])
            raise WrongInput(
                f"{self.name!r:.80}: expected columns among {shown or 'those of a table'}, "
                f"got {', '.join(unknown) or 'none'}"
            )
        return schema.keep(self.columns)

    def json(self) -> dict[str, Any]:
        columns = None if self.columns is None else list(self.columns)
        return {"learner": self.learner, "settings": dict(self.settings), "columns": columns}


def contender(text: str | Mapping[str, Any], more: Mapping[str, Any] | None = None) -> Contender:
    """The contender that `text` describes; `more` are settings for its learner beside its own.

    >>> contender("linear:columns=age+town,steps=20").json()
    {'learner': 'linear', 'settings': {'steps': 20}, 'columns': ['age', 'town']}
    >>> contender({"name": "fcn", "hidden": [16]}).settings
    {'architecture': {'name': 'fcn', 'hidden': [16]}}
    """
    if isinstance(text, Mapping):
        return _of_json(dict(text), dict(more or {}))
    if text.lstrip().startswith("{"):
        try:
            return _of_json(json.loads(text), dict(more or {}))
        except ValueError as problem:
            raise WrongInput(f"{WAYS}; got {text!r:.80}, which is no JSON: {problem!s:.80}") from None
    name, _, rest = text.partition(":")
    try:
        own = registry.settings(filter(None, rest.split(",")))
    except ValueError as problem:
        raise WrongInput(f"{WAYS}; got {text!r:.80}, where {problem} is no NAME=VALUE") from None
    columns = own.pop("columns", None)
    chosen = None if columns is None else tuple(str(columns).split("+"))
    learner, first = _known(name)
    settings = {**first, **(more or {}), **own}
    return Contender(name=text, learner=learner, settings=settings, columns=chosen)


def _known(name: str) -> tuple[str, dict[str, Any]]:
    """The learner of this name, or the network of a published one made to fit the data."""
    published = models.named()
    if name in published:
        described = published[name].description
        ends = ("inputs", "outputs")  # those of the data at hand
        fitted = {key: value for key, value in described.items() if key not in ends}
        return NETWORK, {"architecture": fitted}
    if name not in registry.names("learners"):
        raise WrongInput(f"{WAYS}; got {name!r:.80}")
    return name, {}


def _of_json(given: dict[str, Any], more: dict[str, Any]) -> Contender:
    name = json.dumps(given)
    if "learner" not in given:
        settings = {**more, "architecture": given}
        return Contender(name=name, learner=NETWORK, settings=settings)
    columns, settings = given.get("columns"), given.get("settings", {})
    named = columns is None or (isinstance(columns, list) and all(isinstance(word, str) for word in columns))
    if set(given) - {"learner", "columns", "settings"} or not isinstance(settings, dict) or not named:
        raise WrongInput(f"{WAYS}; got {name:.120}")
    learner, first = _known(str(given["learner"]))
    return Contender(
        name=name,
        learner=learner,
        settings={**first, **more, **settings},
        columns=None if columns is None else tuple(columns),
    )
