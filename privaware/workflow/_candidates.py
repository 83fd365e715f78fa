"""The search that `search` and `fit` build: a strategy over a space, its candidates, its workers, its public rows.

With the strategy `rs` (random search), a search on private rows costs about as much as two to three trainings, for any
number of candidates, and its scores have noise, too. Therefore `auto` searches only on request: its defaults follow
from public facts at no cost.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from privaware._validate import expect, suggestion
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.learners import find_learner
from privaware.mechanism import Mechanism, Then
from privaware.model import Model
from privaware.models.spaces import Space
from privaware.schema import Schema
from privaware.strategies import find_strategy
from privaware.strategies._search import Search
from privaware.strategies._workers import Here, Processes, Ray, Workers
from privaware.workflow._recipe import WORKFLOWS, Recipe
from privaware.workflow._score import ScoredTraining
from privaware.workflow.auto import Choice
from privaware.workflow.run.charge import ChargedRun
from privaware.workflow.run.learner_settings import configured, setting_names
from privaware.workflow.run.paid_features import PaidFeatures
from privaware.workflow.run.progress import search_progress
from privaware.workflow.run.source import Source

POPULATION = {"cpu": 8, "cuda": 128}
"""Number of candidates trained as one population; small on a CPU, so that progress is shown and a kill loses little."""
MOST_WORKERS = 64
"""Largest number of worker processes on a machine with at most this many processors; each copies the rows."""
NO_SEARCH = (
    "Hyper-parameters: defaults for data of this kind and size. A private search (`--search=rs`) would cost about as "
    "much as two to three training runs."
)
"""The sentence of a plan of `auto` without a search."""
SPACES = {"linear": "linear", "boosted": "boosted", "fourier": "fourier"}
"""Default search space of learners for tables that `--learner` names."""
NETWORKS = "tuning"
"""Default search space of learners with an architecture."""


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """The settings of a search.

    `space` has the candidates, and `strategy` is the name of a strategy. `trials` is the setting `trials` of the
    strategy (for `rs` the expected number of trials), or None for its default. `options` are other settings of the
    strategy. The fraction `held_out` of the rows scores the candidates.
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
        if `workers` is None. `reference_epsilon` is the epsilon of one training at which the cost of a score is set
        (see `TrialPrice`).
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
    """Return the mechanism that trains a candidate: the learner that `settings` or `shared` names, else `learner`.

    `settings` of the candidate override `shared` settings; the entry `learner` of either is the name of a learner.
    `device` is passed to a learner that has this setting; a device in `settings` or `shared` raises `WrongInput`.
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

    With or without an address, raise `WrongInput` if `workers` is not from 1 to the larger of `MOST_WORKERS` and the
    number of processors.
    """
    most = max(MOST_WORKERS, os.cpu_count() or 1)
    valid = isinstance(workers, int) and not isinstance(workers, bool) and 1 <= workers <= most
    expect(valid, "", f"--workers as a whole number from 1 to {most}", workers)
    if ray is not None:
        return Ray(ray)
    return Here() if workers == 1 else Processes(workers)


def expect_workers(run: ChargedRun, search: Search) -> None:
    """Raise `WrongInput`, before a charge, if the workers of `search` are on a Ray cluster that does not answer.

    Nothing is checked in a dry run.
    """
    if not run.options.dry_run:
        _ = search.workers.capacity  # connects to the cluster


def observed(run: ChargedRun, mechanism: Any) -> Any:
    """Return `mechanism`, the mechanism of a charged run, with a listener to the progress of its search, if it has one.

    A mechanism without a search is returned as it is. If `mechanism` itself is a search, it also keeps a journal, from
    which it resumes after a kill. A search with other releases, such as bounds before it or a charged score, has no
    journal. After a kill it starts over, and these releases get new noise.
    """
    return _listening(mechanism, run, journal=run.journal)


def _listening(mechanism: Any, run: ChargedRun, **more: Any) -> Any:
    """Return `mechanism` with a listener to its search, if it has one; a search itself also gets the fields `more`."""
    if isinstance(mechanism, Search):
        say, secret = run.options.say, run.plan.has_secret_trials
        return replace(mechanism, progress=search_progress(say, secret=secret, remaining=run.ledger.remaining), **more)
    if isinstance(mechanism, Then):
        return replace(mechanism, second=_listening(mechanism.second, run))
    if isinstance(mechanism, ScoredTraining):
        return replace(mechanism, training=_listening(mechanism.training, run))
    if isinstance(mechanism, PaidFeatures):
        build = mechanism.build
        return replace(mechanism, build=lambda features: _listening(build(features), run))
    return mechanism


