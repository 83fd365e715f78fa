"""Entries times released weights, such as words by how frequent they are.

Squared weights are powers of two, so one letter is enough for each: `a` is 1, `b` a half, and so on; `-` leaves an
entry out.

Privacy: no further cost (post-processing): the weights were charged when they were released.
Use when: the selector `weigh` released them.

>>> Weighed(letters="ac-")(np.array([[3.0, 4.0, 5.0]]))
array([[3., 2., 0.]], dtype=float32)
"""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np

from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["Weighed"]


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """One letter an entry."""

    letters: str

    def __post_init__(self) -> None:
        if not isinstance(self.letters, str) or set(self.letters) - {*ascii_lowercase, "-"}:
            raise WrongInput("weighed: expected letters from a to z, or - for no weight, got others")

    @classmethod
    def of(cls, squares: np.ndarray) -> Weighed:
        """From squared weights up to 1, each moved to the nearest power of two; those below 2^-25 are left out."""
        exponents = np.rint(-np.log2(np.maximum(squares, 2.0**-60))).astype(int)
        alphabet = np.array([*ascii_lowercase, "-"])
        return cls(letters="".join(alphabet[np.clip(exponents, 0, len(ascii_lowercase))]))

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        if x.ndim != 2 or x.shape[1] != len(self.letters):
            raise WrongInput(f"weighed: expected rows of {len(self.letters)} entries, got shape {x.shape[1:]}")
        codes = np.frombuffer(self.letters.encode(), np.uint8)
        weights = np.where(codes == ord("-"), 0.0, np.exp2(-0.5 * (codes.astype(float) - ord("a"))))
        return x.astype(np.float32) * weights.astype(np.float32)

    def width(self, schema: Schema) -> int:
        """The number of entries of a row."""
        return len(self.letters)
