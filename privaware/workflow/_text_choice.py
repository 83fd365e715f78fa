"""What `auto` takes for text: a public network's view of it with hashed words, or weighed words, in a linear head.

Where the network of `sentences` is installed and fast enough, `auto` takes it with 32,768 slots of hashed words at
half its length. Simulated in plain float32 on 1,000 rows of six texts with two seeds, the share at epsilon 0.3 / 1 /
3 of the gain of TF-IDF with a linear SVM rose from 0.32 / 0.58 / 0.78 (weighed words) to 0.38 / 0.79 / 0.97. The
network alone had 0.30 / 0.76 / 0.87 and lost on French and on telling authors apart; words at 0.35, 0.7 and 1 had
0.77, 0.80 and 0.76 at 1; 4,096 slots 0.79, and 0.94 at 3; weighed words beside it 0.78; a public whitening and a
public mean gained nothing clear; static vectors of tokens (wordllama, five texts) had 0.81 where the network had 1.11
and words 0.40. Reading four windows of 128 pieces in place of the first gained nothing on reuters8, where a quarter of
the texts has more than one (0.597 -> 0.600 at 1 with four seeds, 0.575 with two windows); words of the network's own
length and of twice that lost there (0.55, 0.52), so long texts are no reason to weigh words more.

Without it, `auto` takes hashed words, their stems and letters, weighed by private frequencies.

`text_evidence.json` holds the scores of candidates on held-out rows of nine texts; `python -m
research.comparisons.text_choice` measures them again. How it was chosen, in plain float32 on ten texts with two to four
seeds, as the share of the gain that TF-IDF with a linear SVM has over the constant, summed, at epsilon 0.3 / 1 / 3:
words and runs of three letters in 4,096 slots, 100 steps: 0.42 / 0.67 / 0.79; stems and 32,768 slots in 15 steps:
0.50 / 0.73 / 0.85; weighed by private frequencies: 0.50 / 0.75 / 0.88 (on the five texts that check:
0.27 / 0.54 / 0.69 became 0.36 / 0.65 / 0.82).

What gained nothing: pairs of words, runs of four letters, five or six first letters, words of fewer than four letters
or a list of function words weighed down, frequencies of public text instead of private ones (+0.01), presence instead
of counts, thresholds or shrinkage of released weights, more steps at epsilon 1, an LSTM, a private mean of the rows.

>>> from privaware.schema import Schema
>>> reviews = Schema(form="text", classes=("bad", "good"), rows=5000)
>>> text_choice(reviews, epsilon=1.0, network=True).settings["features"][0]["name"]
'sentences'
>>> text_choice(reviews, epsilon=1.0, network=False).settings["features"]
[{'name': 'hashed', 'slots': 32768, 'words': 1, 'letters': 3, 'stems': 4}, {'name': 'weigh'}]
>>> text_choice(reviews, epsilon=1.0, network=False).settings["norm"]
0.25
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from privaware.features import _public_text
from privaware.schema import Schema
from privaware.workflow._choice import Choice

__all__ = ["CANDIDATES", "candidate", "clipping", "evidence", "text_choice"]

SLOTS = 32_768
"""Hash buckets of a text, where memory allows."""

FEWEST_SLOTS = 256
"""Fewest hash buckets of a text, however little memory there is."""

MANY_SLOTS = 4096
"""Hash buckets above which the feature matrix may take only `MANY_BYTES`."""

MANY_BYTES = 1.4e9
"""Memory limit for the feature matrix with more than `MANY_SLOTS` hash buckets, in bytes."""

LARGEST_BYTES = 4e9
"""Memory limit for the feature matrix with at most `MANY_SLOTS` hash buckets, in bytes."""

NORMS = {2_000: 0.25, 10_000: 0.1}
"""Clipping norms from so many rows x epsilon on. 0.25 was better than 0.5 in 25 of 30 cells of ten texts, by 0.6
points; 0.1 than 0.25 on five texts of 4,000 rows by 0.004 of the plain gain at epsilon 3 and 0.011 at 8, and worse by
0.007 on ten at 1."""
NO_SEQUENCES = (
    "A recurrent network is never chosen: with 1,000 texts at epsilon 1 and 3, an LSTM was 0.6 to 22 points worse than "
    "hashed words in 6 of 6 benchmark runs. To train one: --learner dpsgd --set architecture=lstm."
)
PUBLIC = (
    "This network was trained on public text. If that text contains rows of this data set, the "
    "guarantee does not cover "
    "what the network learned from them. To train without it: --features hashed --features weigh."
)
EACH = 0.03
"""Seconds that the network takes for a text of 20 words on one core."""

PATIENCE = 600.0
"""Seconds that the network may take for all texts where no time limit is given."""

NAMED_BELOW = 1_500
"""Rows x epsilon below which the meaning of class names is used."""

NAMES = 3.0
"""Weight of what class names mean to the network.

On 1,000 rows of eight texts (simulated, four seeds) the gains over the constant, summed, at epsilon 0.3 / 1 / 3 were
0.53 / 1.49 / 1.97 without it, 0.61 / 1.55 / 1.99 with weight 2, 0.67 / 1.58 / 1.99 with 3, 0.72 / 1.57 / 1.98 with 4
and 0.80 / 1.51 / 1.95 with 6; random directions in the place of names changed nothing (0.54 / 1.48 / 1.97 with weight
2), so that names without a meaning cost little. With 6,400 verses at epsilon 1 it lost six points, and at 0.3 three.
"""

OPINION = 2.0
"""The weight of the direction from blame to praise beside that of names, in the same range.

