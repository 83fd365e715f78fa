"""What `auto` takes for text: hashed words and letters with a linear head, and the study that says so.

`text_evidence.json` holds the scores of two candidates on held-out rows of six texts; `python -m
benchmarks.text_choice` measures them again. Longer runs of letters and more slots gained nothing there, nor did a
private mean of the rows on those where it was tried. On ten texts, simulated on 2026-11-16 with
two seeds, pairs of words, words without punctuation, letters up to four and more steps gained nothing at epsilon 1,
half the steps 0.3 points; rare words weighted up by private counts lost (two texts). A clipping norm of 0.25 gained
where rows x epsilon are 2,000 or more; it was chosen on the cells that it is cited with.

>>> from privaware.schema import Schema
>>> reviews = Schema(form="text", classes=("bad", "good"), rows=5000)
>>> text_choice(reviews, epsilon=1.0).settings["features"]
[{'name': 'hashed', 'slots': 4096, 'words': 1, 'letters': 3}]
>>> text_choice(reviews, epsilon=1.0).settings["norm"]
0.25
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from privaware.schema import Schema
from privaware.workflow._choice import Choice

__all__ = ["CANDIDATES", "candidate", "evidence", "text_choice"]

SLOTS = 4096
FEWEST_SLOTS = 256
LARGEST_BYTES = 4e9
"""Memory for the rows of all texts."""
MANY, NORM = 2_000, 0.25
"""Rows x epsilon from which texts are clipped to this norm, which gained 0.6 points on average and 2 at most there."""
CLOSER = f"clipping norm {NORM:g} from {MANY:,} rows x epsilon: better in 25 of 30 cells of ten texts, by 0.6 points"
NO_SEQUENCES = (
    "a network that reads words in order is never chosen: an LSTM of 1,000 texts at epsilon 1 and 3 was 0.6 to 22 "
    "points behind hashed words on 6 of 6 cells of three texts (--learner dpsgd --set architecture=lstm is one)"
)

CANDIDATES: dict[str, dict[str, Any]] = {"few slots": {}, "words and letters": {"words": 1, "letters": 3}}
"""What was compared, as n-grams in `SLOTS` slots with a linear head; "few slots" are one for every sixteen rows, with
the learning rate for tables: the default of `linear`."""


def text_choice(schema: Schema, epsilon: float) -> Choice:
    """Hashed words and runs of three letters, with a linear head."""
    name = "words and letters"
    closer = bool(schema.classes) and schema.rows * epsilon >= MANY
    reasons = (_reason(name, schema.rows * epsilon), *(CLOSER,) * closer, NO_SEQUENCES)
    settings = {**candidate(name, schema), **({"norm": NORM} if closer else {})}
    return Choice(learner="linear", settings=settings, reasons=reasons)


def candidate(name: str, schema: Schema) -> dict[str, Any]:
    """The settings of a candidate, with fewer slots where the rows of all texts would not fit the memory."""
    if not CANDIDATES[name]:
        return {}
    slots = SLOTS
    while slots > FEWEST_SLOTS and 4 * slots * schema.rows > LARGEST_BYTES:
        slots //= 2
    return {"features": [{"name": "hashed", "slots": slots, **CANDIDATES[name]}]}


@cache
def evidence() -> list[Mapping[str, Any]]:
    """The cells of the study: text, rows, classes, epsilon, the constant's score and that of each candidate."""
    stored = files("privaware.workflow").joinpath("text_evidence.json").read_text(encoding="utf-8")
    cells: list[Mapping[str, Any]] = json.loads(stored)
    return cells


def _reason(name: str, signal: float) -> str:
    """Why, with the gain over few slots on development texts."""
    cells = evidence()
    gains = sorted(100 * (cell["scores"][name] - cell["scores"]["few slots"]) for cell in cells)
    better = sum(gain > 0 for gain in gains)
    low, high = min(cell["rows"] for cell in cells), max(cell["rows"] for cell in cells)
    return (
        f"linear on hashed {name}, {signal:.3g} rows x epsilon: at {low:,} to {high:,} rows and epsilon 1 it gained "
        f"{gains[0]:.0f} to {gains[-1]:.0f} points over fewer slots, and was better on {better} of {len(cells)} texts"
    )
