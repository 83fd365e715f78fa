"""Tables as ordinal codes: each column becomes the number of its bin or category, for models that look levels up.

Numbers use their declared bins. Without declared bins they use public cells: half of the cells have equal width, and
half become narrower towards zero (or towards the bound nearest to zero), which has a cell of its own. Amounts are often
skewed, and often zero. Missing values (if their column has them as a category) and unseen categories have the last
level. With `numbers`, the numbers themselves follow the codes, scaled to [-1, 1]; a missing number is 0.

Privacy: no privacy cost (data-independent): a function of one row and the schema.
Use when: a tree or an additive model follows.

>>> from privaware.schema import Column, Schema
>>> facts = Schema(columns=(Column(name="age", low=0, high=90, bins=(30, 60)),), classes=("n", "y"))
>>> Codes()(np.array([[45.0], [90.0]]), facts).tolist()
[[1.0], [2.0]]
>>> public_edges(0.0, 100.0, cells=8).round(2).tolist()
[0.0, 0.01, 0.71, 25.0, 50.0, 75.0]
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from privaware._validate import expect_between
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

__all__ = ["Codes", "public_edges"]


@dataclass(frozen=True, kw_only=True)
class Codes:
    """Ordinal codes of the columns of a table: each value becomes the number, from 0, of its bin, cell or category.

    The columns are in the order of `schema.used`, the columns used as features. The result is float32. Rows of another
    number of columns raise `WrongInput`.

    Parameters
    ----------
    cells : int
        Approximate number of cells of a numeric column without declared bins.
    numbers : bool
        Whether the numbers themselves, scaled to [-1, 1], follow the codes.
    """

    cells: int = 32
    numbers: bool = False

    def __post_init__(self) -> None:
        expect_between("codes", 4, 4096, cells=self.cells)

    def __call__(self, x: np.ndarray, schema: Schema) -> np.ndarray:
        used = schema.used
        if x.ndim != 2 or x.shape[1] != len(used):
            raise WrongInput(f"expected rows of {len(used)} columns, got shape {x.shape}")
        codes = np.empty((len(x), self.width(schema)), np.float32)
        for at, column in enumerate(used):
            codes[:, at] = self.codes(x[:, at], column)
        for number, at in enumerate(self._numbers(schema)):
            codes[:, len(used) + number] = _scaled(x[:, at], used[at])
        return codes

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a row."""
        return len(schema.used) + len(self._numbers(schema))

    def levels(self, schema: Schema) -> tuple[int, ...]:
        """Return the number of codes of each of `schema.used`, with its code for missing or unseen values, if any."""
        return tuple(self._levels(column) for column in schema.used)

    def labels(self, column: Column) -> tuple[str, ...]:
        """Return what each code of `column` stands for, in words, in the order of the codes.

        >>> Codes().labels(Column(name="age", low=0, high=90, bins=(30, 60), missing="category"))
        ('up to 30', '30 to 60', '60 and more', 'missing')
        >>> Codes().labels(Column(name="town", kind="category", categories=("", "Ulm"), unseen="other"))
        ('missing', 'Ulm', 'other')
        """
        if column.kind == "category":
            missing = column.missing == "category" and "" not in column.categories
            other = " or ".join(["missing"] * missing + ["other"] * (column.unseen == "other"))
            return (*column.category_names, other)[: self._levels(column)]
        edges = [f"{edge:.4g}" for edge in self.edges(column)]
        between = [f"{low} to {high}" for low, high in itertools.pairwise(edges)]
        between = [f"up to {edges[0]}", *between, f"{edges[-1]} and more"] if edges else ["any"]
        return (*between, *["missing"] * (column.missing == "category"))

    def middles(self, column: Column) -> np.ndarray:
        """Return the midpoint of each bin or cell of a numeric column, scaled so that its bounds become -1 and 1.

        If the column has missing values as a category, a last entry, 0, stands for them.
        """
        low, high = column.low or 0.0, column.high or 0.0
        edges = np.clip(np.concatenate([[low], self.edges(column), [high]]), low, high)
        middles = _scaled((edges[1:] + edges[:-1]) / 2, column)
        return np.concatenate([middles, np.zeros(int(column.missing == "category"))])

    def _numbers(self, schema: Schema) -> list[int]:
        return [at for at, column in enumerate(schema.used) if column.kind == "number"] if self.numbers else []

    def _levels(self, column: Column) -> int:
        if column.kind == "category":
            return len(column.categories) + (column.missing == "category" or column.unseen == "other")
        return len(self.edges(column)) + 1 + (column.missing == "category")

    def edges(self, column: Column) -> np.ndarray:
        """Return the edges between the bins or cells of a numeric column, increasing and above its lower bound.

        They are its declared bins, or else `public_edges`. Raise `WrongInput` if the column has neither bins nor
        bounds.
        """
        if column.bins:
            return np.asarray(column.bins, dtype=float)
        if column.low is None or column.high is None:
            raise WrongInput(
                f"codes: expected low and high of column {column.name!r:.80} in the schema, because this feature "
                "divides the range between them into cells; declare them"
            )
        return public_edges(column.low, column.high, self.cells)

    def codes(self, values: np.ndarray, column: Column) -> np.ndarray:
        """Return the code of each of `values` of one column: the number, from 0, of its bin, cell or category.

        A missing value (not finite) has the last code if the column has missing values as a category, else the code of
        the number 0 or of the first category. A number outside the bounds has the first or the last bin. A category
        beyond the declared ones has the last code.
        """
        missing, last = ~np.isfinite(values), self._levels(column) - 1
        known = np.where(missing, 0.0, values)
        codes = known if column.kind == "category" else np.searchsorted(self.edges(column), known, "right")
        codes = np.where(missing & (column.missing == "category"), last, codes)
        return np.asarray(np.clip(codes, 0, last))


def _scaled(values: np.ndarray, column: Column) -> np.ndarray:
    low, high = column.low or 0.0, column.high or 0.0
    middle, half = (low + high) / 2, (high - low) / 2
    inside = np.clip(np.where(np.isfinite(values), values, middle), low, high)
    return np.asarray((inside - middle) / half)


@lru_cache(maxsize=4096)
def public_edges(low: float, high: float, cells: int) -> np.ndarray:
    """Return the inner edges of cells between two bounds, with narrower cells near zero.

    Half of the cells have equal width. The other cells become narrower towards zero, or towards the bound nearest to
    zero if zero is outside the bounds; this point has a cell of its own.

    Parameters
    ----------
    low, high : float
        The bounds.
    cells : int
        Approximate number of cells.

    Returns
    -------
    numpy.ndarray
        The edges in increasing order. The array is shared and read-only.
    """
    anchor, reach = min(max(0.0, low), high), high - low
    sizes = reach * np.geomspace(1e-4, 0.5, cells // 2 - 1)[:-1]
    edges = [np.linspace(low, high, cells // 2 + 1)[1:-1], anchor + sizes, anchor - sizes]
    edges.append(np.array([anchor, np.nextafter(anchor, np.inf)]))
    every = np.unique(np.concatenate(edges))
    inside = np.asarray(every[(every > low) & (every <= high)])
    inside.setflags(write=False)
    return inside
