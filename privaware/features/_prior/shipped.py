"""The shipped files of the feature `prior`: paths, checksums, and contents, which are read once for each device."""

from __future__ import annotations

import json
import warnings
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

FOLDER = Path(__file__).parents[1]
"""Folder of the shipped files."""
SHIPPED = FOLDER / "prior.safetensors"
"""File of the large network."""
SHIPPED_GLYPHS = FOLDER / "prior_glyphs.safetensors"
"""File of the network for glyphs."""
GLYPH_COLUMNS = 1024
"""Entries of a row of the network for glyphs."""
SHIPPED_SMALL = FOLDER / "prior_small.safetensors"
"""File of the small network."""
SMALL_COLUMNS = 1024
"""Entries of a row of the small network."""
SHIPPED_VIEWS = FOLDER / "prior_views.safetensors"
"""File of the statistics of `prior_views`."""


@lru_cache
def _note(file: Path) -> dict[str, str]:
    """Return the JSON note of a shipped file: how it was computed, its checksum, and its checksum before rounding.

    Raise `WrongInput` if there is no note.
    """
    try:
        note: dict[str, str] = json.loads(file.with_suffix(".json").read_text())
    except OSError:
        raise WrongInput(
            f"prior: {file.name} is not in the installed package; install a release of privaware that ships it"
        ) from None
    return note


def expected_checksum(checksum: str | None, *files: Path) -> str:
    """Return the checksum that a feature with the shipped `files` names: one for each file, joined by "+".

    `checksum` is what a model names. None means a new model, and the checksum of the shipped files is returned. The
    checksum of the half-precision files that the shipped ones were rounded from is accepted with a warning, and
    returned as it is. Any other checksum raises `WrongInput`, because a model's head belongs to its features. A
    checksum is the first 16 hexadecimal digits of the SHA-256 in the JSON note of a file.
    """
    facts = ("sha256", "rounded_from")
    shipped, half = ("+".join(_note(file).get(fact, "")[:16] for file in files) for fact in facts)
    if checksum and checksum == half:
        warnings.warn(
            f"prior: this model was fitted with the weights {half!r} in half precision, and this version ships them "
            "rounded to eight bits, so some predictions change (docs/results/prior.md says how many); install the "
            "version it was fitted with for the same predictions, or fit it again",
            stacklevel=2,
        )
        return half
    if checksum not in (None, shipped):
        raise WrongInput(
            f"prior: expected the weights {checksum!r}, which this model was fitted with, but this version ships "
            f"{shipped!r}; install the version it was fitted with, or fit it again"
        )
    return shipped


@lru_cache(maxsize=4)
def stored_weights(file: str, device: str) -> PriorWeights:
    """Return the network and the statistics in the weights file `file`, with the network on `device`.

    The result is cached and shared: do not change it. Raise `WrongInput` if `file` is missing or damaged.
    """
    from privaware.features._prior.weights import load

    return load(file, device)


@lru_cache(maxsize=4)
def stored_student(file: str, device: str) -> Student:
    """Return the small network in `file`, on `device`; it is cached and shared, so do not change it.

    Raise `WrongInput` if `file` is missing or damaged.
    """
    from privaware.features._prior.student import load_student

    return load_student(file, device)


@lru_cache(maxsize=4)
def stored_whitening(
    file: str, depths: tuple[int, ...], pools: tuple[int, ...], power: float, device: str
) -> Whitening:
    """Return the whitening by the exponent `power` of feature maps, from the statistics of synthetic images in `file`.

    The maps are those at the residual blocks `depths`, each averaged to a square whose side is its entry of `pools`.
    The result is on `device`. It is cached, because a model asks for it with every few thousand rows.
    """
    return stored_weights(file, "cpu").statistics.whitening(depths, pools, power).to(device)


@lru_cache(maxsize=4)
def scattering_whitening(file: str, power: float, device: str) -> Callable[[Tensor], Tensor]:
    """Return the function that whitens scattering coefficients by (covariance + ridge)^(-power), on `device`.

    It maps (rows, 243, h, w) to (rows, 243 * h * w). Covariance and ridge follow from the statistics of synthetic
    images in `file`. Raise `WrongInput` if `file` has no statistics of scattering coefficients.
    """
    return stored_weights(file, "cpu").scattering.whitening(power, device)
