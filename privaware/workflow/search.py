"""Searching architectures and settings under a budget: plan, charge, search, release the best model.

The search and what it trains are one mechanism with one price. On public rows the search is free and only the model
that it finds is charged. The standard workflow, which searches without noise, is there for comparison: it is done on
public benchmark data only, and what comes out says that it is not private.

Where the number of trials is a secret, progress and seconds would tell it: both are for the owner's eyes, and neither
is written into the model folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from privaware import accounting
from privaware.data import Data, read
from privaware.errors import WrongInput
from privaware.ledger import Ledger
from privaware.mechanism import Mechanism
from privaware.model import Model
from privaware.models.spaces import Point, Space
from privaware.noise import Rng
from privaware.registry import find
from privaware.schema import Schema
from privaware.strategies._search import Found, Search
from privaware.strategies._sound import expect_sound
from privaware.strategies._trials import Now
from privaware.strategies._workers import Here, Processes, Ray, Workers
from privaware.workflow._charged_run import Say, command_key, first_open, ledger_of, tell
from privaware.workflow._output import SEARCH, claimed
from privaware.workflow._plan import Plan, learner_of, one_model, plan, searching
from privaware.workflow._source import Confirm, Source, resolve
from privaware.workflow.fit import EXTRA, Fit, expect_device, finish

__all__ = ["Searched", "search"]

WORKFLOWS = ("aware", "standard")
AT_ONCE = {"cpu": 8, "cuda": 128}
"""Candidates trained as one population: few on a processor, so that progress is seen and little is lost by a kill."""
MOST_WORKERS = 64
"""Each is a process with a tensor library and the rows of its own."""
FLAW = "the settings were chosen on the same rows without noise, for comparison only"


@dataclass(frozen=True, kw_only=True)
class Searched:
    """What came of it. `best` are the winner's choices; `trials` is their number, or its mean where it is a secret."""

    best: Point | None
    trials: float
    epsilon_model: float
    epsilon_total: float
    delta: float
    strategy: str
    workflow: str
    plan: list[str]
    certified: bool
    internal: dict[str, float | None]
    seconds: float
    out: str | None
    model: Model | None = field(default=None, repr=False)
    sentence: str = field(default="", repr=False)

    def json(self) -> dict[str, Any]:
        """The fields of `privaware search --json`."""
        return {key: value for key, value in vars(self).items() if key not in ("model", "sentence")}


def search(
    data: Any,
    *,
    target: str | None = None,
    space: Any = "fcn",
    strategy: str = "rs",
    epsilon: float | None = None,
    model_epsilon: float | None = None,
    delta: float = 1e-5,
    trials: int | None = None,
    settings: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    held_out: float = 0.1,
    public: Any = None,
    workflow: str = "aware",
    workers: int = 1,
    ray: str | None = None,
    schema: Schema | str | Path | None = None,
    accept_schema: bool = False,
    private_schema: bool = False,
    unit: str | None = None,
    cap: int = 1,
    task: str | None = None,
    test: Any = None,
    ledger: Ledger | str | Path | None = None,
    limit: float | None = None,
    device: str = "cpu",
    dry_run: bool = False,
    out: str | Path | None = None,
    seed: int | None = None,
    say: Say | None = None,
    confirm: Confirm | None = None,
) -> Searched:
    """The best candidate of `space` that `strategy` finds, trained and releasable, everything charged.

    Give `epsilon`, the total, or `model_epsilon`, one model's. `settings` go to every candidate's learner, `options`
    to the strategy. With `public` rows the search is free. `workers` processes or a `ray` cluster train candidates.
    """
    say = say or (lambda words: None)
    expect_device(device)
    chosen = Space.load(space)
    source = resolve(
        data,
        target=target,
        task=task,
        unit=unit,
        cap=cap,
        test=test,
        learner=chosen.learner,
        schema=schema,
        accept=accept_schema,
        private=private_schema,
        confirm=confirm,
        dry=dry_run,
    )
    _expect_workflow(workflow, public, source)
    made = _search(
        chosen,
        _strategy(strategy, trials, options),
        settings or {},
        held_out=held_out,
        level=model_epsilon or 1.0,
        device=device,
        workers=_workers(workers, ray),
        at_once=AT_ONCE["cpu" if device == "cpu" else "cuda"],
    )
    call = _Call(
        search=made,
        source=source,
        strategy=strategy,
        workflow=workflow,
        delta=delta,
        ledger=ledger,
        limit=limit,
        folder=None if out is None else Path(out),
        dry=dry_run,
        rng=Rng(seed),
        say=say,
    )
    if workflow == "standard" or public is not None:
        return call.free(epsilon, model_epsilon, public, dict(settings or {}))
    own = {"space": _named(space), "trials": trials, "held_out": held_out, **(settings or {})}
    if options:  # apart: a strategy and a learner may both have, say, an lr
        own["options"] = dict(options)
    return call.paid(epsilon, model_epsilon, own)


