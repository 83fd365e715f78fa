"""A space looked through before anything is paid: no candidate may turn out wrong when it is its turn."""

from __future__ import annotations

from privaware.errors import WrongInput
from privaware.events import AnyOf
from privaware.schema import Schema
from privaware.strategies._search import Search
from privaware.strategies._trials import recipe_of, unpriced

__all__ = ["expect_sound"]


def expect_sound(search: Search, schema: Schema, *, priced: bool = True) -> None:
    """Every value of every choice makes a learner and, where it is `priced`, one of a price that the space declares."""
    part, space = search.train_schema(schema), search.space
    if space.idle:
        name = space.idle[0]
        raise WrongInput(f'choice {name!r} changes nothing: expected "${name}" in build, or a condition on it')
    points = space.samples()
    learners = [search.build(space.settings(point)) for point in points]
    recipes = search._recipes(part) if priced else ()
    scales = {recipe_of(space, point): scale for point, scale in recipes}
    event = search.model_cost(schema, 1.0) if priced else None
    prices = event.events if isinstance(event, AnyOf) else (event,)
    for point, learner in zip(points, learners, strict=True):
        own = learner.cost(part, scales.get(recipe_of(space, point), 1.0))
        if priced and own not in prices:
            raise unpriced(point)
