"""Numbers and public facts in plain words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from privaware import events
from privaware._rounded import number, percent, rounded_down, rounded_up
from privaware.schema._column import as_date

__all__ = [
    "LABEL_UNITS",
    "rounded_down",
    "rounded_up",
    "attack_bound",
    "attack_game",
    "date",
    "meaning",
    "neighbours",
    "number",
    "percent",
    "unproven_reason",
    "setting",
    "protected_unit",
    "tidy",
]

LABEL_UNITS = ("label", "labels")  # units that protect only the target


def tidy(sentence: str, epsilon: float) -> str:
    """Return `sentence` with its numbers written as in the report.

    Where the sentence has `epsilon` or exp(epsilon) rounded to the nearest number, as older sentences have, it is
    rounded up instead. Exponents lose their leading zero and a plus sign.

    >>> tidy("a factor of 2.72 (epsilon 0.9997), plus 1e-05 (delta)", 0.99974)
    'a factor of 2.72 (epsilon 0.9998), plus 1e-5 (delta)'
    """
    factor = math.exp(min(epsilon, 700.0))
    for nearest, up in (
        (f"epsilon {epsilon:.4g}", f"epsilon {rounded_up(epsilon)}"),
        (f"{factor:.3g} times", f"{rounded_up(factor, 3)} times"),
        (f"a factor of {factor:.3g}", f"a factor of {rounded_up(factor, 3)}"),
    ):
        sentence = re.sub(rf"{re.escape(nearest)}(?![\d.]*\d)", up, sentence)
    return re.sub(r"(?<=\de)([+-])0(?=\d\b)", lambda sign: sign[1].strip("+"), sentence)


def date(days: float) -> str:
    """Return the date that is `days` days, rounded down, after 1970-01-01; the number itself if there is no such date.

    >>> date(16436.0)
    '2015-01-01'
    """
    return str(as_date(math.floor(days)) or number(days))


def unproven_reason(event: events.Event) -> str | None:
    """Return the reason of the first `Unproven` event in `event`; None if the guarantee of `event` is proven."""
    return next((str(part.reason) for part in events.nested(event) if isinstance(part, events.Unproven)), None)


def protected_unit(unit: str, cap: int) -> str:
    """Return words that say what the guarantee protects.

    It is one row, one label, or all rows (at most `cap`) with one value of the column `unit`.
    """
    if unit == "row":
        return "one row"
    if unit in LABEL_UNITS:
        return "the label of one row; the other columns are not protected"
    return f"all rows with one value of '{unit}' (at most {cap:,} row{'s' if cap > 1 else ''})"


def neighbours(relation: str) -> str:
    """Return the neighbouring relation in words; an unknown `relation` is returned as it is."""
    known = {
        "add_remove": "neighbouring data sets differ by adding or removing one unit",
        "replace_one": "neighbouring data sets differ by replacing one unit",
    }
    return known.get(relation, relation)


def meaning(epsilon: float, delta: float, change: str) -> str:
    """Return one sentence, for a lay reader, that says what epsilon and delta mean.

    `change`, the change between neighbouring data sets, starts the sentence. For an epsilon above 700 the sentence only
    says that this is no protection in practice.
    """
    if epsilon > 700:  # exp(epsilon) is beyond the largest float
        return "An epsilon this large is no protection in practice."
    times, chance = rounded_up(math.exp(epsilon), 3), rounded_up(delta)
    return f"{change}: the probability of every result P becomes at most {times} x P + {chance}."


def attack_game(unit: str, relation: str) -> str:
    """Return a description of the membership game of the attack-risk curve, for what `unit` and `relation` protect."""
    start = "An attacker has the model and knows all the data except one fact: "
    if unit in LABEL_UNITS:
        return (
            f"{start}whether the label of a candidate row is the true one. A candidate "
            "with its true label is called a member."
        )
    if relation == "replace_one":
        return (
            f"{start}whether a candidate or a known substitute was in the data. A "
            "candidate in the data is called a member."
        )
    return f"{start}whether a candidate was in the data. A candidate in the data is called a member."


def attack_bound(fpr: str, tpr: str) -> str:
    """Return a description of one point of the attack-risk curve: false and true positive rate, written as percentages.

    A `tpr` of "100%" is described as no bound.

    >>> attack_bound("1%", "2.72%")
    'an attacker who wrongly takes 1% of the other candidates for members identifies at most 2.72% of the members'
    """
    attacker = f"an attacker who wrongly takes {fpr} of the other candidates for members"
    if tpr == "100%":
        return f"{attacker} identifies perhaps nearly all members: the guarantee does not exclude it"
    return f"{attacker} identifies at most {tpr} of the members"


MAX_ITEMS = 6
"""Largest number of numbers of a list that are shown one by one; of more, their count and range are shown."""


def setting(x: Any) -> str:
    """Format a public setting, which does not depend on private rows, as text; None and a mapping are written as JSON.

    A list is written as its items; more than `MAX_ITEMS` numbers are written as their count and range.

    >>> setting([3, 0.5]), setting([13, 9, 16, 7, 15, 6, 5]), setting([]), setting(True)
    ('3, 0.5', '7 numbers from 5 to 16', 'none', 'yes')
    """
    if isinstance(x, str):
        return x
    if isinstance(x, bool):
        return "yes" if x else "no"
    if isinstance(x, (int, float)):
        return str(x) if isinstance(x, int) else number(x, 12)
    if isinstance(x, (list, tuple)):
        return _list(x)
    return json.dumps(x, ensure_ascii=False)


def _list(items: Sequence[Any]) -> str:
    """Format a list as its items, in JSON if it is nested; more than `MAX_ITEMS` numbers as their count and range.

    An empty list is "none".
    """
    if not items:
        return "none"
    numbers = all(isinstance(item, (int, float)) and not isinstance(item, bool) for item in items)
    if numbers and len(items) > MAX_ITEMS:
        return f"{len(items):,} numbers from {number(min(items), 4)} to {number(max(items), 4)}"
    flat = all(not isinstance(item, (list, tuple, dict)) for item in items)
    return ", ".join(map(setting, items)) if flat else json.dumps(items, ensure_ascii=False)