@dataclass(frozen=True, kw_only=True)
class _Call:
    """One call of the verb: what is searched, where the rows are, and who pays."""

    search: Search
    source: Source
    strategy: str
    workflow: str
    delta: float
    ledger: Any
    limit: float | None
    folder: Path | None
    dry: bool
    rng: Rng
    say: Say

    def paid(self, epsilon: float | None, model_epsilon: float | None, own: Mapping[str, Any]) -> Searched:
        """The search itself sees the rows, and is charged."""
        planned = searching(
            self.source.schema,
            search=self.search,
            epsilon=epsilon,
            model_epsilon=model_epsilon,
            delta=self.delta,
            name=self.strategy,
            own=own,
        )
        if self.dry:
            tell(planned, self.say)
            return self._result(planned, None)
        self._expect_workers()
        key = command_key("search", self.source, planned, planned.epsilon, self.rng.seed, self.folder)
        with self._book(epsilon or planned.epsilon) as book:
            # Bounds that were bought would be bought again by a run that goes on, so such a run starts anew.
            place = None
            if self.folder is not None and isinstance(planned.mechanism, Search):
                place = self.folder / SEARCH / f"{key}-{first_open(book, key)}"
            heard = replace(self.search, journal=place, progress=_spoken(self.say, book))
            done = finish(
                self.source,
                _with(planned, heard),
                book,
                key,
                self.folder,
                self.rng,
                self.say,
                verb="search",
                opened=_opened,
            )
        return self._result(planned, done)

    def free(
        self, epsilon: float | None, model_epsilon: float | None, public: Any, settings: dict[str, Any]
    ) -> Searched:
        """A search that is not paid for, then one private training of what it found."""
        if (epsilon is None) == (model_epsilon is None):
            raise WrongInput("expected one of --epsilon and --model-epsilon, which are the same here")
        budget = float(epsilon or model_epsilon or 0.0)
        began = time.perf_counter()
        first = self._training(self.search.space.recipes()[0], settings, budget)
        expect_sound(self.search, first.schema, priced=self.workflow == "aware")
        if self.dry:
            tell(first, self.say)
            return self._alone(first, None)
        self._expect_workers()
        rows = _public_rows(public, self.source, self.search.held_out)
        noise = first.noise if self.workflow == "aware" else 0.0
        heard = replace(self.search, progress=_spoken(self.say))
        found = heard.free(rows, noise, self.rng.spawn())
        last = self._training(found.point, settings, budget)
        tag = {EXTRA: {"point": found.point, "workflow": self.workflow}}
        key = command_key("search", self.source, last, budget, self.rng.seed, self.folder)
        with self._book(budget) as book:
            done = finish(
                self.source,
                last,
                book,
                key,
                self.folder,
                self.rng,
                self.say,
                verb="search",
                opened=lambda model: (model, tag),
            )
        return replace(self._alone(last, done), seconds=time.perf_counter() - began)

    def _expect_workers(self) -> None:
        """A cluster that does not answer is found out before anything is charged."""
        if self.search.workers.many < 1:
            raise WrongInput("expected a cluster with at least one processor, got none")

    def _training(self, point: Point, settings: dict[str, Any], epsilon: float) -> Plan:
        space = self.search.space
        made = plan(
            self.source.schema,
            epsilon=epsilon,
            delta=self.delta,
            learner=space.learner,
            settings=settings | space.settings(point),
            aids={"device": self.search.device},
        )
        return replace(made, flaw=FLAW if self.workflow == "standard" else "")

    @contextmanager
    def _book(self, epsilon: float) -> Iterator[Ledger]:
        given = self.ledger
        place = given.path if isinstance(given, Ledger) else given and Path(given)
        with (
            claimed(self.folder, place or None),
            ledger_of(given, self.source, self.folder, self.limit, epsilon, self.delta) as book,
        ):
            yield book

    def _alone(self, planned: Plan, done: Fit | None) -> Searched:
        """Only one training was charged."""
        return replace(self._result(planned, done), epsilon_model=planned.epsilon)

    def _result(self, planned: Plan, done: Fit | None) -> Searched:
        schema = self.source.schema
        one = accounting.epsilon(one_model(self.search, schema, planned.noise), planned.delta)
        return Searched(
            best=None if done is None else done.extra.get(EXTRA, {}).get("point"),
            trials=self.search.trials(schema),
            epsilon_model=one,
            epsilon_total=planned.epsilon,
            delta=planned.delta,
            strategy=self.strategy,
            workflow=self.workflow,
            plan=planned.sentences,
            certified=self.rng.seed is None and not planned.flaw,
            internal={"test_score": None} if done is None else done.internal,
            seconds=0.0 if done is None else done.seconds,
            out=None if done is None else done.out,
            model=None if done is None else done.model,
            sentence="" if done is None else done.sentence,
        )


