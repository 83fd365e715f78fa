"""The privacy-aware workflow: plan, charge, run, release.

In one direction: public facts make a plan and its price; the ledger takes the charge, on disk; only
then does a mechanism see rows; the model folder is finished by one rename. Before the charge the
owner's file is parsed, so that unusable input costs nothing: that parsing answers yes or no to the
owner and releases nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from privaware import accounting, metrics, report
from privaware._version import __version__
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import to_json
from privaware.ledger import Entry, Ledger
from privaware.mechanism import unit as protected
from privaware.model import Model, read_facts
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.workflow._charged_run import Say, charged, command_key, first_open, ledger_of, plain, tell
from privaware.workflow._output import PARTIAL, claimed, prepare, publish, told, waiting
from privaware.workflow._plan import Plan, plan
from privaware.workflow._source import Confirm, Source, resolve, scoring

__all__ = ["Fit", "expect_device", "finish", "fit", "guarantee_sentence", "spoken"]

EXTRA = "search"
"""Where `model.json` says how a search ended."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What came of it. `internal` is for the owner's eyes: printed, never written or released."""

    epsilon: float
    delta: float
    learner: str
    plan: list[str]
    certified: bool
    internal: dict[str, float | None]
    seconds: float
    out: str | None
    model: Model | None = field(default=None, repr=False)
    sentence: str = ""
    extra: dict[str, Any] = field(default_factory=dict, repr=False)
    assumptions: list[str] = field(default_factory=list, repr=False)

    def json(self) -> dict[str, Any]:
        """The fields of `privaware fit --json`."""
        names = ("epsilon", "delta", "learner", "plan", "certified", "internal", "seconds", "out")
        return {name: getattr(self, name) for name in names}


def fit(
    data: Any,
    *,
    target: str | None = None,
    epsilon: float,
    delta: float = 1e-5,
    schema: Schema | str | Path | None = None,
    accept_schema: bool = False,
    private_schema: bool = False,
    unit: str | None = None,
    cap: int = 1,
    public: Any = None,
    learner: str = "auto",
    settings: Mapping[str, Any] | None = None,
    task: str | None = None,
    test: Any = None,
    ledger: Ledger | str | Path | None = None,
    limit: float | None = None,
    time_limit: float | None = None,
    device: str = "cpu",
    dry_run: bool = False,
    out: str | Path | None = None,
    seed: int | None = None,
    say: Say | None = None,
    confirm: Confirm | None = None,
) -> Fit:
    """The best model we can release within (epsilon, delta), everything charged to one ledger.

    `data` is a path, a DataFrame or the name of a built-in data set. Give a `schema`, or accept the
    drafted one, or pay for one (`private_schema`). With `out` the model folder is written there.
    """
    say = say or (lambda words: None)
    rng = Rng(seed)
    expect_device(device)
    folder = None if out is None else Path(out)
    source = resolve(
        data,
        target=target,
        task=task,
        unit=unit,
        cap=cap,
        public=public,
        test=test,
        learner=learner,
        schema=schema,
        accept=accept_schema,
        private=private_schema,
        confirm=confirm,
        dry=dry_run,
    )
    made = plan(
        source.schema,
        epsilon=epsilon,
        delta=delta,
        learner=learner,
        settings=settings,
        public=source.public,
        time_limit=time_limit,
        aids={"device": device, "progress": spoken(say)},
    )
    if dry_run:
        tell(made, say)
        return _result(made, seed, {"test_score": None}, 0.0, None, None)
    key = command_key("fit", source, made, epsilon, seed, folder)
    place = ledger.path if isinstance(ledger, Ledger) else ledger and Path(ledger)
    with claimed(folder, place or None), ledger_of(ledger, source, folder, limit, epsilon, delta) as book:
        return finish(source, made, book, key, folder, rng, say)


def finish(
    source: Source,
    made: Plan,
    book: Ledger,
    key: str,
    folder: Path | None,
    rng: Rng,
    say: Say,
    *,
    verb: str = "fit",
    opened: Callable[[Any], tuple[Model, dict[str, Any]]] = lambda released: (released, {}),
) -> Fit:
    """From the charge to the model folder. Nothing is said or charged before the input is known to be good.

    `opened` takes what the mechanism released apart: a model, and more that `model.json` is to say.
    """
    at = first_open(book, key)
    if folder is not None and at and waiting(folder) == f"{key}-{at - 1}":
        publish(folder)
        say("the run had ended before it could be published: published now")
        model, extra = Model.load(folder), {EXTRA: read_facts(folder).get(EXTRA, {})}
        return _result(made, rng.seed, {"test_score": None}, 0.0, str(folder), model, extra)
    run = f"{key}-{at}"
    done = charged(source, made, book, run, f"{verb} {source.name} with {made.learner}", rng, say)
    model, extra = opened(done.released)
    internal = _internal(model, source.schema, done.scored)
    if folder is not None:
        with told(folder, "the charge stays, and the same command resumes once there is room"):
            _publish(model, _facts(made, done.entry, rng.seed) | extra, book, run, folder)
    else:
        book.finish(run)
    place = None if folder is None else str(folder)
    return _result(made, rng.seed, internal, done.seconds, place, model, extra)


