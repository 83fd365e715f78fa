"""Interactions of pairs of columns in a model whose trees have depth 2, beyond the effect of each column alone.

Only the released tensors and the schema are used, so this has no privacy cost (post-processing). Two columns vary along
their ranges, and all other columns stay at the middle of their ranges or at their first category. The surface is the
resulting grid minus its row means and column means, plus its mean. Deeper trees mix more than two columns, and their
surfaces are not drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privaware.model import Model

MAX_PAIRS = 12
"""Largest number of pairs whose surfaces are computed: those with the strongest trees."""

MAX_DRAWN = 4
"""Largest number of surfaces that are returned and drawn, the largest first."""

MAX_LEVELS = 12
"""Largest number of levels of a column in a surface, evenly spread over all its levels."""

Levels = tuple[list[float], tuple[str, ...]]
"""The values at which a column is evaluated, and their names."""


@dataclass(frozen=True, kw_only=True)
class Surface:
    """The interaction of two columns: what their values add to an output beyond the effect of each column alone.

    `columns` are their names, and `levels` are the names of the levels of each. `values` has shape (levels of
    `columns[0]`, levels of `columns[1]`), in the unit of the effects; the mean of each line and of each column is 0.
    """

    columns: tuple[str, str]
    levels: tuple[tuple[str, ...], tuple[str, ...]]
    values: np.ndarray

    @property
    def size(self) -> float:
        """The largest of `values` minus the smallest."""
        return float(np.ptp(self.values))


def surfaces(
    model: Model, levels_of: Callable[[int], Levels], middle: np.ndarray, shown: Callable[[np.ndarray], np.ndarray]
) -> tuple[Surface, ...]:
    """Compute the surfaces of the first `MAX_PAIRS` of `strongest_pairs`, and return the `MAX_DRAWN` of largest `size`.

    `levels_of` returns the values and names of the levels of the column at an index. `middle` has one value for each
    column, at which it is held while two others vary. `shown` converts outputs of the model, of shape (rows, outputs),
    to drawn values; only the first column of its result is used.
    """
    computed = []
    for first, second in strongest_pairs(model)[:MAX_PAIRS]:
        (points, names), (others, other_names) = (_few(*levels_of(at)) for at in (first, second))
        rows = np.tile(middle, (len(points) * len(others), 1))
        rows[:, first], rows[:, second] = np.repeat(points, len(others)), np.tile(others, len(points))
        values = shown(model.outputs(rows))[:, 0].reshape(len(points), len(others))
        values = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
        columns = (model.schema.used[first].name, model.schema.used[second].name)
        computed.append(Surface(columns=columns, levels=(names, other_names), values=values))
    return tuple(sorted(computed, key=lambda surface: -surface.size)[:MAX_DRAWN])


def strongest_pairs(model: Model) -> list[tuple[int, int]]:
    """Return the pairs of column indices, the smaller first, that share a tree, the strongest interaction first.

    The strength of a pair is the sum of `abs(leaf[0] - leaf[1] - leaf[2] + leaf[3])` over its trees, by the values of
    the four leaves for the last output. Pairs of strength 0 are left out. Return no pairs for more than two classes,
    and for a model without trees of depth 2.
    """
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
    """Return at most `MAX_LEVELS` of the levels, evenly spread, as their `points` and `names`."""
    if len(points) <= MAX_LEVELS:
        return points, names
    kept = np.linspace(0, len(points) - 1, MAX_LEVELS).round().astype(int).tolist()
    return [points[at] for at in kept], tuple(names[at] for at in kept)
