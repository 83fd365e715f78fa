"""A small private table, what a call of the command line leaves, and who opens a file."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SPACE = """what = "Narrow networks."

[choices]
units = [4, 8]
lr = [1.0, 4.0]

[build]
lr = "$lr"
architecture = { name = "fcn", hidden = ["$units"], dropout = 0.0 }
"""
TOML = """target = "y"
classes = ["no", "yes"]
rows = 300

[columns.age]
low = 18
high = 90

[columns.town]
kind = "category"
categories = ["n", "e", "s"]
"""


@dataclass(frozen=True)
class CallResult:
    """What a call left: its exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON object on standard output, which holds nothing else."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


Run = Callable[..., CallResult]


def write_people(path: Path, rows: int = 300, seed: int = 0, target: str = "y") -> Path:
    draw = np.random.default_rng(seed)
    age = draw.integers(18, 91, rows)
    town = draw.choice(["n", "e", "s"], rows)
    label = np.where(age + draw.normal(0, 8, rows) > 50, "yes", "no")
    lines = [f"age,town,{target}", *(",".join(map(str, row)) for row in zip(age, town, label))]
    path.write_text("\n".join(lines) + "\n")
    return path


@contextmanager
def watched(path: Path) -> Iterator[list[str]]:
    """A pipe instead of a file: every attempt to read it is recorded, and finds nothing."""
    os.mkfifo(path)
    opened: list[str] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                opened.append("opened")
            except OSError:  # no reader
                time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield opened
    finally:
        over.set()
        watcher.join()


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, byte for byte."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
