"""A wrong call of a verb, and wrong spaces of `search`, by the hundred."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SEARCH", "Wrong", "wrong_spaces", "wrong_values"]

CHOICES = "[choices]\nunits = [4, 8]\nlr = [1.0, 4.0]\n"
BUILD = '[build]\nlr = "$lr"\narchitecture = { name = "fcn", hidden = ["$units"], dropout = 0.0 }\n'
SEARCH = ("--space", "space.toml", "--set", "steps=4", "--set", "batch=100", "--trials", "3")
BASE = {
    "search": (*SEARCH, "--epsilon", "2", "--out", "n"),
    "select": ("--epsilon", "0.5", "--out", "n"),
    "crossover": (
        "--simple",
        "majority",
        "--complex",
        "linear",
        "--epsilons",
        "0.1,0.3",
        "--repeats",
        "1",
        "--out",
        "n",
    ),
}
Fill = Callable[[Path], object]


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """`fill` spoils a folder that holds people.csv, people.toml, space.toml and book.ledger; `words` is the call."""

    kind: str
    verb: str
    words: tuple[str, ...]
    fill: Fill = lambda folder: None
    data: str = "people.csv"
    schema: tuple[str, ...] = ("--schema", "people.toml")
    ledger: tuple[str, ...] = ("--ledger", "book.ledger")
    bare: bool = False
    codes: tuple[int, ...] = (2,)

    @property
    def call(self) -> tuple[str, ...]:
        """The whole command; an option said twice counts the second time."""
        base = () if self.bare else BASE[self.verb]
        return (self.verb, self.data, *self.schema, *self.ledger, *base, *self.words)


def _space(name: str, text: str | bytes, *words: str) -> Wrong:
    raw = text if isinstance(text, bytes) else text.encode()
    return Wrong(
        kind=f"space: {name}", verb="search", words=words, fill=lambda folder: (folder / "space.toml").write_bytes(raw)
    )


def wrong_spaces() -> Iterator[Wrong]:
    good = CHOICES + BUILD
    texts: dict[str, str | bytes] = {
        "empty": "",
        "only what": 'what = "x"\n',
        "no choices": BUILD,
        "no build": CHOICES,
        "empty build": CHOICES + "[build]\n",
        "empty choices": "[choices]\n" + BUILD,
        "not TOML": "choices = [",
        "JSON": '{"choices": {}}',
        "binary": bytes(range(256)),
        "not UTF-8": b'what = "\xff\xfe"\n' + good.encode(),
        "UTF-16": good.encode("utf-16"),
        "zero bytes": b"\0" * 64,
        "unknown field": "colour = 1\n" + good,
        "unknown table": good + "[extra]\na = 1\n",
        "choices is a number": "choices = 3\n" + BUILD,
        "choices is a list": "choices = [1, 2]\n" + BUILD,
        "choices is text": 'choices = "units"\n' + BUILD,
        "choice is a number": "[choices]\nunits = 4\nlr = [1.0]\n" + BUILD,
        "choice is text": '[choices]\nunits = "4"\nlr = [1.0]\n' + BUILD,
        "choice is a table": "[choices]\nlr = [1.0]\n[choices.units]\na = 1\n" + BUILD,
        "choice is empty": "[choices]\nunits = []\nlr = [1.0]\n" + BUILD,
        "build is a list": "build = [1]\n" + CHOICES,
        "build is text": 'build = "$units"\n' + CHOICES,
        "when is a list": "when = [1]\n" + good,
        "when of a choice is a list": "when = { lr = [1] }\n" + good,
        "when of a choice is a number": "when = { lr = 1 }\n" + good,
        "when gives a number": "when = { lr = { units = 4 } }\n" + good,
        "when gives text": 'when = { lr = { units = "4" } }\n' + good,
        "when of an unknown choice": "when = { nothing = { units = [4] } }\n" + good,
        "when on an unknown choice": "when = { lr = { nothing = [4] } }\n" + good,
        "when on an unknown value": "when = { lr = { units = [5] } }\n" + good,
        "when on itself": "when = { lr = { lr = [1.0] } }\n" + good,
        "when in a circle": "when = { lr = { units = [4] }, units = { lr = [1.0] } }\n" + good,
        "when on a later choice": "when = { units = { lr = [1.0] } }\n" + good,
        "when empty value list": "when = { units = { lr = [] } }\n" + good,
        "unknown $name": CHOICES + '[build]\nlr = "$pace"\n',
        "unknown nested $name": CHOICES + '[build]\narchitecture = { name = "fcn", hidden = ["$x"] }\n',
        "bare $": CHOICES + '[build]\nlr = "$"\n',
        "$one|unknown": CHOICES + '[build]\nlr = "$lr|x"\n',
        "priced is text": 'priced = "lr"\n' + good,
        "priced is a number": "priced = 3\n" + good,
        "priced is a table": "priced = { lr = 1 }\n" + good,
        "priced has numbers": "priced = [1]\n" + good,
        "priced has lists": "priced = [[1]]\n" + good,
        "priced is unknown": 'priced = ["x"]\n' + good,
        "learner unknown": 'learner = "magic"\n' + good,
        "learner is a number": "learner = 3\n" + good,
        "learner is a list": 'learner = ["dpsgd"]\n' + good,
        "learner is a path": 'learner = "../../fit"\n' + good,
        "learner takes none of it": 'learner = "majority"\n' + good,
        "learner setting unknown": CHOICES + '[build]\npace = "$lr"\nwide = "$units"\n',
        "architecture unknown": CHOICES + '[build]\nlr = "$lr"\narchitecture = { name = "wow" }\n',
        "architecture is a number": CHOICES + "[build]\narchitecture = 3\n",
        "architecture without a name": CHOICES + '[build]\narchitecture = { hidden = ["$units"] }\n',
        "architecture with an unknown field": CHOICES
        + '[build]\narchitecture = { name = "fcn", hidden = ["$units"], colour = 3 }\n',
        "hidden is text": CHOICES + '[build]\narchitecture = { name = "fcn", hidden = "$units" }\n',
        "images from a table": CHOICES + '[build]\narchitecture = { name = "tramer_boneh_cnn" }\n',
        "dates": "[choices]\nunits = [1979-05-27]\nlr = [1.0]\n" + BUILD,
        "dates as rate": "[choices]\nunits = [4]\nlr = [1979-05-27T07:32:00Z]\n" + BUILD,
        "nested far": CHOICES + "[build]\nlr = " + "[" * 600 + "]" * 600 + "\n",
        "nested further": CHOICES + "[build]\nlr = " + "[" * 60000 + "]" * 60000 + "\n",
    }
    for name, text in texts.items():
        yield _space(name, text)
    for name in (
        "nowhere",
        "nowhere.toml",
        ".",
        "people.csv",
        "",
        "a\nb",
        "x" * 5000,
        "/dev/null",
        "../..",
        "fcn.toml",
    ):
        yield Wrong(kind="space: named", verb="search", words=("--space", name))


VALUES = (
    "-4",
    "0",
    "-1e9",
    "1e300",
    "nan",
    "inf",
    "-inf",
    '"many"',
    '""',
    "true",
    "[1, 2]",
    "{ a = 1 }",
    "2.5",
    "99999999999999999999",
    "1e-300",
)
GOOD = {("lr", "2.5"), ("norm", "2.5"), ("batch", "99999999999999999999")}


def wrong_values() -> Iterator[Wrong]:
    """A wrong value among good ones: the candidate that has it may come late, or never."""
    for value, place in itertools.product(VALUES, (0, 1)):
        two = ("4", "8")
        values = ", ".join((*two[:place], value, *two[place:]))
        yield _space(f"units {value}", f"[choices]\nunits = [{values}]\nlr = [1.0]\n" + BUILD)
        for setting in ("lr", "batch", "steps", "norm"):
            if (setting, value) in GOOD:
                continue
            text = f'priced = ["size"]\n[choices]\nsize = [{values}]\n[build]\n{setting} = "$size"\n'
            words = ("--set", "batch=100") if setting == "steps" else ("--set", "steps=4")
            yield Wrong(
                kind=f"value: {setting} {value}",
                verb="search",
                bare=True,
                words=("--space", "space.toml", *words, "--trials", "3", "--epsilon", "2", "--out", "n"),
                fill=lambda folder, text=text: (folder / "space.toml").write_text(text),
            )
    unpriced = '[choices]\nsize = [4, 100]\n[build]\nbatch = "$size"\n'
    yield Wrong(
        kind="space: a price that is not declared",
        verb="search",
        bare=True,
        words=("--space", "space.toml", "--set", "steps=4", "--trials", "3", "--epsilon", "2", "--out", "n"),
        fill=lambda folder: (folder / "space.toml").write_text(unpriced),
    )
