"""Text as hashed word and character n-grams: rows of fixed width without a vocabulary.

Each word, pair of words and run of characters is hashed by a public function (BLAKE2) to a slot and
a sign; a row is the sum of signed square roots of counts, scaled to length `norm`. No vocabulary is
learned, so nothing is read off the rows.

Paper: Weinberger et al. 2009, Feature Hashing for Large Scale Multitask Learning, arXiv:0902.2206.
Privacy: no privacy cost (data-independent): each row is transformed by itself.
Use when: the data are text.

>>> Hashed(slots=8)(np.array(["free entry", "see you"], dtype=object)).shape
(2, 8)
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np

from privaware.schema import Schema

__all__ = ["Hashed"]


@dataclass(frozen=True, kw_only=True)
class Hashed:
    """`words` and `letters` are the largest n of the n-grams of words and of characters."""

    slots: int = 4096
    words: int = 2
    letters: int = 4
    norm: float = 1.0

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        out = np.zeros((len(x), self.slots), np.float32)
        known: dict[str, tuple[int, float]] = {}
        for row, text in enumerate(x):
            for gram, count in self._grams(str(text).lower()).items():
                if gram not in known:
                    known[gram] = self._slot(gram)
                at, sign = known[gram]
                out[row, at] += sign * np.sqrt(count)
        length = np.sqrt((out * out).sum(axis=1, keepdims=True))
        return np.asarray(out * (self.norm / np.maximum(length, np.float32(1e-12))))

    def width(self, schema: Schema) -> int:
        """The number of entries of a row."""
        return self.slots

    def _grams(self, text: str) -> Counter[str]:
        tokens = text.split()
        grams = [" ".join(tokens[i : i + n]) for n in range(1, self.words + 1) for i in range(len(tokens) - n + 1)]
        padded = f" {' '.join(tokens)} "
        runs = range(3, self.letters + 1)
        grams += [f"#{padded[i : i + n]}" for n in runs for i in range(len(padded) - n + 1)]
        return Counter(grams)

    def _slot(self, gram: str) -> tuple[int, float]:
        digest = int.from_bytes(hashlib.blake2b(gram.encode(), digest_size=8).digest())
        return digest % self.slots, 1.0 if digest >> 63 else -1.0
