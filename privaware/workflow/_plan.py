"""What will be tried and what it costs, from public facts only.

A plan is made, shown, calibrated and charged before a row is read.

>>> from privaware.datasets import schema
>>> made = plan(schema("wisconsin"), epsilon=1.0, delta=1e-5)
>>> made.learner, made.epsilon <= 1.0
('linear', True)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, get_args, get_type_hints

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import NOTHING, AnyOf, Disjoint, Event, Gaussian, Group, Laplace, Sampled, Selected, leaves
from privaware.mechanism import Mechanism, Then, unit
from privaware.registry import find, names
from privaware.schema import Schema
from privaware.selectors.bounds import Bounds
from privaware.strategies._search import Search
from privaware.strategies._sound import expect_sound

__all__ = ["Plan", "learner_of", "one_model", "plan", "searching", "selection"]

OPERATIONS = 2e9
"""Multiplications a second that a time limit reckons with on one processor."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A mechanism, its noise, and each part with the event it will be charged.

    A `flaw` says why the whole is not private although its parts are: such a result is never certified.
    """

    learner: str
    mechanism: Mechanism[Any]
    schema: Schema
    noise: float
    delta: float
    parts: tuple[tuple[str, Event], ...]
    settings: Mapping[str, Any]
    reasons: tuple[str, ...]
    flaw: str = ""

    @property
    def event(self) -> Event:
        """Everything the plan will release, composed."""
        return sum((event for _, event in self.parts), start=NOTHING)

    @cached_property
    def bounds(self) -> dict[str, Any]:
        """What each accountant says of it."""
        return accounting.bounds(self.event, self.delta)

    @cached_property
    def epsilon(self) -> float:
        return accounting.epsilon(self.event, self.delta)

    @property
    def sampler(self) -> str:
        """Who takes part in a step, in words."""
        rates = {event.rate for event, _ in leaves(self.event) if isinstance(event, Sampled)}
        if rates:
            shown = ", ".join(f"{rate:g}" for rate in sorted(rates))
            return f"Poisson samples: each row is in a step with probability {shown}, on its own"
        return "every row takes part in every step"

    @property
    def sentences(self) -> list[str]:
        """The plan as a person reads it."""
        what = [f"{name}: {_words(event)}" for name, event in self.parts]
        return [
            *self.reasons,
            *what,
            f"noise {self.noise:.4g} brings all of it to epsilon {self.epsilon:.4g} at delta {self.delta:g}",
        ]


def plan(
    schema: Schema,
    *,
    epsilon: float,
    delta: float,
    learner: str = "auto",
    settings: Mapping[str, Any] | None = None,
    public: Data | None = None,
    time_limit: float | None = None,
    aids: Mapping[str, Any] | None = None,
) -> Plan:
    """The best way we know from public facts, calibrated to (epsilon, delta).

    `aids` (a device, a listener to progress) go to a learner that has fields of these names; they change neither what
    is released nor its price, so they are no part of the plan's settings.
    """
    _check_budget(schema, epsilon, delta)
    name, reasons = _choose(schema, epsilon, learner)
    make = find("learners", name)
    _check_task(name, make, schema)
    _check_unit(name, make, schema)
    if not getattr(make, "columns", True):
        schema = schema.keep(())
    own = {**_within(make, schema, time_limit), **(settings or {})}
    if getattr(make, "needs_public", False):
        if public is None:
            raise WrongInput(f"{name} needs public rows to work with, got none; give them with --public FILE")
        own["public"] = public
    helped = {key: value for key, value in (aids or {}).items() if key in _fields(make)}
    return _priced(
        name, learner_of(name, make, own | helped), schema, epsilon, delta, doing="train", own=own, reasons=reasons
    )


def selection(
    schema: Schema, *, epsilon: float, delta: float, method: str, settings: Mapping[str, Any] | None = None
) -> Plan:
    """Choosing columns by one method, calibrated to (epsilon, delta)."""
    _check_budget(schema, epsilon, delta)
    make = find("selectors", method)
    if not getattr(make, "selects", False):
        known = [name for name in names("selectors") if getattr(find("selectors", name), "selects", False)]
        raise WrongInput(f"{method} does not choose columns; expected one of {', '.join(known)}")
    if schema.form != "table":
        raise WrongInput(f"expected a table with columns to choose from, got {schema.form} data")
    own = dict(settings or {})
    return _priced(
        method,
        learner_of(method, make, own),
        schema,
        epsilon,
        delta,
        doing="choose columns with",
        own=own,
        reasons=[f"{method}, as asked"],
    )


def searching(
    schema: Schema,
    *,
    search: Search,
    epsilon: float | None,
    model_epsilon: float | None,
    delta: float,
    name: str,
    own: Mapping[str, Any],
) -> Plan:
    """A search, calibrated to `epsilon` in all, or to `model_epsilon` for one model (the total follows)."""
    if (epsilon is None) == (model_epsilon is None):
        raise WrongInput(
            "expected one of --epsilon (the total) and --model-epsilon (one model's), got "
            + ("neither" if epsilon is None else "both")
        )
    level = model_epsilon if epsilon is None else epsilon
    assert level is not None
    _check_budget(schema, level, delta)
    _check_unit(search.space.learner, find("learners", search.space.learner), schema)
    expect_sound(search, schema if schema.bounded else Bounds().outline(schema))
    noise = None
    if epsilon is None:
        noise = accounting.calibrate(lambda noise: one_model(search, schema, noise), level, delta)
    reasons = [f"{name}, as asked: about {search.trials(schema):.4g} trials"]
    return _priced(name, search, schema, level, delta, doing="search with", own=own, reasons=reasons, noise=noise)


def one_model(search: Search, schema: Schema, noise: float) -> Event:
    """What one training of a search costs whom the schema protects."""
    return grouped(search.model_cost(schema, noise), rows_moved(search, schema))


def _priced(
    name: str,
    mechanism: Mechanism[Any],
    schema: Schema,
    epsilon: float,
    delta: float,
    *,
    doing: str,
    own: Mapping[str, Any],
    reasons: list[str],
    noise: float | None = None,
) -> Plan:
    """The mechanism with what it needs first, and the noise that brings all of it to (epsilon, delta)."""
    what = f"{doing} {name}"
    if not schema.bounded:
        bounds = Bounds()
        mechanism = Then(first=bounds, second=mechanism, join=Data.against, outline=bounds.outline, share=SHARE)
        reasons.append("bounds that are not declared are paid for first")
    if noise is None:
        noise = accounting.calibrate(lambda noise: _total(_parts(what, mechanism, schema, noise)), epsilon, delta)
    return Plan(
        learner=name,
        mechanism=mechanism,
        schema=schema,
        noise=noise,
        delta=delta,
        parts=_parts(what, mechanism, schema, noise),
        settings={key: value for key, value in own.items() if key != "public"},
        reasons=tuple(reasons),
    )


SHARE = 0.5
"""Noise of the bounds over the learner's: each bound is one cheap choice."""


