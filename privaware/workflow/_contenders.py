"""The models that `crossover` compares: a learner with its settings and columns, read from short text or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privaware import models, registry
from privaware._validate import nearest
from privaware.errors import WrongInput
from privaware.schema import Schema

NETWORK = "dpsgd"
"""The learner that trains a model described by its architecture only."""
EXPECTED_FORMS = (
    "expected a learner such as linear or linear:columns=age+town, a published model (models.named()), or JSON such as "
    '{"name": "fcn", "hidden": [16]} or {"learner": "linear", "columns": ["age"], "settings": {"steps": 50}}'
)


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One of the two compared models, a `learner` with its `settings`; `name` is its description as it was given.

    It uses all columns if `columns` is None.
    """

    name: str
    learner: str
    settings: Mapping[str, Any]
    columns: tuple[str, ...] | None = None

    def restricted(self, schema: Schema) -> Schema:
        """Return `schema` with only the columns of this model; unchanged if `columns` is None.

        Columns keep the order of `schema`. Raise `WrongInput` for a column that is not in `schema`, for no columns, and
        for data that are no table.
        """
        if self.columns is None:
            return schema
        known = [column.name for column in schema.used]
        unknown = [name for name in self.columns if name not in known]
        if schema.form != "table" or unknown or not self.columns:
            shown = ", ".join(known[:8])
            raise WrongInput(
                f"{self.name!r:.80}: expected columns {f'among {shown}' if shown else 'of a table'}, "
                f"got {', '.join(unknown) or 'none'}"
            )
        return schema.keep(self.columns)

    def json(self) -> dict[str, Any]:
        columns = None if self.columns is None else list(self.columns)
        return {"learner": self.learner, "settings": dict(self.settings), "columns": columns}


def contender(text: str | Mapping[str, Any], more: Mapping[str, Any] | None = None) -> Contender:
    """Read the model that `text` describes; a setting in `text` has precedence over the same setting in `more`.

    `text` is a learner with settings, the name of a published network (`models.named()`), or their JSON, as in the
    examples and in `EXPECTED_FORMS`. Anything else raises `WrongInput`.

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
            raise WrongInput(f"{EXPECTED_FORMS}; got {text!r:.80}, which is no JSON: {problem!s:.80}") from None
    name, _, rest = text.partition(":")
    try:
        described = registry.settings(filter(None, rest.split(",")))
    except ValueError as problem:
        raise WrongInput(f"{EXPECTED_FORMS}; got {text!r:.80}, where {problem} is no NAME=VALUE") from None
    columns = described.pop("columns", None)
    chosen = None if columns is None else tuple(str(columns).split("+"))
    learner, first = _known(name)
    settings = {**first, **(more or {}), **described}
    return Contender(name=text, learner=learner, settings=settings, columns=chosen)


def _known(name: str) -> tuple[str, dict[str, Any]]:
    """Return the learner and the settings that `name` stands for.

    For the name of a learner they are (`name`, {}). For the name of a published network they are (`NETWORK`,
    {"architecture": its description without inputs and outputs}). Any other name raises `WrongInput`.
    """
    published = models.named()
    if name in published:
        description = published[name].description
        architecture = {key: value for key, value in description.items() if key not in ("inputs", "outputs")}
        return NETWORK, {"architecture": architecture}
    learners = registry.names("learners")
    if name not in learners:
        near = nearest(name, {*learners, *published})
        raise WrongInput(f"{EXPECTED_FORMS}; got {name!r:.80}" + (f"; did you mean {near}?" if near else ""))
    return name, {}


def _of_json(described: dict[str, Any], more: dict[str, Any]) -> Contender:
    name = json.dumps(described)
    if "learner" not in described:
        settings = {**more, "architecture": described}
        return Contender(name=name, learner=NETWORK, settings=settings)
    columns, settings = described.get("columns"), described.get("settings", {})
    valid = columns is None or (isinstance(columns, list) and all(isinstance(word, str) for word in columns))
    if set(described) - {"learner", "columns", "settings"} or not isinstance(settings, dict) or not valid:
        raise WrongInput(f"{EXPECTED_FORMS}; got {name:.120}")
    learner, first = _known(str(described["learner"]))
    return Contender(
        name=name,
        learner=learner,
        settings={**first, **more, **settings},
        columns=None if columns is None else tuple(columns),
    )