def public_rows(run: ChargedRun, held_out: float) -> Data:
    """Return all rows of `--public` for a search, which later uses the fraction `held_out` of them as scoring rows.

    Raise `WrongInput` if fewer than one row would train, or fewer than one row would score.
    """
    rows = run.source.read_public_rows()
    if len(rows) * min(held_out, 1 - held_out) < 1:
        raise WrongInput(
            "expected enough public rows to train and to score candidates, got "
            f"{len(rows)} rows and a fraction of {held_out:g} that scores; give more public rows, or leave --public out"
        )
    return rows


def expect_workflow(workflow: str, public: Any, source: Source) -> None:
    """Raise `WrongInput` if `workflow` is unknown, or if `workflow` and `public` do not fit the data of `source`.

    The standard workflow, which uses rows without noise, needs built-in data and no `public` rows. A search on `public`
    rows needs declared bounds.
    """
    expect(workflow in WORKFLOWS, "", "--workflow as aware or standard", workflow)
    if workflow == "standard" and not source.builtin:
        raise WrongInput(
            "the standard workflow searches the rows without noise, which no guarantee survives; it is there to "
            "compare on built-in benchmark data: leave --workflow out"
        )
    if workflow == "standard" and public is not None:
        raise WrongInput(
            "expected --workflow=aware with --public, got --workflow=standard; leave --workflow out, because a search "
            "on public rows has no privacy cost"
        )
    if public is not None and not source.schema.bounded:
        raise WrongInput("expected declared bounds for a search on public rows; give --schema")


def named_space(recipe: Recipe) -> Space | None:
    """Return the space that `recipe` names; None if it has no search or names no space.

    If `recipe` names a learner other than "auto", the space is for this learner. Raise `WrongInput` if the space then
    chooses among several learners.
    """
    name = recipe.search_settings.get("space")
    if recipe.search is None or name is None:
        return None
    space = Space.load(name)
    if recipe.learner == "auto":
        return space
    if len(space.learners) > 1:
        raise WrongInput(
            f"expected --learner=auto with a space that chooses among {', '.join(space.learners)}, got {recipe.learner}"
        )
    build = {key: value for key, value in space.build.items() if key != "learner"}
    return replace(space, learner=recipe.learner, build=build)


def search_settings(recipe: Recipe, choice: Choice, space: Space | None, schema: Schema) -> SearchSettings | None:
    """Return the settings of the search that `recipe` requests, in `space` or else in a default space.

    The default space is `tables` if `recipe` leaves the learner of a table to `auto`; otherwise it is a space for the
    learner of `choice`. Return None if `recipe` has no search, or if the chosen learner reads only the target. Raise
    `WrongInput` if a learner of the space needs public rows (even if there are some), or if the chosen learner has no
    default space.
    """
    if recipe.search is None or not find_learner(choice.learner).uses_columns:
        return None
    chosen = {name: value for name, value in recipe.search_settings.items() if name != "space"}
    space = space or Space.load(_default_space(recipe, choice, schema))
    for name in space.learners:
        if find_learner(name).needs_public:
            raise WrongInput(f"expected a learner that needs no public rows in a search, got {name}")
    return SearchSettings(space=space, strategy=recipe.search, **chosen)


def _default_space(recipe: Recipe, choice: Choice, schema: Schema) -> str:
    if choice.learner == "linear" and "features" in choice.settings:
        return "linear_head"
    if recipe.learner == "auto" and schema.form == "table":
        return "tables"
    if "architecture" in setting_names(find_learner(choice.learner)):
        return NETWORKS
    if choice.learner not in SPACES:
        raise WrongInput(f"expected --space for a search with {choice.learner}, which has no default space, got none")
    return SPACES[choice.learner]


def search_reasons(settings: SearchSettings, trials: str, schema: Schema) -> tuple[str, ...]:
    """Return a tuple with one sentence of the plan about a search with these `settings`.

    `trials` is the number of trials in words, such as "about 3 trials". `schema` has the number of rows.
    """
    space, candidates = settings.space, " or ".join(settings.space.learners)
    tunes = f"{settings.strategy} tunes {', '.join(space.choices)} of {candidates} in {trials}"
    rows = round(schema.rows * settings.held_out)
    return (
        f"Search: {tunes}. About {rows} of {schema.rows} rows are held out to score the candidates. Only the best one "
        "is released.",
    )


def shown_search(settings: SearchSettings, recipe: Recipe) -> Mapping[str, Any]:
    """Return the search as plain values for the settings of a plan.

    The space is shown by the name that `recipe` gives it or, without a name, by its choices.
    """
    named = recipe.search_settings.get("space")
    return {
        "strategy": settings.strategy,
        "space": named if isinstance(named, str) else dict(settings.space.choices),
        "trials": settings.trials,
        "held_out": settings.held_out,
        **({"options": dict(settings.options)} if settings.options else {}),
    }
