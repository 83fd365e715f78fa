"""A card with only what a page may show: printable text, and nothing that is for the owner only."""

from __future__ import annotations

import re
from typing import Any

from privaware.card import ModelCard

# Scores are for the owner only; a stray copy in settings, features or architecture is removed.
PRIVATE = frozenset({"internal", "test_score", "train_score", "accuracy", "auc", "mae", "scores"})
ANY_NAMES = ("settings", "features", "architecture")
"""Entries of a card whose keys may have any name."""
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def printable(card: ModelCard) -> ModelCard:
    """Return a copy of `card` without private entries, and with U+FFFD in the place of each unprintable character.

    An entry is private if its name, in lower case, is in `PRIVATE`, such as "test_score". Private entries are removed
    from `settings`, `features`, `architecture` and the dicts and lists inside them. Characters are replaced in the
    whole card.
    """
    entries = card.json()
    entries |= {name: _public(entries[name]) for name in ANY_NAMES}
    return ModelCard.from_json(_clean(entries))


def _public(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_public(item) for item in value]
    if isinstance(value, dict):
        return {name: _public(item) for name, item in value.items() if str(name).lower() not in PRIVATE}
    return value


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {_clean(str(name)): _clean(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    return value