def _choose(schema: Schema, epsilon: float, learner: str) -> tuple[str, list[str]]:
    if learner != "auto":
        return learner, [f"{learner}, as asked"]
    constant = "majority" if schema.classes else "mean"
    if schema.form == "table" and not schema.used:
        return constant, [f"{constant}: there is no column beside the target to learn from"]
    signal = schema.rows * epsilon / max(len(schema.classes), 1)
    if schema.rows * epsilon < ENOUGH:
        return constant, [f"{constant}: {schema.rows} rows at epsilon {epsilon:g} are too few for more than a constant"]
    return "linear", [f"linear: {signal:.3g} rows x epsilon a class, and no architecture to search yet"]


ENOUGH = 50
"""Below this many rows x epsilon, measured on public benchmark data, a constant is the better bet."""


def _check_budget(schema: Schema, epsilon: float, delta: float) -> None:
    if not (isinstance(epsilon, (int, float)) and math.isfinite(epsilon) and epsilon > 0):
        raise WrongInput(f"expected epsilon as a number > 0, got {epsilon!r}")
    if not (isinstance(delta, (int, float)) and 0 < delta < 1):
        raise WrongInput(f"expected delta in (0, 1), got {delta!r}")
    if delta * schema.rows >= 1:
        raise WrongInput(
            f"expected delta well below 1 / rows, got {delta:g} for {schema.rows} rows: that would allow "
            f"publishing a row; take at most {1 / schema.rows / 10:.0e}"
        )


def _check_task(name: str, make: Any, schema: Schema) -> None:
    tasks = getattr(make, "tasks", ("classification", "regression"))
    if schema.task not in tasks:
        raise WrongInput(
            f"{name} does {' and '.join(tasks)}, the target {schema.target!r} asks for {schema.task}; "
            "choose another learner"
        )


def _check_unit(name: str, make: Any, schema: Schema) -> None:
    """A price for labels says nothing about rows, be it one or all rows of a person."""
    if unit(make) == "label" and schema.unit != "label":
        raise WrongInput(
            f'{name} protects labels only, but the schema says unit = "{schema.unit}"; '
            'say unit = "label" (--unit label) if that is what you want'
        )


