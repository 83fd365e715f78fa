"""A short `repr` of a result and a small HTML card for notebooks, both built from the same facts."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from privaware._rounded import rounded_down, rounded_up

LONGEST_VALUE = 60
"""Largest number of characters of one value in a `repr`."""
LONGEST_CELL = 400
"""Largest number of characters of one value in a card."""
COSTS = ("epsilon", "delta", "spent")
"""Prefixes of the names of facts that are costs, which are rounded up."""
NAMES_SHOWN = 3
"""Largest number of items of a list that a `repr` shows."""
STYLE = "border:1px solid #8888;border-radius:6px;padding:8px 12px;display:inline-block;max-width:48em"
"""CSS of a card."""


class Summarised:
    """A value with a short `repr` and a card for notebooks.

    A subclass overrides `_facts`, and `_words` if its card has a sentence. Facts must be public, because the output of
    a notebook is saved with it. A dataclass that inherits this class needs `repr=False`.

    >>> class Result(Summarised):
    ...     def _facts(self):
    ...         return {"learner": "linear", "epsilon": 0.99981234, "certified": True, "out": None}
    >>> Result()
    Result(learner='linear', epsilon=0.9999, certified=True)
    """

    def _facts(self) -> Mapping[str, Any]:
        """Return the public facts by name; facts with the value None are not shown."""
        raise NotImplementedError

    def _words(self) -> str:
        """Return the sentence below the facts on the card; the default is an empty text."""
        return ""

    def __repr__(self) -> str:
        facts = {name: value for name, value in self._facts().items() if value is not None}
        shown = ", ".join(f"{name.replace(' ', '_')}={_short(name, value)}" for name, value in facts.items())
        return f"{type(self).__name__}({shown})"

    def _repr_html_(self) -> str:
        return card_html(type(self).__name__, self._facts(), self._words())


def card_html(title: str, facts: Mapping[str, Any], words: str = "") -> str:
    """Return a card as HTML without scripts or external files; all text is escaped.

    Parameters
    ----------
    title
        The heading.
    facts
        The rows of the card by name; None is not shown.
    words
        A sentence below the rows.

    Returns
    -------
    str
        One `div` element.

    >>> card_html("Fit", {"out": "<b>", "score": None}).partition("</th>")[2]
    '<td style="text-align:left">&lt;b&gt;</td></tr></table></div>'
    """
    rows = "".join(
        f'<tr><th style="text-align:left;padding-right:1em">{html.escape(name)}</th>'
        f'<td style="text-align:left">{html.escape(_cell(name, value))}</td></tr>'
        for name, value in facts.items()
        if value is not None
    )
    sentence = f'<p style="margin:4px 0 0">{html.escape(words)}</p>' if words else ""
    return f'<div style="{STYLE}"><strong>{html.escape(title)}</strong><table>{rows}</table>{sentence}</div>'


def _short(name: str, value: Any) -> str:
    """Return `value` as text for a `repr`, of at most `LONGEST_VALUE` characters unless it is a float.

    A float has four significant digits; `_digits` rounds it by the `name` of the fact. A list or tuple of more than
    `NAMES_SHOWN` items is shown as its first `NAMES_SHOWN` items and its length.
    """
    if isinstance(value, float):
        return _digits(name, value)
    if _is_list(value) and len(value) > NAMES_SHOWN:
        shown = ", ".join(map(repr, value[:NAMES_SHOWN]))
        return _cut(f"[{shown}, ... {len(value)} in all]", LONGEST_VALUE)
    return _cut(repr(value), LONGEST_VALUE)


def _cell(name: str, value: Any) -> str:
    """Return `value` as text for a card; a text of more than `LONGEST_CELL` characters loses its middle.

    True is "yes" and False is "no". A float has four significant digits; `name` decides how it is rounded (`_digits`).
    The items of a list are separated by commas. Any other value is shown by `str`.
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return _digits(name, value)
    return _cut(", ".join(map(str, value)) if _is_list(value) else str(value), LONGEST_CELL)


def _digits(name: str, value: float) -> str:
    """Return `value` as text with four significant digits; the `name` of the fact decides the direction of rounding.

    `epsilon_lower` is rounded down. Any other name that starts with "epsilon", "delta" or "spent" (`COSTS`) is rounded
    up. All other facts are rounded to the nearest.
    """
    if name == "epsilon_lower":
        return rounded_down(value)
    return rounded_up(value) if name.startswith(COSTS) else f"{value:.4g}"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _cut(text: str, length: int) -> str:
    """Return `text`; if it has more than `length` characters, return its start and its end with "..." between them.

    The start and the end have `length // 2 - 2` characters each. The middle is cut, because paths differ at their ends.
    """
    kept = length // 2 - 2
    return text if len(text) <= length else f"{text[:kept]}...{text[-kept:]}"
