"""Tables as numbers only: categories are dropped, numbers scaled to [-1, 1].

The other half of the comparison with one-hot rows: categories cost a slot, and so noise, for every
value they may take, and with a small budget it can pay to do without them.

Paper: Bao, Bauer and Bindschaedler, section V-B (one-hot against dropping categorical columns).
Privacy: free. It uses one row and the schema.
Use when: the budget is small and the numbers say most of it.

>>> from privaware.schema import Column, Schema
>>> facts = Schema(columns=(Column(name="age", low=0, high=90), Column(name="sex", kind="category",
...     categories=("f", "m"))), classes=("n", "y"))
>>> Drop()(np.array([[90.0, 1.0]]), facts)
array([[1.]], dtype=float32)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["Drop"]


@dataclass(frozen=True, kw_only=True)
class Drop:
    """No row is longer than `norm`; a missing number counts as the middle of its range."""

    norm: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.norm, int | float) or not 1e-9 <= self.norm <= 1e9:
            raise WrongInput(f"drop: expected norm from 1e-9 to 1e9, got {self.norm!r}")

    def __call__(self, x: np.ndarray, schema: Schema) -> np.ndarray:
        used = schema.used
        if x.ndim != 2 or x.shape[1] != len(used):
            raise WrongInput(f"expected rows of {len(used)} columns, got shape {x.shape}")
        kept = self._kept(schema)
        low = np.array([used[at].low or 0.0 for at in kept])
        high = np.array([used[at].high or 0.0 for at in kept])
        middle, half = (low + high) / 2, (high - low) / 2
        values = np.where(np.isfinite(x[:, kept]), x[:, kept], middle)
        scale = self.norm / np.sqrt(len(kept))
        return ((np.clip(values, low, high) - middle) / half * scale).astype(np.float32)

    def width(self, schema: Schema) -> int:
        """How many entries a row has."""
        return len(self._kept(schema))

    def _kept(self, schema: Schema) -> list[int]:
        kept = [at for at, column in enumerate(schema.used) if column.kind == "number"]
        if not kept or not all(schema.used[at].bounded for at in kept):
            raise WrongInput(
                "drop: expected at least one column of numbers, and bounds for all of them, in the "
                "schema; use onehot or declare low and high"
            )
        return kept
