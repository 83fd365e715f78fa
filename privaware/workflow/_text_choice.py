"""What `auto` takes for text: hashed words, their stems and letters, weighed by private frequencies, in a linear head.

`text_evidence.json` holds the scores of two candidates on held-out rows of nine texts; `python -m
benchmarks.text_choice` measures them again. How it was chosen, in plain float32 on ten texts with two to four seeds, as
the share of the gain that TF-IDF with a linear SVM has over the constant, summed, at epsilon 0.3 / 1 / 3: words and
runs of three letters in 4,096 slots, 100 steps: 0.42 / 0.67 / 0.79; stems and 32,768 slots in 15 steps: 0.50 / 0.73 /
0.85; weighed by private frequencies: 0.50 / 0.75 / 0.88 (on the five texts that check: 0.27 / 0.54 / 0.69 became
0.36 / 0.65 / 0.82).

What gained nothing: pairs of words, runs of four letters, five or six first letters, words of fewer than four letters
or a list of function words weighed down, frequencies of public text instead of private ones (+0.01), presence instead
of counts, thresholds or shrinkage of released weights, more steps at epsilon 1, an LSTM, a private mean of the rows.

>>> from privaware.schema import Schema
>>> reviews = Schema(form="text", classes=("bad", "good"), rows=5000)
>>> text_choice(reviews, epsilon=1.0).settings["features"]
[{'name': 'hashed', 'slots': 32768, 'words': 1, 'letters': 3, 'stems': 4}, {'name': 'weigh'}]
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

__all__ = ["CANDIDATES", "candidate", "clipping", "evidence", "text_choice"]

SLOTS, FEWEST_SLOTS = 32_768, 256
MANY_SLOTS, MANY_BYTES, LARGEST_BYTES = 4096, 1.4e9, 4e9
"""Memory for the rows of all texts: a third of it with more slots than many."""
NORMS = {2_000: 0.25, 10_000: 0.1}
"""Clipping norms from so many rows x epsilon on. 0.25 was better than 0.5 in 25 of 30 cells of ten texts, by 0.6
points; 0.1 than 0.25 on five texts of 4,000 rows by 0.004 of the plain gain at epsilon 3 and 0.011 at 8, and worse by
0.007 on ten at 1."""
NO_SEQUENCES = (
    "a network that reads words in order is never chosen: an LSTM of 1,000 texts at epsilon 1 and 3 was 0.6 to 22 "
    "points behind hashed words on 6 of 6 cells of three texts (--learner dpsgd --set architecture=lstm is one)"
)

OLDER = "words and letters"
WEIGHED = "weighed words, stems and letters"
GRAMS = {"words": 1, "letters": 3}
CANDIDATES: dict[str, dict[str, Any]] = {
    OLDER: {"features": [{"name": "hashed", "slots": MANY_SLOTS, **GRAMS}]},
    WEIGHED: {
        "features": [{"name": "hashed", "slots": SLOTS, **GRAMS, "stems": 4}, {"name": "weigh"}],
        "steps": 15,
        "momentum": 0.5,
    },
}
"""What was compared, with a linear head."""


def text_choice(schema: Schema, epsilon: float) -> Choice:
    """Hashed words, stems and letters, weighed, with a linear head; numbers are predicted without weights."""
    name = WEIGHED if schema.classes else OLDER
    norm = clipping(schema, epsilon)
    closer = tuple(f"clipping norm {chosen:g} for this many rows x epsilon" for chosen in norm.values())
    reasons = (_reason(schema.rows * epsilon), *closer, NO_SEQUENCES)
    settings = {**candidate(name, schema), **norm}
    return Choice(learner="linear", settings=settings, reasons=reasons)


def clipping(schema: Schema, epsilon: float) -> dict[str, float]:
    """The clipping norm as a setting, where it is not the learner's own."""
    signal = schema.rows * epsilon if schema.classes else 0.0
    norms = [norm for least, norm in NORMS.items() if signal >= least]
    return {"norm": norms[-1]} if norms else {}


def candidate(name: str, schema: Schema) -> dict[str, Any]:
    """The settings of a candidate, with fewer slots where the rows of all texts would not fit the memory."""
    described = CANDIDATES[name]
    hashed, *after = described["features"]
    slots = hashed["slots"]
    while slots > FEWEST_SLOTS and 4 * slots * schema.rows > (MANY_BYTES if slots > MANY_SLOTS else LARGEST_BYTES):
        slots //= 2
    return {**described, "features": [{**hashed, "slots": slots}, *after]}


@cache
def evidence() -> list[Mapping[str, Any]]:
    """The cells of the study: text, rows, classes, epsilon, the constant's score and that of each candidate."""
    stored = files("privaware.workflow").joinpath("text_evidence.json").read_text(encoding="utf-8")
    cells: list[Mapping[str, Any]] = json.loads(stored)
    return cells


def _reason(signal: float) -> str:
    """Why, with the gain over words and letters on development texts."""
    cells = evidence()
    gains = sorted(100 * (cell["scores"][WEIGHED] - cell["scores"][OLDER]) for cell in cells)
    better = sum(gain > 0 for gain in gains)
    low, high = min(cell["rows"] for cell in cells), max(cell["rows"] for cell in cells)
    budgets = sorted({cell["epsilon"] for cell in cells})
    return (
        f"linear on hashed {WEIGHED}, {signal:.3g} rows x epsilon: at {low:,} to {high:,} rows and epsilon "
        f"{budgets[0]:g} to {budgets[-1]:g} it gained {gains[0]:.0f} to {gains[-1]:.0f} points over {OLDER} in fewer "
        f"slots, and was better in {better} of {len(cells)} cells of {len({cell['text'] for cell in cells})} texts"
    )
