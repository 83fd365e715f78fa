"""What pairs of columns do together in a model whose trees look at two columns, beyond what each of them does alone.

Only the released tensors and the schema are used, so this has no privacy cost (post-processing). Both columns move
along their ranges, the others stay in the middle; what is left when the mean of each row and column of that grid is
taken off is the surface of the pair. Deeper trees mix more than two columns, and their surfaces are not drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privaware.model import Model

__all__ = ["Surface", "strongest_pairs", "surfaces"]

LOOKED_AT = 12
"""Pairs of columns with the strongest trees whose surfaces are computed."""

DRAWN = 4
"""Largest surfaces that are drawn."""

MOST_LEVELS = 12
"""Levels of a column in a surface, evenly spread over all of them."""

Levels = tuple[list[float], tuple[str, ...]]
"""Where a column is evaluated, and how these levels are called."""


@dataclass(frozen=True, kw_only=True)
class Surface:
    """What two columns add to the output together: `values` has a line for each level of the first."""

    columns: tuple[str, str]
    levels: tuple[tuple[str, ...], tuple[str, ...]]
    values: np.ndarray

    @property
    def size(self) -> float:
        """How far the pair moves the output at most."""
        return float(np.ptp(self.values))


def surfaces(
    model: Model, levels_of: Callable[[int], Levels], middle: np.ndarray, shown: Callable[[np.ndarray], np.ndarray]
) -> tuple[Surface, ...]:
    """The largest surfaces of a model with one output and trees of depth 2; none of another.

    `middle` is the row that the other columns stay at, `shown` turns outputs into what is drawn.
    """
    found = []
    for first, second in strongest_pairs(model)[:LOOKED_AT]:
        (points, names), (others, other_names) = (_few(*levels_of(at)) for at in (first, second))
        rows = np.tile(middle, (len(points) * len(others), 1))
        rows[:, first], rows[:, second] = np.repeat(points, len(others)), np.tile(others, len(points))
        values = shown(model.outputs(rows))[:, 0].reshape(len(points), len(others))
        values = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
        columns = (model.schema.used[first].name, model.schema.used[second].name)
        found.append(Surface(columns=columns, levels=(names, other_names), values=values))
    return tuple(sorted(found, key=lambda surface: -surface.size)[:DRAWN])


def strongest_pairs(model: Model) -> list[tuple[int, int]]:
    """Pairs of columns by how far their trees are from a sum of both, the strongest first."""
    described = model.architecture
    if described.get("name") != "trees" or described.get("depth") != 2 or len(model.schema.classes) > 2:
        return []
    leaves = model.tensors["leaves"][:, :, -1].astype(float)
    together = np.abs(leaves[:, 0] - leaves[:, 1] - leaves[:, 2] + leaves[:, 3])
    strengths: dict[tuple[int, int], float] = {}
    for (first, second), strength in zip(model.tensors["columns"].tolist(), together.tolist(), strict=True):
        if first != second and strength > 0:
            pair = (int(min(first, second)), int(max(first, second)))
            strengths[pair] = strengths.get(pair, 0.0) + strength
    return sorted(strengths, key=lambda pair: (-strengths[pair], pair))


def _few(points: list[float], names: tuple[str, ...]) -> Levels:
    """At most so many levels, evenly spread over all of them."""
    if len(points) <= MOST_LEVELS:
        return points, names
    kept = np.linspace(0, len(points) - 1, MOST_LEVELS).round().astype(int).tolist()
    return [points[at] for at in kept], tuple(names[at] for at in kept)
