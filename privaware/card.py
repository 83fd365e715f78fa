"""The card of a released model: its guarantee, its events, its ledger entry, its schema and its architecture.

`ModelCard` is the only writer and reader of `model.json`. A file may come from an untrusted source, so everything in it
is checked here once, and every problem raises `WrongInput` with one sentence.

>>> from privaware.events import Gaussian
>>> part = PricedEvent(what="train linear", event=100 * Gaussian(noise=40.0), epsilon=0.9)
>>> PricedEvent.from_json(part.json()) == part
True
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from privaware import accounting, events, features
from privaware._files import unfinished_run
from privaware._summary import Summarised
from privaware._validate import expect_path
from privaware._version import __version__
from privaware.errors import WrongInput
from privaware.guarantee import PricedPlan, assumptions, guarantee_sentence
from privaware.ledger import Entry
from privaware.model import Model
from privaware.schema import Schema

__all__ = ["Guarantee", "LedgerEntry", "ModelCard", "PricedEvent", "plain_settings"]

FORMAT = 1
"""Number of the format of `model.json`; a card of another format is refused."""
NAME = "model.json"
"""Name of the card in a model folder."""
MAX_DEPTH = 60
"""Largest number of nested levels in a card."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Guarantee(Summarised):
    """The proven guarantee of a model; `epsilon` is infinite if nothing is proven.

    `unit`, `cap` (the largest number of rows of a person) and `relation` come from the schema. `sampler` says in words
    how rows are sampled. `certified` is False for a seeded run, a plan with a `flaw` (a sentence that says why its
    guarantee does not hold in full), an unreviewed schema, or an `overlap`. `seed` is None if no seed was given.
    `accountants` has the epsilon of `pld`, `cf` and `rdp`, each None if the accountant does not cover the events or was
    not needed. `method` says how `epsilon` was computed: `pld`, `rdp`, `pure` (sum of pure epsilons), or, for private
    selection, `trade_off` or `papernot_steinke`. `pure`, `trade_off` and `papernot_steinke` are not keys of
    `accountants`. `sentence` states the guarantee in words. `overlap` is a sentence about other releases of the same
    rows that are not in the same ledger, or empty text. `assumptions` are the facts that the guarantee takes as public
    or trusted.
    """

    epsilon: float
    delta: float
    unit: str
    cap: int | None = None
    relation: str
    sampler: str
    method: str
    accountants: Mapping[str, float | None]
    certified: bool
    seed: Any
    sentence: str
    assumptions: tuple[str, ...]
    overlap: str = ""

    @classmethod
    def of(cls, plan: PricedPlan, seed: int | None) -> Guarantee:
        """Return the guarantee of a plan.

        Parameters
        ----------
        plan
            The plan that was run.
        seed
            The seed of the run, or None.

        Returns
        -------
        Guarantee
            The guarantee. It is certified if the run is unseeded, the plan has no flaw, the schema was reviewed, and
            every other known release of the rows is in the same ledger.
        """
        return cls(
            epsilon=plan.epsilon,
            delta=plan.delta,
            unit=plan.schema.unit,
            cap=plan.schema.cap,
            relation=plan.schema.relation,
            sampler=plan.sampler,
            method=plan.bounds["method"],
            accountants={name: plan.bounds.get(name) for name in ("pld", "cf", "rdp")},
            certified=seed is None and not plan.flaw and not plan.overlap and plan.schema.reviewed,
            seed=seed,
            sentence=guarantee_sentence(plan, seed),
            assumptions=assumptions(plan),
            overlap=plan.overlap,
        )

    def _facts(self) -> dict[str, Any]:
        names = ("epsilon", "delta", "unit", "relation", "certified", "seed")
        return {name: getattr(self, name) for name in names}

    def _words(self) -> str:
        return self.sentence

    def json(self) -> dict[str, Any]:
        """Return the fields as a dict of JSON values, for `model.json`; an infinite epsilon becomes None.

        The dict has no `cap` if `cap` is None, and no `overlap` if `overlap` is an empty text.
        """
        entries = asdict(self) | {"assumptions": list(self.assumptions)}
        entries["epsilon"] = self.epsilon if math.isfinite(self.epsilon) else None
        absent = {"cap": None, "overlap": ""}
        return {name: entry for name, entry in entries.items() if name not in absent or entry != absent[name]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Guarantee:
        """Read the dict that `json` wrote; an `epsilon` of None becomes infinite.

        Unknown keys are ignored. Raise `WrongInput` if a key is missing (other than `cap` and `overlap`), or if a value
        has another type or range.
        """
        where = "guarantee."
        delta = _number(value, "delta", where)
        if delta is None or not 0 <= delta < 1:
            raise WrongInput(f"expected guarantee.delta in [0, 1), got {delta!r}")
        epsilon = _number(value, "epsilon", where)
        accountants = _entry(value, "accountants", dict, where)
        return cls(
            epsilon=math.inf if epsilon is None else epsilon,
            delta=delta,
            cap=_entry(value, "cap", int, where) if "cap" in value else None,
            accountants={name: _number(accountants, name, "guarantee.accountants.") for name in accountants},
            certified=_entry(value, "certified", bool, where),
            seed=_entry(value, "seed", object, where),
            assumptions=_entries(value, "assumptions", str, where),
            overlap=_entry(value, "overlap", str, where) if "overlap" in value else "",
            **{name: _entry(value, name, str, where) for name in ("unit", "relation", "sampler", "method", "sentence")},
        )


@dataclass(frozen=True, kw_only=True)
class PricedEvent:
    """One release of a run.

    `what` describes the release. `epsilon` is the cost of `event` alone at the delta of the card, or None if unknown.
    """

    what: str
    event: events.Event
    epsilon: float | None

    def json(self) -> dict[str, Any]:
        """Return the fields as a dict of JSON values, for `model.json`."""
        return {"what": self.what, "event": events.to_json(self.event), "epsilon": self.epsilon}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> PricedEvent:
        """Read the dict that `json` wrote. Older cards have no entry `epsilon`, so their epsilon is None.

        Raise `WrongInput` if `value` is no such dict.
        """
        return cls(
            what=_entry(value, "what", str, "events."),
            event=events.from_json(_entry(value, "event", dict, "events.")),
            epsilon=_number(value, "epsilon", "events.") if "epsilon" in value else None,
        )


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """The charge of a model in a ledger.

    `entry` is the SHA-256 hash of the ledger entry, or None if the card names no charge. `run` is the key of the
    run in the ledger. Cards of older versions have no such key, so `run` is None.
    """

    entry: str | None
    run: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ModelCard(Summarised):
    """Everything that a released model states about itself.

    `version` is the version of privaware that trained it. `learner` is the name of its learner, with the learner's
    `settings`. `plan` has the sentences of the plan. `guarantee` is its privacy guarantee, `events` are the parts of
    its cost, and `ledger` is its charge. `features` describes each feature of the model, and `architecture` its
    network, as in `Model`; `schema` is the schema of the model. `search` describes the search that chose the settings,
    if there was one. `created` is the time of the model's charge in the ledger. `tensors` is the SHA-256 hash of
    `model.safetensors`. `score` is the charged score on held-out rows, if any. `description` is the owner's statement.
    `data` has public facts about the data set: its `name`, the `origin` of its schema (as in `Source.facts`), and the
    names of the `unused` columns. If an earlier run selected the columns, its cost is under `data["selected"]`. If the
    ledger has several charges, the cost of all charges up to this one is under `data["ledger"]`. `considered` has a row
    for each learner that the plan considered: its name (`learner`), the `rule` of the policy, whether it was `taken`
    (None if unknown), and the `reason`.
    """

    version: str
    created: str
    learner: str
    settings: Mapping[str, Any]
    plan: tuple[str, ...]
    guarantee: Guarantee
    events: tuple[PricedEvent, ...]
    ledger: LedgerEntry
    search: Mapping[str, Any] = field(default_factory=dict)
    schema: Schema
    features: tuple[dict[str, Any], ...]
    architecture: dict[str, Any]
    tensors: str = ""
    description: Mapping[str, Any] = field(default_factory=dict)
    score: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    considered: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(
        cls,
        plan: PricedPlan,
        model: Model,
        *,
        tensors: str,
        entry: Entry,
        seed: int | None,
        search: Mapping[str, Any] | None = None,
        score: Mapping[str, Any] | None = None,
        description: Mapping[str, Any] | None = None,
    ) -> ModelCard:
        """Build the card of a model that was trained by `plan` and charged in the ledger entry `entry`.

        Parameters
        ----------
        plan
            The plan of the run.
        model
            The trained model.
        tensors
            The SHA-256 hash of the tensor file.
        entry
            The charge in the ledger.
        seed
            The seed of the run, or None.
        search, score, description
            The description of a search, the charged score, and the owner's statement, if any.

        Returns
        -------
        ModelCard
            The card.
        """
        return cls(
            version=__version__,
            created=datetime.fromisoformat(entry.time).isoformat(timespec="seconds"),
            learner=plan.learner,
            settings=plain_settings(plan.settings),
            plan=tuple(plan.sentences),
            guarantee=Guarantee.of(plan, seed),
            events=tuple(
                PricedEvent(what=what, event=event, epsilon=accounting.epsilon(event, plan.delta))
                for what, event in plan.parts
            ),
            ledger=LedgerEntry(entry=entry.hash, run=entry.run),
            search=search or {},
            schema=model.schema,
            features=tuple(features.describe(feature) for feature in model.features),
            architecture=model.architecture,
            tensors=tensors,
            score=score or {},
            description=description or {},
            data=_data_facts(plan, model),
            considered=plan.considered,
        )

    def _facts(self) -> dict[str, Any]:
        guarantee = self.guarantee
        proven = {"epsilon": guarantee.epsilon, "delta": guarantee.delta, "certified": guarantee.certified}
        return {"learner": self.learner, **proven, "created": self.created}

    def _words(self) -> str:
        return self.guarantee.sentence

    def json(self) -> dict[str, Any]:
        """Return the entries of `model.json`, in their order.

        The entries `search`, `score`, `description`, `data` and `considered` are left out if they are empty.
        """
        return {
            "format": FORMAT,
            "version": self.version,
            "created": self.created,
            "learner": self.learner,
            "settings": dict(self.settings),
            "plan": list(self.plan),
            "guarantee": self.guarantee.json(),
            "events": [part.json() for part in self.events],
            "ledger": asdict(self.ledger),
            **({"search": dict(self.search)} if self.search else {}),
            **({"score": dict(self.score)} if self.score else {}),
            "schema": self.schema.json(),
            "features": list(self.features),
            "architecture": self.architecture,
            "tensors": self.tensors,
            **({"description": dict(self.description)} if self.description else {}),
            **({"data": dict(self.data)} if self.data else {}),
            **({"considered": [dict(row) for row in self.considered]} if self.considered else {}),
        }

    def content(self) -> bytes:
        """Return the bytes of `model.json`."""
        return json.dumps(self.json(), indent=1, allow_nan=False).encode()

    @classmethod
    def read(cls, folder: str | Path) -> ModelCard:
        """Read the card in a model folder.

        Parameters
        ----------
        folder
            The model folder. A missing, damaged or foreign `model.json` raises `WrongInput`.

        Returns
        -------
        ModelCard
            The card.
        """
        expect_path("a model folder", folder)
        path = Path(folder) / NAME
        if not path.is_file():
            raise WrongInput(
                unfinished_run(Path(folder))
                or f"expected a model folder with {NAME}, got {str(folder)!r}; make one with `privaware fit`"
            )
        try:
            value = json.loads(path.read_bytes().decode("utf-8"))
        except OSError as problem:
            raise WrongInput(f"cannot read {path}: {problem.strerror or problem}") from None
        except (ValueError, RecursionError):
            raise WrongInput(
                f"{NAME} is damaged: expected one JSON object as fit wrote it; restore the folder"
            ) from None
        return cls.from_json(value)

    @classmethod
    def from_json(cls, value: Any) -> ModelCard:
        """Read a card that `json` wrote.

        Parameters
        ----------
        value
            The entries. Unknown entries are ignored. `search`, `score`, `description`, `data`, `considered`,
            `guarantee.cap`, `guarantee.overlap`, `tensors`, `ledger.run` and the `epsilon` of an event may be missing.
            Any other missing entry, and any damaged one, raises `WrongInput`.

        Returns
        -------
        ModelCard
            The card.
        """
        try:
            _expect_shallow(value)
            return cls._from_json(value)
        except WrongInput as problem:
            sentence = " ".join(str(problem).split())
            raise WrongInput(f"{NAME}: {sentence:.400}") from None
        except (ArithmeticError, AttributeError, RecursionError, TypeError, ValueError):
            # Events and schema check values, but not every hostile type that could replace them.
            raise WrongInput(f"{NAME}: a value is damaged: expected it as fit wrote it; restore the folder") from None

    @classmethod
    def _from_json(cls, value: Any) -> ModelCard:
        if not isinstance(value, dict):
            raise WrongInput(f"expected an object with the facts of a model, got {value!r:.80}")
        version = value.get("format")
        if isinstance(version, bool) or version != FORMAT:
            raise WrongInput(f"expected format {FORMAT}, got {version!r:.80}; use a matching privaware")
        ledger = _entry(value, "ledger", dict)
        return cls(
            **{name: _entry(value, name, str) for name in ("version", "created", "learner")},
            settings=_entry(value, "settings", dict),
            plan=_entries(value, "plan", str),
            guarantee=Guarantee.from_json(_entry(value, "guarantee", dict)),
            events=tuple(PricedEvent.from_json(part) for part in _entries(value, "events", dict)),
            ledger=LedgerEntry(entry=_entry(ledger, "entry", str, "ledger.", null=True), run=_text(ledger.get("run"))),
            schema=Schema.from_json(_entry(value, "schema", dict)),
            features=_entries(value, "features", dict),
            architecture=_entry(value, "architecture", dict),
            tensors=_text(value.get("tensors")) or "",
            **{name: _entry(value, name, dict) for name in ("search", "score", "description", "data") if name in value},
            considered=_entries(value, "considered", dict) if "considered" in value else (),
        )


def _data_facts(plan: PricedPlan, model: Model) -> dict[str, Any]:
    """Return the facts `plan.data`, without `columns`, and with the names of the columns that `model` does not use.

    These names are a list under `unused`; `plan.data["columns"]` has the names of all columns. Return an empty dict if
    `plan.data` has no entry besides `columns`.
    """
    used = {column.name for column in model.schema.declared}
    facts = {name: value for name, value in plan.data.items() if name != "columns"}
    return facts | {"unused": [name for name in plan.data["columns"] if name not in used]} if facts else {}


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as plain values.

    Parameters
    ----------
    settings
        Settings; values may be dataclasses.

    Returns
    -------
    dict
        The settings. A value that is a dataclass becomes a dict; dataclasses inside lists or dicts stay.
    """
    return {
        name: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        for name, value in settings.items()
    }


_KINDS: dict[type, str] = {str: "text", dict: "objects", list: "a list", bool: "true or false", int: "a whole number"}


def _entry(value: dict[str, Any], name: str, kind: type, where: str = "", null: bool = False) -> Any:
    """Return the entry `name` of `value`, an instance of `kind`; with `null` it may be None.

    Raise `WrongInput` for an entry of another type, and always if there is no such entry. `where` is the path
    of `value`, such as "guarantee.", for the message.
    """
    if name not in value:
        raise WrongInput(f"expected an entry '{where}{name}', got none; take a fresh copy")
    entry = value[name]
    if not (isinstance(entry, kind) or (null and entry is None)):
        raise WrongInput(f"expected {where}{name} as {_KINDS[kind]}, got {entry!r:.80}")
    return entry


def _entries(value: dict[str, Any], name: str, kind: type, where: str = "") -> tuple[Any, ...]:
    entries = _entry(value, name, list, where)
    for entry in entries:
        if not isinstance(entry, kind):
            raise WrongInput(f"expected {where}{name} as a list of {_KINDS[kind]}, got {entry!r:.80}")
    return tuple(entries)


def _number(value: dict[str, Any], name: str, where: str) -> float | None:
    """Return the entry `name` of `value`: a number of at least 0 (infinity is allowed), or None if the entry is null.

    Raise `WrongInput` for anything else, and if there is no such entry; `where` is as in `_entry`.
    """
    entry = _entry(value, name, object, where)
    if entry is None:
        return None
    if isinstance(entry, bool) or not isinstance(entry, (int, float)) or not entry >= 0:
        raise WrongInput(f"expected {where}{name} as a number >= 0 or null, got {entry!r:.80}")
    return float(entry)


def _text(entry: Any) -> str | None:
    return entry if isinstance(entry, str) else None


def _expect_shallow(value: Any, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise WrongInput(f"expected at most {MAX_DEPTH} nested levels, got more")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for item in inner:
        _expect_shallow(item, depth + 1)
