"""Tables with free text: the rules for texts choose, and the other columns stand beside the features of the texts.

>>> beside_columns({"features": [{"name": "hashed", "slots": 8}]})["features"]
[{'name': 'mixed', 'text': {'name': 'hashed', 'slots': 8}}]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["BESIDE", "beside_columns", "reads_texts"]

MIXED = "mixed"
"""The feature that reads texts and the other columns of a table."""
TEXT_FEATURES = ("hashed", "sentences")
"""Features that read texts."""
BESIDE = "All other columns are read by random Fourier features beside the features of the texts."
"""The sentence of the plan about the columns that are not text."""


def reads_texts(settings: Mapping[str, Any]) -> bool:
    """Return whether the features in `settings` include `mixed`, which reads the whole texts of a table."""
    return MIXED in _names(settings)


def beside_columns(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `settings` whose first feature, if it is in `TEXT_FEATURES`, is wrapped in the feature `mixed`.

    `mixed` reads the other columns of a table, too. Other settings are copied unchanged.
    """
    if not set(_names(settings)[:1]) & set(TEXT_FEATURES):
        return dict(settings)
    text, *others = settings["features"]
    return {**settings, "features": [{"name": MIXED, "text": text}, *others]}


def _names(settings: Mapping[str, Any]) -> list[Any]:
    """Return the names of the features in `settings`; learners check whether the features are well described."""
    described = settings.get("features")
    listed = described if isinstance(described, list) else []
    return [feature.get("name") for feature in listed if isinstance(feature, Mapping)]
