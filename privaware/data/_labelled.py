"""Rows that have a target: others can teach nothing, and are left out one by one, whatever the rest is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from privaware.data._raw import Raw
from privaware.data._values import is_missing, numbers_of, quoted, words_of
from privaware.errors import WrongInput

__all__ = ["labelled", "left_out"]


def labelled(raw: Raw, target: str, classes: Collection[str] = ()) -> Raw:
    """The rows of a table whose target is not missing. Whether a row stays depends on that row alone.

    One of the declared `classes` is never missing, though it be called "none".
    """
    if raw.frame is None or target not in raw.frame.columns:
        return raw
    _, missing = numbers_of(raw.frame[target])
    if missing.any() and any(map(is_missing, classes)):
        missing &= ~words_of(raw.frame[target]).map(frozenset(classes).__contains__, bool)
    if not missing.any():
        return raw
    if missing.all():
        raise WrongInput(
            f"expected a target, but {quoted(target)} is empty in all {len(missing)} rows; name another with --target"
        )
    kept, line = np.flatnonzero(~missing), raw.line
    lines = None if line is None else lambda row: line(int(kept[row]))
    return replace(raw, frame=raw.frame.iloc[kept].reset_index(drop=True), line=lines)


def left_out(raw: Raw, kept: Raw, target: str) -> list[str]:
    """What the owner should know of rows that are left out."""
    lost = len(raw) - len(kept)
    if not lost:
        return []
    verb, be = ("row has", "is") if lost == 1 else ("rows have", "are")
    return [
        f"{lost} {verb} no {quoted(target)} and {be} left out: fill such rows in to use them "
        "(the guarantee covers them all the same)"
    ]
