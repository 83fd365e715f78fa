"""Choices made on public rows before any charge: a search on the rows of `--public`, and the standard workflow.

The standard workflow of the papers chooses columns and settings on the training rows without noise, and then trains
with noise. No guarantee covers such a choice. It therefore runs only on built-in benchmark data, which are public, and
its result says that it is not private.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from privaware.errors import WrongInput
from privaware.guarantee import CHOSEN_WITHOUT_NOISE
from privaware.mechanism import Mechanism, Then
from privaware.schema import Schema
from privaware.strategies._search import Search
from privaware.workflow._candidates import expect_workflow, public_rows
from privaware.workflow._recipe import Recipe
from privaware.workflow.auto import considered
from privaware.workflow.run.charge import ChargedRun
from privaware.workflow.run.paid_columns import keep_columns, selector_for
from privaware.workflow.run.plan import Plan
from privaware.workflow.run.progress import search_progress

NO_NOISE = 1e-9
"""Noise multiplier of a selection or a search in the standard workflow; it is positive, as selectors divide by it."""


@dataclass(frozen=True, kw_only=True)
class PublicChoice:
    """A recipe with the columns and settings that were chosen on public rows.

    `flaw` says why the choice is not private, or is empty. `reasons` are sentences for the plan. `search` describes the
    choice in the model card.
    """

    recipe: Recipe
    flaw: str = ""
    reasons: tuple[str, ...] = ()
    search: Mapping[str, Any] = field(default_factory=dict)

    def applied(self, plan: Plan) -> Plan:
        """Return `plan` with the flaw and the sentences of this choice.

        If settings were searched, the plan's sentence about the learner and its table of considered learners are
        replaced, too.
        """
        plan = replace(plan, flaw=self.flaw)
        if "point" not in self.search:
            return replace(plan, reasons=(*self.reasons, *plan.reasons))
        where = "on the same rows without noise" if self.flaw else "on public rows"
        rest = [reason for reason in plan.reasons if not reason.startswith("Learner: ")]
        row = considered(plan.learner, f"its settings were searched {where}", taken=True)
        learner = f"Learner: {plan.learner}, with the settings that this search finds."
        return replace(plan, reasons=(*self.reasons, learner, *rest), considered=(row,))


def choose_on_public_rows(run: ChargedRun, recipe: Recipe, plan_of: Callable[[Recipe], Plan]) -> PublicChoice:
    """Choose settings, and in the standard workflow also columns, on public rows, without a charge.

    `recipe` stays unchanged unless it has a search and `--public` was given, or it is for the standard workflow and has
    a search or a selection. A dry run reads no row: it takes all columns, and as the candidate the first of
    `space.priced_points()`. `plan_of` returns the plan of a recipe.
    """
    standard = recipe.workflow == "standard"
    looks = recipe.search is not None or (standard and recipe.select is not None)
    on_public = recipe.search is not None and run.options.public is not None
    if not looks or not (standard or on_public):
        return PublicChoice(recipe=recipe)
    expect_workflow(recipe.workflow, run.options.public, run.source)
    choice = PublicChoice(recipe=recipe, flaw=CHOSEN_WITHOUT_NOISE if standard else "")
    if standard and recipe.select is not None:
        choice = _selected(run, choice)
    if recipe.search is not None:
        choice = _searched(run, choice, plan_of(choice.recipe), plan_of)
    shown = {**choice.search, "workflow": recipe.workflow}
    return replace(choice, search=shown)


def _selected(run: ChargedRun, choice: PublicChoice) -> PublicChoice:
    """Return `choice` with the columns that a selection without noise chooses; with all columns in a dry run."""
    method = choice.recipe.select
    assert method is not None
    selector = selector_for(run.schema, method, choice.recipe.select_settings)
    reasons = (*choice.reasons, f"Columns are selected with {method} without noise (standard workflow).")
    names = tuple(column.name for column in run.schema.used)
    if not run.options.dry_run:
        names = columns_without_noise(run, selector, run.schema)
    recipe = replace(choice.recipe, select=None, select_settings={}, columns=names)
    return replace(choice, recipe=recipe, reasons=reasons, search={**choice.search, "columns": list(names)})


def columns_without_noise(run: ChargedRun, selector: Mechanism[tuple[str, ...]], schema: Schema) -> tuple[str, ...]:
    """Select columns on the rows of a built-in data set without noise; an empty selection becomes the first column.

    `selector` is the mechanism of the selection, and `schema` has the columns to select among. Nothing is charged.
    """
    rows = run.public_rows().keep(tuple(column.name for column in schema.used))
    kept = keep_columns(rows, selector.run(rows, NO_NOISE, run.rng.spawn()))
    return tuple(column.name for column in kept.schema.used)


def _searched(run: ChargedRun, choice: PublicChoice, plan: Plan, plan_of: Callable[[Recipe], Plan]) -> PublicChoice:
    """Return `choice` with the settings of the candidate that a search on public rows finds.

    `plan` has the search, and `plan_of` returns the plan of a recipe. A dry run does not search: it takes the first of
    `space.priced_points()`. Candidates train with the noise multiplier of the plan for this first candidate, or with
    `NO_NOISE` in the standard workflow.
    """
    recipe, search = choice.recipe, _search_of(plan)
    point = search.space.priced_points()[0]
    trained = plan_of(_at(recipe, search, point))
    standard = recipe.workflow == "standard"
    if not run.options.dry_run:
        rows = run.public_rows() if standard else public_rows(run, search.held_out)
        rows = rows.keep(tuple(column.name for column in trained.schema.used))
        listening = replace(search, progress=search_progress(run.options.say, secret=False))
        point = listening.run_public(rows, NO_NOISE if standard else trained.noise, run.rng.spawn()).point
    where = "without noise (standard workflow)" if standard else "on public rows, which has no privacy cost"
    reason = f"Search: {recipe.search} tunes {', '.join(search.space.choices)}, {where}."
    found = {**choice.search, "strategy": recipe.search, "point": point}
    return replace(choice, recipe=_at(recipe, search, point), reasons=(*choice.reasons, reason), search=found)


def _at(recipe: Recipe, search: Search, point: Mapping[str, Any]) -> Recipe:
    """Return `recipe` without a search and with the settings of the candidate `point` in the space of `search`."""
    settings = {**recipe.settings, **search.space.settings(point)}
    learner = settings.pop("learner", search.space.learner)
    return replace(recipe, learner=learner, settings=settings, search=None, search_settings={})


def _search_of(plan: Plan) -> Search:
    mechanism: Any = plan.mechanism
    while isinstance(mechanism, Then):
        mechanism = mechanism.second
    if not isinstance(mechanism, Search):
        raise WrongInput(
            "expected features without a privacy cost in a search on public rows, got normalise, pca or weigh; leave "
            "these features or the search out"
        )
    return mechanism
