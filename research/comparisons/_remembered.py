"""Caches of the outputs of public networks: studies read each text and each image many times."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from privaware.features._mini_lm import MiniLM
from privaware.features.extractor import Extractor
from privaware.schema import Schema

Known = dict[str, np.ndarray]


def key(codes: Sequence[int]) -> str:
    """Return the key of a text: a hash of its tokens."""
    return hashlib.sha256(np.array(codes, np.int32).tobytes()).hexdigest()[:32]


def read(path: Path) -> Known:
    """Return the cached outputs in a file; an empty dict if there is no file."""
    if not path.is_file():
        return {}
    with np.load(path) as stored:
        return dict(zip(stored["keys"].tolist(), stored["rows"], strict=True))


def write(path: Path, known: Known) -> None:
    """Write the cached outputs to a file."""
    np.savez(path, keys=np.array(list(known)), rows=np.array(list(known.values()), np.float32))


def remember(known: Known) -> None:
    """Patch the network so that it looks a text up first, and caches new outputs."""
    compute = MiniLM.__call__

    def looked_up(network: MiniLM, texts: Sequence[Sequence[int]], tokens: int = 0) -> torch.Tensor:
        names = [key(codes) for codes in texts]
        new = [at for at, name in enumerate(names) if name not in known]
        if new:
            rows = compute(network, [texts[at] for at in new], tokens).numpy()
            known.update((names[at], row) for at, row in zip(new, rows, strict=True))
        return torch.from_numpy(np.array([known[name] for name in names]))

    MiniLM.__call__ = looked_up  # type: ignore[method-assign]


def remember_photographs() -> None:
    """Patch the feature `extractor` so that a microbatch that it read before is looked up, in memory."""
    compute, known = Extractor.__call__, Known()

    def looked_up(feature: Extractor, x: np.ndarray, schema: Schema | None = None) -> np.ndarray:
        name = f"{feature!r} {hashlib.sha256(x.tobytes()).hexdigest()}"
        if name not in known:
            known[name] = np.asarray(compute(feature, x, schema))
        return known[name].copy()

    Extractor.__call__ = looked_up  # type: ignore[method-assign]