def _internal(model: Model, planned: Schema, scored: Data | None) -> dict[str, float | None]:
    if scored is None or not len(scored):
        return {"test_score": None}
    if not planned.bounded:
        scored = scored.against(scoring(model.schema))
    return metrics.internal(model.schema.task, scored.y, model.predictions(scored))


def _publish(model: Model, facts: dict[str, Any], book: Ledger, run: str, folder: Path) -> None:
    """Everything is on disk before the run is declared finished, and one rename makes it a model."""
    (folder / PARTIAL).unlink(missing_ok=True)  # another run's facts never meet these tensors
    whole = model.save(folder, facts)
    prepare(folder, whole, report.page(whole))
    book.finish(run)
    publish(folder)


def _facts(made: Plan, entry: Entry, seed: int | None) -> dict[str, Any]:
    bounds = made.bounds
    alone = [
        {"what": what, "event": to_json(event), "epsilon": accounting.epsilon(event, made.delta)}
        for what, event in made.parts
    ]
    return {
        "version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "learner": made.learner,
        "settings": plain(made.settings),
        "plan": made.sentences,
        "guarantee": {
            "epsilon": made.epsilon,
            "delta": made.delta,
            "unit": made.schema.unit,
            "cap": made.schema.cap,
            "relation": made.schema.relation,
            "sampler": made.sampler,
            "method": bounds["method"],
            "accountants": {name: bounds.get(name) for name in ("pld", "cf", "rdp")},
            "certified": seed is None and not made.flaw,
            "seed": seed,
            "sentence": guarantee_sentence(made, seed),
            "assumptions": _assumptions(made),
        },
        "events": alone,
        "ledger": {"entry": entry.hash, "run": entry.run},
    }


def guarantee_sentence(made: Plan, seed: int | None) -> str:
    """What the guarantee means, in one plain sentence."""
    who = {"row": "any one row", "label": "the label of any one row"}.get(
        made.schema.unit, f"all rows of any one {made.schema.unit}"
    )
    verb = "was" if made.schema.unit in ("row", "label") else "were"
    did = (
        f"{verb} replaced"
        if made.schema.relation == "replace_one" or made.schema.unit == "label"
        else f"{verb} in the data or not"
    )
    odds = np.exp(min(made.epsilon, 700.0))
    start = "SEEDED, NOT FOR RELEASE: without the seed, who" if seed is not None else "Who"
    if made.flaw:
        start = f"NOT PRIVATE: {made.flaw}. But for that, who"
    return (
        f"{start}ever sees this model learns little about whether {who} {did}: "
        f"no conclusion becomes more than {odds:.3g} times as likely "
        f"(epsilon {made.epsilon:.4g}), except with a chance of {made.delta:g} (delta)."
    )


def _assumptions(made: Plan) -> list[str]:
    words = [f"public: {words}" for words in made.schema.assumed]
    words.append("public: the schema, the declared number of rows and every setting in the plan")
    if protected(made.mechanism) == "label":
        words.append("public: all features; only labels are protected")
    words.append("trusted: this machine, its random generator, and double-precision arithmetic")
    return words


def _result(
    made: Plan,
    seed: int | None,
    internal: dict[str, float | None],
    seconds: float,
    out: str | None,
    model: Model | None,
    extra: dict[str, Any] | None = None,
) -> Fit:
    return Fit(
        epsilon=made.epsilon,
        delta=made.delta,
        learner=made.learner,
        plan=made.sentences,
        certified=seed is None and not made.flaw,
        internal=internal,
        seconds=seconds,
        out=out,
        model=model,
        extra=extra or {},
        sentence=guarantee_sentence(made, seed),
        assumptions=_assumptions(made),
    )


def spoken(say: Say, every: float = 5.0) -> Callable[[int, int, float], None]:
    """A listener to progress that speaks now and then."""
    heard = [time.monotonic()]

    def listen(step: int, steps: int, left: float) -> None:
        if time.monotonic() - heard[0] >= every:
            heard[0] = time.monotonic()
            say(f"step {step} of {steps}, about {left:.0f} s left")

    return listen


def expect_device(device: str) -> None:
    import torch

    try:
        if torch.empty(0, device=device).device.type in ("cpu", "cuda"):
            return
    except (RuntimeError, AssertionError):
        pass
    raise WrongInput(f"expected --device cpu, or cuda where there is one, got {device!r:.80}")
