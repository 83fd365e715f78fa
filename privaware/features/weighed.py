"""Entries multiplied by released weights, such as words by how frequent they are.

Squared weights are powers of two, so one letter encodes each: `a` is 1, `b` is 1/2, and so on; `-` sets an entry to 0.

Privacy: no further cost (post-processing): the weights were charged when they were released.
Use when: the transformation `weigh` released them.

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
    """Entries multiplied by released weights, as float32; rows of another number of entries raise `WrongInput`.

    Parameters
    ----------
    letters : str
        One letter for each entry of a row: its squared weight is 1 for "a", halves with each further letter up to "z",
        and is 0 for "-".
    """

    letters: str

    def __post_init__(self) -> None:
        if not isinstance(self.letters, str) or set(self.letters) - {*ascii_lowercase, "-"}:
            raise WrongInput("weighed: expected letters from a to z, or - for no weight, got others")

    @classmethod
    def of(cls, squares: np.ndarray) -> Weighed:
        """Return the feature for `squares`, squared weights up to 1, each rounded to the nearest power of two.

        The exponent is rounded to a whole number. A squared weight that rounds to less than 2^-25 becomes 0.
        """
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
        """Return the number of entries of a row."""
        return len(self.letters)
