"""Text as hashed word and character n-grams: rows of fixed width without a vocabulary.

Each word, pair of words and run of characters is hashed by a public function (BLAKE2) to a hash bucket and a sign. A
row is the sum of signed square roots of counts, scaled to norm `norm`. No vocabulary is learned from the rows. With
`stems` the first letters of longer words are n-grams too; in many languages inflected forms of a word share them.

Paper: Weinberger et al. 2009, Feature Hashing for Large Scale Multitask Learning, arXiv:0902.2206.
Privacy: no privacy cost (data-independent): each row is transformed by itself.
Use when: the data are text.

>>> Hashed(slots=8)(np.array(["free entry", "see you"], dtype=object)).shape
(2, 8)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privaware.data import hashed_grams
from privaware.schema import Schema

__all__ = ["Hashed"]


@dataclass(frozen=True, kw_only=True)
class Hashed:
    """Map each text to hashed counts of its n-grams of words and characters.

    A public hash gives each n-gram a bucket and a sign. An entry of a row is the sum of `sign * sqrt(count)` over the
    n-grams in its bucket; then the row is scaled to norm `norm`.

    Parameters
    ----------
    slots : int
        Number of hash buckets.
    words, letters : int
        Largest n of the n-grams of words, which begin at 1, and of characters, which begin at 3 (below 3 there are
        none).
    norm : float
        L2 norm of a row; an empty text has norm 0.
    stems : int
        If above 0: punctuation marks are words of their own, and each word of at least `stems` letters adds its first
        `stems` letters as one more n-gram. Words of fewer letters have no n-grams of characters. N-grams of characters
        stay within a word, and have half the weight of other n-grams.
    """

    slots: int = 4096
    words: int = 2
    letters: int = 4
    norm: float = 1.0
    stems: int = 0

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        return hashed_grams(
            x, slots=self.slots, words=self.words, letters=self.letters, norm=self.norm, stems=self.stems
        )

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a row."""
        return self.slots
