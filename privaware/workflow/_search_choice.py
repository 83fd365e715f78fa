"""A private search inside `fit`: its space, its settings, and the sentences of the plan about it.

With the strategy `rs`, a search on private rows costs about as much as two to three trainings, for any number of
candidates, and its scores have noise, too. Therefore `auto` searches only on request: its defaults follow from public
facts at no cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from privaware.errors import WrongInput
from privaware.learners import find_learner
from privaware.models.spaces import Space
from privaware.schema import Schema
from privaware.workflow._candidates import SearchSettings
from privaware.workflow._recipe import Recipe
from privaware.workflow.auto import Choice
from privaware.workflow.run.learner_settings import setting_names

__all__ = ["NO_SEARCH", "named_space", "search_reasons", "search_settings", "shown_search"]

NO_SEARCH = (
    "Hyper-parameters: defaults for data of this kind and size. A private search (`--search rs`) would cost about as "
    "much as two to three training runs."
)
"""The sentence of a plan of `auto` without a search."""
SPACES = {"linear": "linear", "boosted": "boosted", "fourier": "fourier"}
"""Default search space of learners for tables that `--learner` names."""
NETWORKS = "tuning"
"""Default search space of learners with an architecture."""


def named_space(recipe: Recipe) -> Space | None:
    """Return the space that `recipe` names; None if it has no search or names no space.

    If `recipe` names a learner, the space is for this learner. Raise `WrongInput` if it names a learner and the space
    chooses among several.
    """
    name = recipe.search_settings.get("space")
    if recipe.search is None or name is None:
        return None
    space = Space.load(name)
    if recipe.learner == "auto":
        return space
    if len(space.learners) > 1:
        raise WrongInput(
            f"expected --learner auto with a space that chooses among {', '.join(space.learners)}, got {recipe.learner}"
        )
    build = {key: value for key, value in space.build.items() if key != "learner"}
    return replace(space, learner=recipe.learner, build=build)


def search_settings(recipe: Recipe, choice: Choice, space: Space | None, schema: Schema) -> SearchSettings | None:
    """Return the settings of the search, in `space` or else in the default space of the chosen learner.

    Return None if `recipe` has no search, or if the chosen learner reads only the target. Raise `WrongInput` if a
    learner of the space needs public rows, or if the chosen learner has no default space.
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
        raise WrongInput(f"expected --space with a search for {choice.learner}, which has none of its own")
    return SPACES[choice.learner]


def search_reasons(settings: SearchSettings, trials: float, schema: Schema) -> tuple[str, ...]:
    """Return the sentences of the plan about a search with these `settings` and `trials` expected trials."""
    space, candidates = settings.space, " or ".join(settings.space.learners)
    tunes = f"{settings.strategy} tunes {', '.join(space.choices)} of {candidates} in about {trials:.4g} trials"
    rows = round(schema.rows * settings.held_out)
    return (
        f"Search: {tunes}. About {rows} of {schema.rows} rows are held out to score the candidates. Only the best one "
        "is released.",
    )


def shown_search(settings: SearchSettings, recipe: Recipe) -> Mapping[str, Any]:
    """Return the search as plain values for the settings of a plan; a space without a name is shown by its choices."""
    named = recipe.search_settings.get("space")
    return {
        "strategy": settings.strategy,
        "space": named if isinstance(named, str) else dict(settings.space.choices),
        "trials": settings.trials,
        "held_out": settings.held_out,
        **({"options": dict(settings.options)} if settings.options else {}),
    }
