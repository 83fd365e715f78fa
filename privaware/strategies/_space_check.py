"""A space validated before anything is charged: no candidate may turn out wrong when its turn comes."""

from __future__ import annotations

from privaware.errors import WrongInput
from privaware.events import AnyOf
from privaware.schema import Schema
from privaware.strategies._price import price_key, unpriced
from privaware.strategies._search import Search

__all__ = ["expect_valid_space"]


def expect_valid_space(search: Search, schema: Schema, *, priced: bool = True) -> None:
    """Every value of every choice builds a learner and, where it is `priced`, one whose cost the space declares."""
    part, space, price = search.train_schema(schema), search.space, search.price
    if space.unused:
        name = space.unused[0]
        raise WrongInput(f'choice {name!r} changes nothing: expected "${name}" in build, or a condition on it')
    points = space.covering_points()
    learners = [price.learner(point) for point in points]
    scales = {price_key(space, point): scale for point, scale in (price.noise_scales(part) if priced else ())}
    event = search.model_cost(schema, 1.0) if priced else None
    declared = event.events if isinstance(event, AnyOf) else (event,)
    for point, learner in zip(points, learners, strict=True):
        cost = learner.cost(part, scales.get(price_key(space, point), 1.0))
        if priced and cost not in declared:
            raise unpriced(point)