def learner_of(name: str, make: Any, settings: Mapping[str, Any]) -> Mechanism[Any]:
    """A learner or a selector with these settings, each of the kind that its field declares."""
    known = _fields(make)
    if unknown := [key for key in settings if key not in known]:
        raise WrongInput(f"{name} has no setting {unknown[0]!r}; it has {', '.join(known)}")
    hints = get_type_hints(make)
    for key, value in settings.items():
        _expect_kind(f"{name}: {key}", hints[key], value)
    made: Mechanism[Any] = make(**settings)
    return made


def _fields(make: Any) -> list[str]:
    return [item.name for item in fields(make)]


def _expect_kind(what: str, hint: Any, value: Any) -> None:
    """A plain setting has the type its field declares: a wrong one must not surface after the charge."""
    kinds = get_args(hint) or (hint,)
    if not set(kinds) <= {bool, int, float, str, type(None)}:
        return
    number = float in kinds and isinstance(value, int) and not isinstance(value, bool)
    finite = not isinstance(value, (int, float)) or abs(value) <= sys.float_info.max
    if not (number or type(value) in kinds) or not finite:
        names = " or ".join("none" if kind is type(None) else kind.__name__ for kind in kinds)
        raise WrongInput(f"{what} is expected as {names}, got {value!r:.80}")


def _within(make: Any, schema: Schema, time_limit: float | None) -> dict[str, Any]:
    """Fewer rows a step where every row in every step would outlast the time limit."""
    if time_limit is not None and not time_limit > 0:
        raise WrongInput(f"expected a time limit above 0 seconds, got {time_limit!r}")
    if time_limit is None or "rate" not in {item.name for item in fields(make)}:
        return {}
    width = (
        math.prod(schema.shape) if schema.form == "image" else 4096 if schema.form == "text" else 20 * len(schema.used)
    )
    work = 6 * schema.rows * width * max(len(schema.classes), 1) * make().steps
    rate = time_limit * OPERATIONS / max(work, 1)
    return {} if rate >= 1 else {"rate": max(rate, min(1.0, 64 / schema.rows))}


def _parts(what: str, mechanism: Mechanism[Any], schema: Schema, noise: float) -> tuple[tuple[str, Event], ...]:
    if isinstance(mechanism, Then):
        parts = [("release bounds", mechanism.first.cost(schema, noise * mechanism.share))]
        parts += [(what, mechanism.second.cost(mechanism.outline(schema), noise))]
    else:
        parts = [(what, mechanism.cost(schema, noise))]
    size = rows_moved(mechanism, schema)
    return tuple((doing, grouped(event, size)) for doing, event in parts)


def rows_moved(mechanism: Mechanism[Any], schema: Schema) -> int:
    """How many rows added or removed make two neighbours: the unit's cap, twice where one is replaced."""
    if unit(mechanism) == "label":
        return 1
    if schema.unit == "label":
        return 2
    size = 1 if schema.unit == "row" else schema.cap
    return 2 * size if schema.relation == "replace_one" else size


def grouped(event: Event, size: int) -> Event:
    """The event as it looks to neighbours that are `size` rows apart."""
    return event if size == 1 or event == NOTHING else Group(event=event, size=size)


def _total(parts: tuple[tuple[str, Event], ...]) -> Event:
    return sum((event for _, event in parts), start=NOTHING)


def _words(event: Event) -> str:
    said = []
    for leaf, count in leaves(event.event if isinstance(event, Group) else event):
        if isinstance(leaf, Disjoint):
            said.append("on disjoint parts, " + " or ".join(_words(part) for part in leaf.events))
            continue
        if isinstance(leaf, AnyOf):
            said.append(f"{count} x one of " + " or ".join(f"({_words(part)})" for part in leaf.events))
            continue
        if isinstance(leaf, Selected):
            said.append(f"the best of about {leaf.mean:g} times ({_words(leaf.event)})")
            continue
        inner = leaf.event if isinstance(leaf, Sampled) else leaf
        on = f" on samples at rate {leaf.rate:g}" if isinstance(leaf, Sampled) else ""
        kind = type(inner).__name__
        scale = f", noise {inner.noise:.4g}" if isinstance(inner, (Gaussian, Laplace)) else ""
        said.append(f"{count} x {kind}{scale}{on}")
    grouped = f", for {event.size} rows at once" if isinstance(event, Group) else ""
    return (" and ".join(said) or "free, no row is looked at") + grouped
