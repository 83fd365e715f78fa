"""Random event trees, and the same trees with other numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from random import Random
from typing import Any

from privaware.events import (
    AnyOf,
    Approximate,
    Composed,
    Disjoint,
    Event,
    Gaussian,
    Group,
    Laplace,
    Pure,
    RandomisedResponse,
    Repeated,
    Sampled,
    Selected,
)


def leaf(rng: Random) -> Event:
    """One release, or the steps of one training."""
    steps = rng.randrange(1, 500)
    return rng.choice(
        [
            Gaussian(noise=rng.uniform(1, 20)),
            Laplace(noise=rng.uniform(1, 20)),
            Laplace(noise=rng.uniform(1, 10)).sampled(rate=rng.uniform(0.01, 0.5)),
            Pure(epsilon=rng.uniform(0.05, 1)),
            RandomisedResponse(epsilon=rng.uniform(0.1, 1), classes=rng.randrange(2, 10)),
            steps * Gaussian(noise=rng.uniform(0.7, 10)).sampled(rate=10 ** rng.uniform(-3, -0.3)),
        ]
    )


def flat(rng: Random, depth: int = 2) -> Event:
    """A tree of compositions, repetitions and disjoint parts: what the accounting library can price too."""
    kind = rng.randrange(6)
    if depth == 0 or kind < 2:
        return leaf(rng)
    if kind < 4:
        return flat(rng, depth - 1) + flat(rng, depth - 1)
    if kind == 4:
        return rng.randrange(2, 6) * flat(rng, depth - 1)
    return Disjoint(events=(flat(rng, depth - 1), flat(rng, depth - 1)))


def tree(rng: Random, depth: int = 2) -> Event:
    """A tree of every kind of event that has a distribution."""
    kind = rng.randrange(12)
    if depth == 0 or kind < 3:
        return leaf(rng)
    if kind < 7:
        return flat(rng, depth)
    inner = tree(rng, depth - 1)
    if kind == 7:
        return AnyOf(events=(inner, tree(rng, depth - 1)))
    if kind == 8:
        return Group(event=inner, size=rng.randrange(1, 4))
    if kind == 9:
        return inner + Approximate(epsilon=rng.uniform(0.05, 1), delta=1e-8)
    if kind == 10:
        swapped = Sampled(
            event=Gaussian(noise=rng.uniform(0.7, 10)), rate=rng.uniform(0.01, 0.2), relation="replace_one"
        )
        return inner + rng.randrange(1, 200) * swapped
    names: list[tuple[str, float | None]] = [("logarithmic", None), ("negative_binomial", rng.choice([0.5, 1.0, 2.0]))]
    name, shape = rng.choice(names)
    return Selected(event=leaf(rng), distribution=name, shape=shape, mean=rng.uniform(2, 50))


def changed(event: Event, name: str, change: Callable[[Any], Any]) -> Event:
    """The tree with the field `name` of every event in it changed."""
    values: dict[str, Any] = {}
    for item in fields(event):  # type: ignore[arg-type]
        value = getattr(event, item.name)
        if isinstance(value, Event):
            values[item.name] = changed(value, name, change)
        elif isinstance(value, tuple):
            values[item.name] = tuple(changed(part, name, change) for part in value)
        elif item.name == name:
            values[item.name] = change(value)
    return replace(event, **values)  # type: ignore[type-var]


def reordered(event: Event, rng: Random) -> Event:
    """The tree with the parts of every event shuffled."""
    if isinstance(event, Repeated):
        return replace(event, event=reordered(event.event, rng))
    if isinstance(event, (Composed, Disjoint, AnyOf)):
        parts = [reordered(part, rng) for part in event.events]
        rng.shuffle(parts)
        return replace(event, events=tuple(parts))
    return event
