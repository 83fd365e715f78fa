"""Tables as numbers only: categories are dropped, and each number is scaled to [-1, 1] * norm / sqrt(numbers).

It is an alternative to one-hot rows. A one-hot category needs an entry, and so noise, for every value that it may take.
With a small budget a model without categories can be better.

Paper: Bao, Bauer and Bindschaedler, section V-B (one-hot against dropping categorical columns).
Privacy: no privacy cost (data-independent): a function of one row and the schema.
Use when: the budget is small and the numeric columns are the informative ones.

>>> from privaware.schema import Column, Schema
>>> facts = Schema(columns=(Column(name="age", low=0, high=90), Column(name="sex", kind="category",
...     categories=("f", "m"))), classes=("n", "y"))
>>> Drop()(np.array([[90.0, 1.0]]), facts)
array([[1.]], dtype=float32)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privaware._validate import expect_between
from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["Drop"]


@dataclass(frozen=True, kw_only=True)
class Drop:
    """Keep only the numeric columns of a table, each scaled from its bounds to [-1, 1] * norm / sqrt(numeric columns).

    A number outside its bounds is clipped to them, and a missing number becomes the middle of its range. A schema
    without numbers, or with numbers without bounds, raises `WrongInput`.

    Parameters
    ----------
    norm : float
        Bound on the L2 norm of a row.
    """

    norm: float = 1.0

    def __post_init__(self) -> None:
        expect_between("drop", 1e-9, 1e9, norm=self.norm)

    def __call__(self, x: np.ndarray, schema: Schema) -> np.ndarray:
        used = schema.used
        if x.ndim != 2 or x.shape[1] != len(used):
            raise WrongInput(f"drop: expected rows of {len(used)} columns, got shape {x.shape}")
        numbers = self._numbers(schema)
        low = np.array([used[at].low or 0.0 for at in numbers])
        high = np.array([used[at].high or 0.0 for at in numbers])
        middle, half = (low + high) / 2, (high - low) / 2
        values = np.where(np.isfinite(x[:, numbers]), x[:, numbers], middle)
        scale = self.norm / np.sqrt(len(numbers))
        return ((np.clip(values, low, high) - middle) / half * scale).astype(np.float32)

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a row."""
        return len(self._numbers(schema))

    def _numbers(self, schema: Schema) -> list[int]:
        numbers = [at for at, column in enumerate(schema.used) if column.kind == "number"]
        if not numbers or not all(schema.used[at].bounded for at in numbers):
            raise WrongInput(
                "drop: expected at least one column of numbers, and bounds for all of them, in the "
                "schema; use onehot or declare low and high"
            )
        return numbers
