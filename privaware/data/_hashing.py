"""Text as hashed n-grams: rows of fixed width without a vocabulary, each a function of its own text."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sized
from functools import lru_cache
from typing import Protocol

import numpy as np

ROUNDING_MARGIN = 1 - 2.0**-20
"""Norm of the hashed words of a text, slightly below 1 so that rounding cannot exceed 1."""
PUNCTUATION = re.compile(r"[\W_]+")
"""Pattern of everything between words."""
TOKENS = re.compile(r"\w+|[^\w\s]")
"""Pattern of a word or a punctuation mark."""
CHARACTER_WEIGHT = 0.5
"""Weight of n-grams of characters if there are stems; all other n-grams have weight 1."""


class Texts(Sized, Iterable[str], Protocol):
    """Texts whose number is known."""


def hashed_grams(
    texts: Texts, *, slots: int, words: int, letters: int, norm: float = 1.0, stems: int = 0
) -> np.ndarray:
    """Return hashed n-grams of texts in lower case: signed square roots of counts in hash buckets, scaled to a norm.

    Parameters
    ----------
    texts : iterable of str
        The texts.
    slots : int
        Number of hash buckets.
    words, letters : int
        Largest n of the n-grams of words, which begin at 1, and of characters, which begin at 3 (below 3 there are
        none).
    norm : float
        L2 norm of a row; an empty text has norm 0.
    stems : int
        If above 0: punctuation marks are words of their own, and each word of at least `stems` letters adds its first
        `stems` letters as one more n-gram. Shorter words have no n-grams of characters. N-grams of characters stay
        within a word, and have half the weight of other n-grams.

    Returns
    -------
    numpy.ndarray
        Float32 (texts, slots).
    """
    out = np.zeros((len(texts), slots), np.float32)
    for row, text in enumerate(texts):
        lowered = str(text).lower()
        grams = _grams_of_words(lowered, words, letters, stems) if stems else _grams(lowered, words, letters)
        if grams:
            at, signs = zip(*[_slot(gram, slots) for gram in grams], strict=True)
            values = np.array(signs) * np.sqrt(np.fromiter(grams.values(), float))
            np.add.at(out[row], np.array(at), values.astype(np.float32))
    length = np.sqrt((out * out).sum(axis=1, keepdims=True))
    return np.asarray(out * (norm / np.maximum(length, np.float32(1e-12))))


def hashed_words(texts: Texts, slots: int) -> np.ndarray:
    """Return the words of each text, hashed to `slots` buckets, without case and punctuation.

    The result is float32 (texts, slots). Its rows have an L2 norm slightly below 1, or 0 if a text has no word.

    >>> bool((hashed_words(["Severe pain."], 8) == hashed_words(["severe pain"], 8)).all())
    True
    """
    plain = [PUNCTUATION.sub(" ", text) for text in texts]
    return hashed_grams(plain, slots=slots, words=1, letters=0, norm=ROUNDING_MARGIN)


def _grams(text: str, words: int, letters: int) -> Counter[str]:
    tokens = text.split()
    grams = [" ".join(tokens[i : i + n]) for n in range(1, words + 1) for i in range(len(tokens) - n + 1)]
    padded = f" {' '.join(tokens)} "
    runs = range(3, letters + 1)
    grams += [f"#{padded[i : i + n]}" for n in runs for i in range(len(padded) - n + 1)]
    return Counter(grams)


def _grams_of_words(text: str, words: int, letters: int, stems: int) -> Counter[str]:
    """Return how often each n-gram occurs in `text`, for `hashed_grams` with `stems` above 0.

    N-grams of 1 to `words` words or punctuation marks are joined by blanks. Each word of at least `stems` letters adds
    its first `stems` letters, marked by `^`, and n-grams of 3 to `letters` characters within `<word>`, marked by a tab.
    """
    tokens = TOKENS.findall(text)
    long = [token for token in tokens if len(token) >= stems]
    grams = [" ".join(tokens[i : i + n]) for n in range(1, words + 1) for i in range(len(tokens) - n + 1)]
    grams += [f"^{word[:stems]}" for word in long]
    marked = [f"<{word}>" for word in long]
    runs = range(3, letters + 1)
    grams += [f"\t{word[i : i + n]}" for n in runs for word in marked for i in range(len(word) - n + 1)]
    return Counter(grams)


@lru_cache(maxsize=2**18)
def _slot(gram: str, slots: int) -> tuple[int, float]:
    """Return the hash bucket of an n-gram, below `slots`, and its sign times its weight.

    The weight is `CHARACTER_WEIGHT` if the n-gram begins with a tab, and 1 otherwise.
    """
    digest = int.from_bytes(hashlib.blake2b(gram.encode("utf-8", "surrogatepass"), digest_size=8).digest())
    return digest % slots, (1.0 if digest >> 63 else -1.0) * (CHARACTER_WEIGHT if gram[0] == "\t" else 1.0)
