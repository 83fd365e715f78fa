"""Text as a sequence of hashed word codes, for networks that read words in order.

Words are cut at blanks and put into lower case. Each is hashed by a public function (BLAKE2) to a code from 1 to
`words` - 1. The row of a text holds its first `length` words, padded with code 0 on the left. No vocabulary is learned
from the rows.

Paper: Weinberger et al. 2009, Feature Hashing for Large Scale Multitask Learning, arXiv:0902.2206, for hashing.
Privacy: no privacy cost (data-independent): each row is transformed by itself.
Use when: the data are text, the order of words matters, and the network begins with an embedding (`lstm`).

>>> WordCodes(words=100, length=4)(np.array(["see you", ""], dtype=object))[1]
array([0, 0, 0, 0])
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from privaware._validate import expect_between, expect_count
from privaware.schema import Schema

__all__ = ["WordCodes"]


@dataclass(frozen=True, kw_only=True)
class WordCodes:
    """Map each text to the hashed codes, from 1 to `words` - 1, of its first words, in order, as integers.

    Words are cut at blanks and put into lower case.

    Parameters
    ----------
    words : int
        Number of codes, including code 0 for padding.
    length : int
        Number of words of a row. Further words are dropped; a shorter text has padding in front.
    """

    words: int = 1000
    length: int = 150

    def __post_init__(self) -> None:
        expect_between("word_codes", 2, 1e9, words=self.words)
        expect_count("word_codes", length=self.length)

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        out = np.zeros((len(x), self.length), np.int64)
        for row, text in enumerate(x):
            codes = [self._code(word) for word in str(text).lower().split()[: self.length]]
            if codes:
                out[row, -len(codes) :] = codes
        return out

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a row."""
        return self.length

    def _code(self, word: str) -> int:
        digest = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        return 1 + digest % (self.words - 1)
