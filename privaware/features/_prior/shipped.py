"""The shipped files of the prior: where they are, their checksums, and their contents, read once for each device."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from privaware.errors import WrongInput

if TYPE_CHECKING:
    from torch import Tensor

    from privaware.features._prior.student import Student
    from privaware.features._prior.weights import PriorWeights
    from privaware.features._prior.whitening import Whitening

__all__ = [
    "GLYPH_COLUMNS",
    "SHIPPED",
    "SHIPPED_GLYPHS",
    "SHIPPED_SMALL",
    "SHIPPED_VIEWS",
    "SMALL_COLUMNS",
    "expected_checksum",
    "scattering_whitening",
    "stored_student",
    "stored_weights",
    "stored_whitening",
]

SHIPPED = Path(__file__).parents[1].joinpath("prior.safetensors")
SHIPPED_GLYPHS = Path(__file__).parents[1].joinpath("prior_glyphs.safetensors")
GLYPH_COLUMNS = 1024
"""Entries of a row of the network for glyphs."""
SHIPPED_SMALL = Path(__file__).parents[1].joinpath("prior_small.safetensors")
SMALL_COLUMNS = 1024
"""Entries of a row of the small network."""
SHIPPED_VIEWS = Path(__file__).parents[1].joinpath("prior_views.safetensors")


@lru_cache
def _shipped_checksum(file: Path) -> str:
    """That of the note beside a shipped file."""
    try:
        note: dict[str, str] = json.loads(file.with_suffix(".json").read_text())
    except OSError:
        raise WrongInput(f"prior: {file.name} is not here; install a release of privaware that ships it") from None
    return note["sha256"][:16]


def expected_checksum(checksum: str | None, *files: Path) -> str:
    """The checksums of shipped weights; others are refused, because a model's head belongs to its features."""
    shipped = "+".join(_shipped_checksum(file) for file in files)
    if checksum not in (None, shipped):
        raise WrongInput(
            f"prior: expected the weights {checksum!r}, which this model was fitted with, but this version ships "
            f"{shipped!r}; install the version it was fitted with, or fit it again"
        )
    return shipped


@lru_cache(maxsize=4)
def stored_weights(file: str, device: str) -> PriorWeights:
    """The network and statistics of a file, on a device."""
    from privaware.features._prior.weights import load

    return load(file, device)


@lru_cache(maxsize=4)
def stored_student(file: str, device: str) -> Student:
    """The small network of a file, on a device."""
    from privaware.features._prior.student import load_student

    return load_student(file, device)


@lru_cache(maxsize=4)
def stored_whitening(
    file: str, depths: tuple[int, ...], pools: tuple[int, ...], power: float, device: str
) -> Whitening:
    """Cached, because a model asks for it with every few thousand rows."""
    return stored_weights(file, "cpu").statistics.whitening(depths, pools, power).to(device)


@lru_cache(maxsize=4)
def scattering_whitening(file: str, power: float, device: str) -> Callable[[Tensor], Tensor]:
    """The whitening of scattering coefficients by the statistics in a file."""
    return stored_weights(file, "cpu").scattering.whitening(power, device)