On 1,000 rows (simulated, four seeds) the gains of three texts of opinions, summed, at epsilon 0.3 / 1 / 3 went from
0.32 / 0.62 / 0.72 to 0.45 / 0.66 / 0.73, those of five others from 0.36 / 0.96 / 1.27 to 0.35 / 0.95 / 1.27; with
weight 4 to 0.56 / 0.65 / 0.72 and 0.37 / 0.94 / 1.26.
"""

OLDER = "words and letters"
WEIGHED = "weighed words, stems and letters"
READ = "sentences as a public network reads them"
GRAMS = {"words": 1, "letters": 3}
CANDIDATES: dict[str, dict[str, Any]] = {
    OLDER: {"features": [{"name": "hashed", "slots": MANY_SLOTS, **GRAMS}]},
    WEIGHED: {
        "features": [{"name": "hashed", "slots": SLOTS, **GRAMS, "stems": 4}, {"name": "weigh"}],
        "steps": 15,
        "momentum": 0.5,
    },
    READ: {"features": [{"name": "sentences", "words": 0.5, "slots": SLOTS}], "steps": 15, "momentum": 0.5},
}
"""What was compared, with a linear head."""


def text_choice(
    schema: Schema, epsilon: float, *, time_limit: float | None = None, network: bool | None = None
) -> Choice:
    """A linear head on what suits the texts: numbers are predicted from words without weights.

    `network` says whether the public network is here; left out, it is looked for.
    """
    if not schema.classes:
        return _linear(OLDER, schema, epsilon, ())
    here = _public_text.installed() if network is None else network
    seconds = EACH * schema.rows
    if here and seconds <= (PATIENCE if time_limit is None else time_limit):
        took = f"It takes about {_duration(seconds)} on one core for texts of 20 words."
        return _linear(
            READ, schema, epsilon, (f"The pretrained network {_public_text.NETWORK} embeds every text. {took}", PUBLIC)
        )
    why = (
        f"takes about {_duration(seconds)}; see --time-limit"
        if here
        else f"is not installed; to install it: {_public_text.INSTALL}"
    )
    missed = f"A network pretrained on public text would be more accurate. It {why}"
    return _linear(WEIGHED, schema, epsilon, (missed,))


def _linear(name: str, schema: Schema, epsilon: float, more: tuple[str, ...]) -> Choice:
    norm = clipping(schema, epsilon)
    closer = tuple(f"Clipping norm: {chosen:g}, the default for this size and budget." for chosen in norm.values())
    reasons = (_reason(READ if name == READ else WEIGHED, schema.rows * epsilon), *more, *closer, NO_SEQUENCES)
    return Choice(learner="linear", settings={**candidate(name, schema, epsilon), **norm}, reasons=reasons)


def _duration(seconds: float) -> str:
    return f"{math.ceil(seconds)} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def clipping(schema: Schema, epsilon: float) -> dict[str, float]:
    """The clipping norm as a setting, where it is not the learner's own."""
    signal = schema.rows * epsilon if schema.classes else 0.0
    norms = [norm for least, norm in NORMS.items() if signal >= least]
    return {"norm": norms[-1]} if norms else {}


def candidate(name: str, schema: Schema, epsilon: float) -> dict[str, Any]:
    """The settings of a candidate, with fewer slots where the rows of all texts would not fit the memory.

    Where rows and budget are few, the network starts with what the names of classes mean.
    """
    described = CANDIDATES[name]
    hashed, *after = described["features"]
    if name == READ and schema.rows * epsilon < NAMED_BELOW:
        hashed = {**hashed, "names": NAMES, "opinion": OPINION}
    slots = int(hashed["slots"])
    while slots > FEWEST_SLOTS and 4 * slots * schema.rows > (MANY_BYTES if slots > MANY_SLOTS else LARGEST_BYTES):
        slots //= 2
    return {**described, "features": [{**hashed, "slots": slots}, *after]}


@cache
def evidence() -> list[Mapping[str, Any]]:
    """The cells of the study: text, rows, classes, epsilon, the constant's score and that of each candidate."""
    stored = files("privaware.workflow").joinpath("text_evidence.json").read_text(encoding="utf-8")
    cells: list[Mapping[str, Any]] = json.loads(stored)
    return cells


def _reason(name: str, signal: float) -> str:
    """Return the sentence of the plan, with the gain over the next simpler features on benchmark texts."""
    before = WEIGHED if name == READ else OLDER
    cells = [cell for cell in evidence() if {name, before} <= set(cell["scores"])]
    gains = sorted(100 * (cell["scores"][name] - cell["scores"][before]) for cell in cells)
    better = sum(gain > 0 for gain in gains)
    low, high = min(cell["rows"] for cell in cells), max(cell["rows"] for cell in cells)
    budgets = sorted({cell["epsilon"] for cell in cells})
    what = f"{name} and hashed words" if name == READ else f"hashed {name}"
    fewer = "" if name == READ else " in fewer hash buckets"
    return (
        f"Learner: linear on {what} (rows x epsilon {signal:.3g}). On "
        f"{len({cell['text'] for cell in cells})} benchmark "
        f"texts of {low:,} to {high:,} rows at epsilon {budgets[0]:g} to {budgets[-1]:g}, it was better than "
        f"{before}{fewer} in {better} of {len(cells)} runs; the difference was {gains[0]:.0f} to "
        f"{gains[-1]:.0f} points."
    )
