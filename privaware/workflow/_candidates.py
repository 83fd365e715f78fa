"""The search that `search` and `fit` build: a strategy over a space, its candidates, its workers, its public rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from privaware._validate import expect, suggestion
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Selected, nested
from privaware.learners import find_learner
from privaware.mechanism import Mechanism, Then
from privaware.model import Model
from privaware.models.spaces import Space
from privaware.strategies import find_strategy
from privaware.strategies._search import Search
from privaware.strategies._workers import Here, Processes, Ray, Workers
from privaware.workflow._recipe import WORKFLOWS
from privaware.workflow._score import ScoredTraining
from privaware.workflow.run.charge import ChargedRun
from privaware.workflow.run.learner_settings import configured, setting_names
from privaware.workflow.run.paid_features import PaidFeatures
from privaware.workflow.run.progress import search_progress
from privaware.workflow.run.source import Source

__all__ = ["SearchSettings", "candidate", "expect_workers", "expect_workflow", "observed", "public_rows", "workers_of"]

POPULATION = {"cpu": 8, "cuda": 128}
"""Number of candidates trained as one population; small on a CPU, so that progress is shown and a kill loses little."""
MOST_WORKERS = 64
"""Largest number of worker processes on a machine with at most this many processors; each copies the rows."""


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """The settings of a search.

    `trials` is the number of trials, or None for the default of the strategy. `options` go to the strategy. The
    fraction `held_out` of the rows scores the candidates.
    """

    space: Space
    strategy: str = "rs"
    trials: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    held_out: float = 0.1

    def search(
        self,
        shared: Mapping[str, Any],
        *,
        device: str = "cpu",
        reference_epsilon: float = 1.0,
        workers: Workers | None = None,
    ) -> Search:
        """Return the mechanism of the search.

        `shared` settings go to the learner of every candidate. Candidates are trained by `workers`, or in this process
        if `workers` is None. `reference_epsilon` is as in `TrialPrice`.
        """
        return Search(
            space=self.space,
            strategy=_strategy(self.strategy, self.trials, self.options),
            build=partial(candidate, self.space.learner, shared, device),
            held_out=self.held_out,
            reference_epsilon=reference_epsilon,
            device=device,
            workers=workers or Here(),
            population_size=POPULATION["cpu" if device == "cpu" else "cuda"],
        )


def candidate(learner: str, shared: Mapping[str, Any], device: str, settings: Mapping[str, Any]) -> Mechanism[Model]:
    """Return the mechanism that trains a candidate: `learner`, or the learner that `settings` names.

    `settings` of the candidate override `shared` settings. `device` is passed to a learner that has this setting; a
    device among the settings raises `WrongInput`.
    """
    both = {**shared, **settings}
    name = both.pop("learner", learner)
    if "device" in both:
        raise WrongInput("expected the device of a search in --device, got it among the settings")
    make = find_learner(name)
    return configured(name, make, both | ({"device": device} if "device" in setting_names(make) else {}))


def _strategy(name: str, trials: int | None, options: Mapping[str, Any] | None) -> Any:
    make = find_strategy(name)
    chosen = dict(options or {})
    if trials is not None:
        chosen["trials"] = trials
    known = setting_names(make)
    if unknown := [key for key in chosen if key not in known]:
        raise WrongInput(f"{name} has no option {unknown[0]!r:.80}; {suggestion(unknown[0], known)}")
    return make(**chosen)


def workers_of(workers: int, ray: str | None) -> Workers:
    """Return the Ray cluster at the address `ray`; without an address, `workers` processes, or this process for 1.

    Raise `WrongInput` if `workers` is not from 1 to the larger of `MOST_WORKERS` and the number of processors.
    """
    most = max(MOST_WORKERS, os.cpu_count() or 1)
    valid = isinstance(workers, int) and not isinstance(workers, bool) and 1 <= workers <= most
    expect(valid, "", f"--workers as a whole number from 1 to {most}", workers)
    if ray is not None:
        return Ray(ray)
    return Here() if workers == 1 else Processes(workers)


def expect_workers(run: ChargedRun, search: Search) -> None:
    """Raise `WrongInput`, before anything is charged, if a Ray cluster does not answer; not checked in a dry run."""
    if not run.options.dry_run and search.workers.capacity < 1:
        raise WrongInput("expected a cluster with at least one processor, got none")


def observed(run: ChargedRun, mechanism: Any) -> Any:
    """Return `mechanism`, the mechanism of a charged run, with a listener to the progress of its search, if it has one.

    If `mechanism` itself is a search, it also keeps a journal, from which it resumes after a kill. A search with other
    releases, such as bounds before it or a charged score, has no journal. After a kill it starts over, and these
    releases get new noise.
    """
    if isinstance(mechanism, Search):
        return replace(mechanism, progress=_progress(run), journal=run.journal)
    return _listening(mechanism, run)


def _listening(mechanism: Any, run: ChargedRun) -> Any:
    if isinstance(mechanism, Search):
        return replace(mechanism, progress=_progress(run))
    if isinstance(mechanism, Then):
        return replace(mechanism, second=_listening(mechanism.second, run))
    if isinstance(mechanism, ScoredTraining):
        return replace(mechanism, training=_listening(mechanism.training, run))
    if isinstance(mechanism, PaidFeatures):
        build = mechanism.build
        return replace(mechanism, build=lambda features: _listening(build(features), run))
    return mechanism


def _progress(run: ChargedRun) -> Any:
    secret = any(isinstance(event, Selected) for event in nested(run.plan.event))
    return search_progress(run.options.say, secret=secret, remaining=run.ledger.remaining)


def public_rows(run: ChargedRun, held_out: float) -> Data:
    """Return the rows of `--public` for a search; the fraction `held_out` of them scores the candidates.

    Raise `WrongInput` if fewer than one row would train, or fewer than one row would score.
    """
    rows = run.source.read_public_rows()
    if len(rows) * min(held_out, 1 - held_out) < 1:
        raise WrongInput(
            f"expected public rows to train on and to score on, got {len(rows)} of which a share of {held_out:g} "
            "scores; give more of them, or leave --public out"
        )
    return rows


def expect_workflow(workflow: str, public: Any, source: Source) -> None:
    """Raise `WrongInput` if `workflow` is unknown, or if `workflow` and `public` do not fit the data of `source`.

    The standard workflow, which uses rows without noise, needs built-in data and no `public` rows. A search on `public`
    rows needs declared bounds.
    """
    expect(workflow in WORKFLOWS, "", "--workflow aware or standard", workflow)
    if workflow == "standard" and not source.builtin:
        raise WrongInput(
            "the standard workflow searches the rows without noise, which no guarantee survives; it is there to "
            "compare on built-in benchmark data: leave --workflow out"
        )
    if workflow == "standard" and public is not None:
        raise WrongInput("expected --public with --workflow aware: a search on public rows has no privacy cost")
    if public is not None and not source.schema.bounded:
        raise WrongInput("expected declared bounds for a search on public rows; give --schema")
