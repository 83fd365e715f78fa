"""What a page may show: the contents of `model.json`, checked, and nothing else.

The file may come from anywhere, so everything is checked here once; whatever is wrong with it is
one sentence. Entries that the format does not name are not carried further.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privaware import events
from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["Facts", "Guarantee", "Part", "check", "read"]

FORMAT = 1
DEEPEST = 60
# For the owner's eyes only; a stray copy in the free-form entries is never shown.
PRIVATE = frozenset({"internal", "test_score", "train_score", "accuracy", "auc", "mae", "scores"})
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The claim; epsilon is infinite where nothing is proven."""

    epsilon: float
    delta: float
    unit: str
    relation: str
    sampler: str
    method: str
    accountants: dict[str, float | None]
    certified: bool
    seed: Any
    sentence: str
    assumptions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Part:
    """One event and what it costs alone."""

    what: str
    event: events.Event
    epsilon: float | None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A released model in public facts."""

    version: str
    created: str
    learner: str
    settings: dict[str, Any]
    schema: Schema
    features: tuple[dict[str, Any], ...]
    architecture: dict[str, Any]
    plan: tuple[str, ...]
    guarantee: Guarantee
    parts: tuple[Part, ...]
    entry: str | None


def read(folder: Path) -> Any:
    """What `model.json` of a model folder says, not yet checked."""
    path = folder / "model.json"
    if not path.is_file():
        raise WrongInput(f"expected a model folder with a file model.json, found none in {folder}")
    try:
        return json.loads(path.read_bytes().decode("utf-8"))
    except OSError as problem:
        raise WrongInput(f"cannot read {path}: {problem.strerror or problem}") from None
    except (ValueError, RecursionError):
        raise WrongInput(f"{path} is damaged: expected one JSON object as fit wrote it; take a fresh copy") from None


def check(value: Any) -> Facts:
    """The facts in `value`; anything missing or ill-formed is one sentence."""
    try:
        return _facts(_clean(value, 0))
    except WrongInput as problem:
        sentence = " ".join(str(problem).split())
        raise WrongInput(f"model.json: {sentence:.400}") from None
    except (ArithmeticError, AttributeError, RecursionError, TypeError, ValueError):
        # The events and the schema check values, not every hostile type they could be given.
        raise WrongInput("model.json: expected the entries that fit writes, got others") from None


def _facts(raw: Any) -> Facts:
    if not isinstance(raw, dict):
        raise WrongInput(f"expected an object with the facts of a model, got {raw!r:.80}")
    found = raw.get("format")
    if isinstance(found, bool) or found != FORMAT:
        raise WrongInput(f"expected format {FORMAT}, got {found!r:.80}; use a matching privaware")
    return Facts(
        version=_get(raw, "version", str),
        created=_get(raw, "created", str),
        learner=_get(raw, "learner", str),
        settings=_public(_get(raw, "settings", dict)),
        schema=Schema.from_json(_get(raw, "schema", dict)),
        features=tuple(_public(item) for item in _listed(raw, "features", dict)),
        architecture=_public(_get(raw, "architecture", dict)),
        plan=_listed(raw, "plan", str),
        guarantee=_guarantee(_get(raw, "guarantee", dict)),
        parts=tuple(_part(item) for item in _listed(raw, "events", dict)),
        entry=_get(_get(raw, "ledger", dict), "entry", str, empty=True),
    )


def _guarantee(raw: dict[str, Any]) -> Guarantee:
    where = "guarantee."
    if "seed" not in raw:
        raise WrongInput("expected an entry 'guarantee.seed' (null when unseeded), found none")
    delta = _number(raw, "delta", where)
    if delta is None or not 0 <= delta < 1:
        raise WrongInput(f"expected guarantee.delta in [0, 1), got {delta!r}")
    epsilon = _number(raw, "epsilon", where)
    accountants = _get(raw, "accountants", dict, where)
    return Guarantee(
        epsilon=math.inf if epsilon is None else epsilon,
        delta=delta,
        unit=_get(raw, "unit", str, where),
        relation=_get(raw, "relation", str, where),
        sampler=_get(raw, "sampler", str, where),
        method=_get(raw, "method", str, where),
        accountants={n: _number(accountants, n, "guarantee.accountants.") for n in accountants},
        certified=_get(raw, "certified", bool, where),
        seed=raw["seed"],
        sentence=_get(raw, "sentence", str, where),
        assumptions=_listed(raw, "assumptions", str, where),
    )


def _part(raw: dict[str, Any]) -> Part:
    return Part(
        what=_get(raw, "what", str, "events."),
        event=events.from_json(_get(raw, "event", dict, "events.")),
        epsilon=_number(raw, "epsilon", "events."),
    )


def _get(raw: dict[str, Any], name: str, kind: type, where: str = "", empty: bool = False) -> Any:
    if name not in raw:
        raise WrongInput(f"expected an entry '{where}{name}', found none; take a fresh copy")
    value = raw[name]
    if not (isinstance(value, kind) or (empty and value is None)):
        raise WrongInput(f"expected {where}{name} as {_KINDS[kind]}, got {value!r:.80}")
    return value


def _listed(raw: dict[str, Any], name: str, kind: type, where: str = "") -> tuple[Any, ...]:
    items = _get(raw, name, list, where)
    for item in items:
        if not isinstance(item, kind):
            raise WrongInput(f"expected {where}{name} as a list of {_KINDS[kind]}, got {item!r:.80}")
    return tuple(items)


def _number(raw: dict[str, Any], name: str, where: str) -> float | None:
    """A number that is at least 0, perhaps infinite, or nothing."""
    value = _get(raw, name, object, where)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise WrongInput(f"expected {where}{name} as a number >= 0 or null, got {value!r:.80}")
    return float(value)


def _public(value: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _public(item) if isinstance(item, dict) else item
        for name, item in value.items()
        if name.lower() not in PRIVATE
    }


def _clean(value: Any, depth: int) -> Any:
    """The same value with plain lists, and with text that every browser and encoder can carry."""
    if depth > DEEPEST:
        raise WrongInput(f"expected at most {DEEPEST} nested levels, got more")
    if isinstance(value, str):
        return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {_clean(str(name), depth): _clean(item, depth + 1) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item, depth + 1) for item in value]
    return value


_KINDS: dict[type, str] = {str: "text", dict: "objects", list: "a list", bool: "true or false"}
