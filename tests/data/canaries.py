"""Bad files with a canary in every field: a refusal that shows one has quoted a row.

`planted(seed, count)` yields cases like those of `hostile`. Words hold `WORD`, numbers hold the digits of `NUMBER`, so
that a search for either finds a quoted cell however it is spelt.

>>> case = next(planted(seed=1, count=1))
>>> leaks("line 3, column 2: expected a number"), leaks(f"got 'x{WORD}'")
(False, True)
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.data.hostile import Case, _bytes, _csv, _pick

WORD = "Qcanary"
NUMBER = "73915"
ROWS = 20
TOML = """target = "y"
classes = ["no", "yes"]
rows = 20

[columns.age]
low = 0
high = 100

[columns.town]
kind = "category"
categories = ["n", "e", "s"]
"""
REGRESSION = TOML.replace('classes = ["no", "yes"]', "low = 0\nhigh = 9")
BY_PERSON = TOML.replace("rows = 20", 'rows = 20\nunit = "who"')
HEADER = ["age", "town", "y"]


def leaks(text: str) -> bool:
    """Whether a text shows a planted value, or the part of one that a cut leaves."""
    return WORD.lower() in text.lower() or NUMBER in text


def planted(seed: int, count: int) -> Iterator[Case]:
    """`count` cases, cycling through the families, with details drawn from `seed`."""
    families = (_broken_line, _wrong_value, _no_schema, _parquet, _arrays, _no_header)
    draw = np.random.default_rng(seed)
    for at in range(count):
        yield families[at % len(families)](draw)


def _rows(draw: np.random.Generator) -> list[list[str]]:
    """Rows that are canaries throughout; a schema may find fault with any of them."""
    return [[f"{NUMBER}{at}", f"{WORD}{at % 3}", f"{WORD}{at % 2}"] for at in range(ROWS)]


def _good_rows(draw: np.random.Generator) -> list[list[str]]:
    """Rows that the schema takes: numbers are clipped."""
    return [[f"{NUMBER}{at}", _pick(draw, ("n", "e", "s")), ("no", "yes")[at % 2]] for at in range(ROWS)]


def _broken_line(draw: np.random.Generator) -> Case:
    """Text whose lines do not make a table, with a schema or without."""
    lines = _csv(HEADER, _rows(draw)).splitlines(keepends=True)
    at = int(draw.integers(1, len(lines)))
    word, number = WORD.encode(), NUMBER.encode()
    options = {
        "a row too long": number + b",n," + word + b"," + word + b"\n",
        "a row too short": number + b"\n",
        "an unclosed quote": number + b',"' + word + b",yes\n",
        "an unclosed quote at the end": number + b",n," + b'"' + word + b"\n",
        "text after a quoted field": number + b',"' + word + b'"' + word + b",yes\n",
        "NUL": number + b"," + word + b"\0,yes\n",
        "latin-1": number + b"," + word + b"\xe9,yes\n",
        "an overlong encoding": word + b"\xc0\x80," + word + b",yes\n",
        "two lines in a category": number + b',"' + word + b"\n" + word + b'",yes\n',
    }
    kind = _pick(draw, tuple(options))
    content = b"".join([*lines[:at], options[kind], *lines[at:]])
    schema = TOML.encode() if kind == "two lines in a category" or draw.random() < 0.5 else None
    return Case(kind=f"line: {kind}", name="data.csv", fill=_bytes(content), schema=schema)


def _wrong_value(draw: np.random.Generator) -> Case:
    """One cell that does not fit a good schema."""
    rows, header, schema = _good_rows(draw), list(HEADER), TOML
    at = int(draw.integers(ROWS))
    kind = _pick(draw, ("number", "long", "category", "class", "real target", "person", "infinite", "a digit too much"))
    if kind == "number":
        rows[at][0] = _pick(draw, (f"{WORD}", f"{NUMBER}x", f"{NUMBER[:3]},{WORD}", f"\u202e{WORD}", f"{WORD}\n{WORD}"))
    elif kind == "long":
        rows[at][0] = WORD * 1000
    elif kind == "category":
        rows[at][1] = _pick(draw, (WORD, f" {WORD} ", NUMBER, f"'{WORD}'", f"{{{WORD}}}", f"%s{WORD}"))
    elif kind == "class":
        rows[at][2] = _pick(draw, (WORD, NUMBER, f"<b>{WORD}"))
    elif kind == "real target":
        rows, schema = [[*row[:2], NUMBER] for row in rows], REGRESSION
        rows[at][2] = WORD
    elif kind == "person":
        rows, header, schema = [[*row, WORD + str(i)] for i, row in enumerate(rows)], [*HEADER, "who"], BY_PERSON
        rows[at][3] = ""
    elif kind == "infinite":
        rows[at][0] = NUMBER * 100
    else:
        rows[at][0] = f"{NUMBER}.{NUMBER}.{NUMBER}"
    return Case(kind=f"value: {kind}", name="data.csv", fill=_bytes(_csv(header, rows)), schema=schema.encode())


def _no_schema(draw: np.random.Generator) -> Case:
    """Rows that no schema can be drafted from."""
    rows = _rows(draw)
    kind = _pick(draw, ("one class", "many classes", "no such target"))
    target = "y"
    if kind == "one class":
        rows = [[*row[:2], WORD] for row in rows]
    elif kind == "many classes":
        rows = [[*row[:2], f"{WORD} {i}"] for i, row in enumerate(rows * 6)]
    else:
        target = "nobody"
    return Case(kind=f"draft: {kind}", name="data.csv", fill=_bytes(_csv(HEADER, rows)), target=target)


def _no_header(draw: np.random.Generator) -> Case:
    """A first line that is a row: with a number in it or without, or with one value twice."""
    kind = _pick(draw, ("a number", "words", "one value twice"))
    rows = [[WORD + str(at), f"{WORD}{at % 3}b", f"{WORD}{at % 2}c"] for at in range(ROWS)]
    if kind == "a number":
        rows[0][int(draw.integers(3))] = _pick(draw, (NUMBER, f"-{NUMBER}.5", f" {NUMBER}e2 "))
    elif kind == "one value twice":
        rows[0][2] = rows[0][1]
    schema = TOML.encode() if draw.random() < 0.5 else None
    return Case(kind=f"no header: {kind}", name="data.csv", fill=_bytes(_csv(rows[0], rows[1:])), schema=schema)


def _parquet(draw: np.random.Generator) -> Case:
    """Typed columns with one value that no column takes."""
    import pandas as pd

    at = int(draw.integers(ROWS))
    frame: dict[str, list[Any]] = {
        "age": [float(NUMBER) + i for i in range(ROWS)],
        "town": ["n"] * ROWS,
        "y": ["no", "yes"] * (ROWS // 2),
    }
    kinds: dict[str, Callable[[], None]] = {
        "a list": lambda: frame.update(age=[[WORD]] * ROWS),
        "a record": lambda: frame.update(town=[{WORD: NUMBER}] * ROWS),
        "bytes": lambda: frame.update(town=[WORD.encode() + b"\xff"] * ROWS),
        "a category": lambda: frame["town"].__setitem__(at, WORD),
        "a class": lambda: frame["y"].__setitem__(at, WORD),
        "text as number": lambda: frame.update(age=[WORD] * ROWS),
        "cut": lambda: None,
    }
    kind = _pick(draw, tuple(kinds))
    kinds[kind]()
    buffer = io.BytesIO()
    pd.DataFrame(frame).to_parquet(buffer)
    content = buffer.getvalue()
    if kind == "cut":
        content = content[: int(draw.integers(1, len(content) - 1))]
    return Case(kind=f"parquet: {kind}", name="data.parquet", fill=_bytes(content), schema=TOML.encode())


def _arrays(draw: np.random.Generator) -> Case:
    """Arrays with a label that is not declared, or of a type that is not read."""
    x = np.full((ROWS, 3), float(NUMBER))
    options: dict[str, tuple[np.ndarray, np.ndarray]] = {
        "a label": (x, np.array([WORD] * ROWS)),
        "text": (x.astype(str), np.arange(ROWS) % 2),
        "pickled": (np.array([{WORD: NUMBER}] * ROWS, dtype=object), np.arange(ROWS) % 2),
        "bright images": (np.full((ROWS, 4, 4), float(NUMBER)), np.arange(ROWS) % 2),
        "a missing label": (x, np.array([np.nan] + [float(NUMBER)] * (ROWS - 1))),
    }
    kind = _pick(draw, tuple(options))
    buffer = io.BytesIO()
    np.savez(buffer, x=options[kind][0], y=options[kind][1])
    return Case(kind=f"npz: {kind}", name="data.npz", fill=_bytes(buffer.getvalue()))
