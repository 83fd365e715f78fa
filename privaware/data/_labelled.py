"""Rows that have a target: others can teach nothing, and are left out one by one, whatever the rest is."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from privaware.data._raw import Raw
from privaware.data._values import is_missing, numbers_of, quoted, words_of
from privaware.errors import WrongInput

__all__ = ["has_target", "labelled", "labelled_part", "left_out"]


def labelled(raw: Raw, target: str, classes: Collection[str] = ()) -> Raw:
    """The rows of a table whose target is not missing. Whether a row stays depends on that row alone.

    One of the declared `classes` is never missing, though it be called "none".
    """
    kept = labelled_part(raw, target, classes)
    if len(raw) and not len(kept):
        raise WrongInput(
            f"expected a target, but {quoted(target)} is empty in all {len(raw)} rows; name another with --target"
        )
    return kept


def labelled_part(raw: Raw, target: str, classes: Collection[str] = ()) -> Raw:
    """The same of some rows of a table, of which none may have a target."""
    there = has_target(raw, target, classes)
    return raw if there.all() else raw.take(np.flatnonzero(there))


def has_target(raw: Raw, target: str, classes: Collection[str] = ()) -> np.ndarray:
    """A mask of the rows whose target is not missing; images, and a table without such a column, have all."""
    if raw.frame is None or target not in raw.frame.columns:
        return np.ones(len(raw), bool)
    _, missing = numbers_of(raw.frame[target])
    if missing.any() and any(map(is_missing, classes)):
        missing &= ~words_of(raw.frame[target]).map(frozenset(classes).__contains__, bool)
    return ~missing


def left_out(rows: int, target: str) -> list[str]:
    """What the owner should know of so many rows that are left out."""
    if not rows:
        return []
    verb, be = ("row has", "is") if rows == 1 else ("rows have", "are")
    return [
        f"{rows} {verb} no {quoted(target)} and {be} left out: fill such rows in to use them "
        "(the guarantee covers them all the same)"
    ]