def _public_rows(public: Any, source: Source, held_out: float) -> Data:
    """The rows that are searched for free: public ones, or for comparison those of a public benchmark."""
    if public is None:
        return source.rows()[0]
    rows = Data.of(read(public), replace(source.schema, unit="row", cap=1))
    if len(rows) * min(held_out, 1 - held_out) < 1:
        raise WrongInput(
            f"expected public rows to train on and to score on, got {len(rows)} of which a share of {held_out:g} "
            "scores; give more of them, or leave --public out"
        )
    return rows


def _expect_workflow(workflow: str, public: Any, source: Source) -> None:
    if workflow not in WORKFLOWS:
        raise WrongInput(f"expected --workflow aware or standard, got {workflow!r:.80}")
    if workflow == "standard" and not source.builtin:
        raise WrongInput(
            "the standard workflow searches the rows without noise, which no guarantee survives; it is there to "
            "compare on built-in benchmark data: leave --workflow out"
        )
    if workflow == "standard" and public is not None:
        raise WrongInput("expected --public with --workflow aware: a search on public rows is free")
    if public is not None and not source.schema.bounded:
        raise WrongInput("expected declared bounds for a search on public rows; give --schema")


def _search(space: Space, strategy: Any, settings: Mapping[str, Any], **more: Any) -> Search:
    make = find("learners", space.learner)
    return Search(
        space=space,
        strategy=strategy,
        build=partial(_built, space.learner, make, dict(settings), more.get("device", "cpu")),
        **more,
    )


def _built(name: str, make: Any, settings: dict[str, Any], device: str, own: dict[str, Any]) -> Mechanism[Model]:
    """A candidate's learner; what the point says comes before what holds for all."""
    both = settings | own
    if "device" in both:
        raise WrongInput("expected the device of a search in --device, got it among the settings")
    aids = {"device": device} if "device" in make.__dataclass_fields__ else {}
    return learner_of(name, make, both | aids)


def _strategy(name: str, trials: int | None, options: Mapping[str, Any] | None) -> Any:
    make = find("strategies", name)
    own = dict(options or {})
    if trials is not None:
        own["trials"] = trials
    known = make.__dataclass_fields__
    if unknown := [key for key in own if key not in known]:
        raise WrongInput(f"{name} has no option {unknown[0]!r}; it has {', '.join(known)}")
    return make(**own)


def _workers(workers: int, ray: str | None) -> Workers:
    most = max(MOST_WORKERS, os.cpu_count() or 1)
    whole = isinstance(workers, int) and not isinstance(workers, bool)
    if not whole or not 1 <= workers <= most:
        raise WrongInput(f"expected --workers as a whole number from 1 to {most}, got {workers!r:.80}")
    if ray is not None:
        return Ray(ray)
    return Here() if workers == 1 else Processes(workers)


def _named(space: Any) -> str:
    return space if isinstance(space, str) else repr(space)


def _opened(found: Found) -> tuple[Model, dict[str, Any]]:
    return found.model, {EXTRA: {"point": found.point, "workflow": "aware"}}


def _with(planned: Plan, search: Search) -> Plan:
    mechanism = planned.mechanism
    if isinstance(mechanism, Search):
        return replace(planned, mechanism=search)
    return replace(planned, mechanism=replace(mechanism, second=search))  # type: ignore[type-var]


def _spoken(say: Say, book: Ledger | None = None, every: float = 2.0) -> Callable[[Now], None]:
    """Progress in words, now and then."""
    heard = [0.0]
    budget: list[str] = []

    def listen(now: Now) -> None:
        if time.monotonic() - heard[0] < every and now.done < now.count:
            return
        heard[0] = time.monotonic()
        best = "none" if now.best is None else f"{now.best:.4f}"
        if book is not None and not budget:
            budget.append(f", epsilon {book.remaining():.3g} left in the ledger")
        say(
            f"internal, not for release: round {now.round} of {now.rounds}, {now.done} of {now.count} candidates, best "
            f"so far {best}{''.join(budget)}, about {now.left:.0f} s left"
        )

    return listen
