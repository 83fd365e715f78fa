"""Worst-case neighbours of each mechanism, the game against it, its ideal attacker and its planted bugs.

python -m tests.testing.canary_cases          # the table of docs/security.md
python -m tests.testing.canary_cases --runs   # the same with one real run for each game: minutes
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from privaware.data import Data
from privaware.events import Group
from privaware.learners.alibi import Alibi
from privaware.learners.dpsgd import DpSgd
from privaware.learners.label_mst import LabelMst
from privaware.learners.linear import Linear
from privaware.learners.pate import Pate
from privaware.learners.private_knn import PrivateKnn
from privaware.noise import Rng
from privaware.preprocessing.ranges import Ranges
from privaware.schema import Column, Schema
from privaware.selectors.cfs_ga import CfsGa
from privaware.selectors.cfs_greedy import CfsGreedy
from privaware.selectors.pafs import Pafs
from privaware.selectors.top import Top
from privaware.testing import privacy_losses, rows_for
from privaware.testing._likelihood import choice_probabilities
from tests.testing import ideal_attackers
from tests.testing.canary_case import (
    ALONE,
    NUMBER,
    ONE,
    TWO,
    Case,
    CountsRowsTwice,
    Scores,
    pair,
    redrawn,
    redrawn_for_a_unit,
    repeated,
    runs,
    steps,
)
from tests.testing.canary_networks import NETWORKS
from tests.testing.canary_search import search


def linear() -> Case:
    """A row alone: at weights of zero its gradient is twice the clipping norm."""
    learner = Linear(steps=1)
    play, noise, twice = redrawn(learner, ALONE), 1.0, redrawn(CountsRowsTwice(learner), ALONE)
    return Case(
        claim=learner.cost(ONE, noise),
        noise=noise,
        play=play,
        runs=steps(learner, ALONE, 1),
        ideal=lambda rng, games: ideal_attackers.gaussian(rng, games, noise=noise),
        bugs={
            "half the noise": lambda games: play(noise / 2, games),
            "a row counted twice": lambda games: twice(noise, games),
        },
    )


def dpsgd() -> Case:
    """A row alone, with a gradient longer than the clipping norm; four steps, each on half of the rows."""
    noise, count = 1.0, 4
    learner = DpSgd(steps=1, batch=5, architecture={"name": "linear"})
    learner = replace(learner, initial=learner.run(ALONE[0], noise, Rng(seed=0)))
    play, all_rows = redrawn(learner, ALONE, count), redrawn(replace(learner, batch=10), ALONE, count)
    return Case(
        claim=count * learner.cost(ONE, noise),
        noise=noise,
        play=play,
        runs=steps(learner, ALONE, count),
        ideal=lambda rng, games: ideal_attackers.sampled_gaussian(rng, games, noise=noise, rate=0.5, count=count),
        bugs={
            "half the noise": lambda games: play(noise / 2, games),
            "sampling priced and not done": lambda games: all_rows(noise, games),
        },
    )


def pate() -> Case:
    """A row alone: its teacher votes for the class that no other teacher votes for, on each of four queries."""
    learner, noise = Pate(teachers=2, queries=4, public=rows_for(ONE, 4)), 2.0
    play = redrawn(learner, ALONE)
    return Case(
        claim=learner.cost(ONE, noise),
        noise=noise,
        play=play,
        runs=runs(learner, ALONE),
        ideal=lambda rng, games: ideal_attackers.gaussian(rng, games, noise=noise, count=4),
        bugs={"half the noise": lambda games: play(noise / 2, games)},
    )


def private_knn() -> Case:
    """Sixty rows of one class and a nearer one of the other, which takes the only vote: four queries, each on half."""
    noise, count, rows = 1.0, 4, pair(ONE, [0.0] * 60, [0] * 60, [1.0], 1)
    public = rows_for(ONE, 1)
    public = replace(public, x=np.ones_like(public.x))
    student: dict[str, Any] = {"architecture": {"name": "linear"}, "steps": 1, "public": public}
    learner = PrivateKnn(queries=1, stages=1, neighbours=1, rate=0.5, **student)
    play, all_rows = redrawn(learner, rows, count), redrawn(replace(learner, rate=1.0), rows, count)
    return Case(
        claim=count * learner.cost(ONE, noise),
        noise=noise,
        play=play,
        runs=repeated(learner, rows, count),
        ideal=lambda rng, games: ideal_attackers.sampled_gaussian(rng, games, noise=noise, rate=0.5, count=count),
        bugs={
            "half the noise": lambda games: play(noise / 2, games),
            "sampling priced and not done": lambda games: all_rows(noise, games),
        },
    )


def alibi() -> Case:
    """One row, and the same with the other label."""
    schema, noise = replace(ONE, unit="label"), 0.5
    row = replace(ALONE[1], schema=schema)
    rows = row, replace(row, y=1 - row.y)
    play = redrawn(Alibi(steps=1), rows)
    return Case(
        claim=Alibi().cost(schema, noise),
        noise=noise,
        delta=1e-5,
        play=play,
        runs=runs(Alibi(steps=1), rows),
        ideal=lambda rng, games: ideal_attackers.laplace(rng, games, scale=2 * noise, shifts=[1.0, -1.0]),
        bugs={"half the noise": lambda games: play(noise / 2, games)},
    )


def label_mst() -> Case:
    """One row in the second stage, and the same with the other label.

    The temperature makes both classes candidates whatever the random network of the first stage says.
    """
    schema, noise = replace(ONE, unit="label"), 0.5
    row = replace(ALONE[1], schema=schema)
    rows = row, replace(row, y=1 - row.y)
    learner = LabelMst(stages=(1e-9, 1.0), temperature=1e9, steps=1, architecture={"name": "linear"})
    play, kept = redrawn(learner, rows), 1 / (1 + np.exp(-1 / noise))
    chances = np.array([kept, 1 - kept]), np.array([1 - kept, kept])
    return Case(
        claim=learner.cost(schema, noise),
        noise=noise,
        delta=1e-5,
        play=play,
        runs=runs(learner, rows),
        ideal=lambda rng, games: ideal_attackers.choice(rng, games, chances=[chances]),
        bugs={"half the noise": lambda games: play(noise / 2, games)},
    )


def cfs(selector: Any) -> Case:
    """A row alone, with a value in every column: it moves the released vector by exactly 1."""
    rows, noise = pair(TWO, [], [], [1.0, 1.0], 1), 1.0
    play, twice = redrawn(selector, rows), redrawn(CountsRowsTwice(selector), rows)
    return Case(
        claim=selector.cost(TWO, noise),
        noise=noise,
        play=play,
        runs=runs(selector, rows),
        ideal=lambda rng, games: ideal_attackers.gaussian(rng, games, noise=noise),
        bugs={
            "half the noise": lambda games: play(noise / 2, games),
            "a row counted twice": lambda games: twice(noise, games),
        },
    )


def top() -> Case:
    """A row that lowers one column's dependence on the target by 3.6 and raises the other's by 3.8, of at most 4."""
    kinds = np.repeat([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 1.0]], [46, 50, 885], axis=0)
    rows, noise = pair(TWO, kinds[:, :2], kinds[:, 2].astype(int).tolist(), [0.0, 1.0], 0), 0.5
    play = redrawn(Top(columns=1), rows)
    scores = [np.array([_dependence(each.x[:, at], each.y) for at in range(2)]) for each in reversed(rows)]
    chances = (choice_probabilities(scores[0], 8 * noise), choice_probabilities(scores[1], 8 * noise))
    return Case(
        claim=Top(columns=1).cost(TWO, noise),
        noise=noise,
        delta=1e-5,
        play=play,
        runs=runs(Top(columns=1), rows),
        ideal=lambda rng, games: ideal_attackers.choice(rng, games, chances=[chances]),
        bugs={"half the noise": lambda games: play(noise / 2, games)},
    )


def _dependence(column: np.ndarray, target: np.ndarray) -> float:
    """How far a table of 2 x 2 counts is from independence, in rows."""
    counts = np.array([[np.sum((column == a) & (target == b)) for b in (0, 1)] for a in (0, 1)], dtype=float)
    return float(np.abs(counts - np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()).sum())


def ranges_of(column: Column, value: Any, *, games: int) -> Case:
    """Forty rows of one value, and one more, which moves the counts of each round by 1."""
    schema = Schema(columns=(column,), classes=("no", "yes"), rows=100)
    rows, noise = pair(schema, [value] * 40, [1] * 40, [value], 1), 1.0
    # The grids of numbers depend on the noise of the round before, so the mechanism runs for each game.
    games_of = redrawn if column.kind == "category" else runs
    play, twice = games_of(Ranges(), rows), games_of(CountsRowsTwice(Ranges()), rows)
    return Case(
        claim=Ranges().cost(schema, noise),
        noise=noise,
        games=games,
        play=play,
        runs=runs(Ranges(), rows),
        ideal=lambda rng, games: ideal_attackers.gaussian(rng, games, noise=noise),
        bugs={
            "half the noise": lambda games: play(noise / 2, games),
            "a row counted twice": lambda games: twice(noise, games),
        },
    )


def categories_of_a_person() -> Case:
    """Six rows of one category, and the four rows of a person who has a category of their own."""
    columns = (Column(name="word", kind="category", categories=()),)
    schema = Schema(columns=columns, classes=("no", "yes"), rows=10, unit="person", cap=4)
    words = np.array([["a"]] * 6 + [["b"]] * 4, dtype=object)
    within = Data(schema=schema, x=words, y=np.ones(10, dtype=np.int64))
    rows, noise = (within.take(np.arange(6)), within), 4.0
    play = redrawn_for_a_unit(Ranges(), rows)
    twice = redrawn_for_a_unit(CountsRowsTwice(Ranges()), rows)
    return Case(
        claim=Group(event=Ranges().cost(schema, noise), size=4),
        noise=noise,
        games=4000,
        play=play,
        ideal=lambda rng, games: ideal_attackers.gaussian(rng, games, noise=noise / 4),
        bugs={
            "half the noise": lambda games: play(noise / 2, games),
            "a row counted twice": lambda games: twice(noise, games),
        },
    )


def pafs() -> Case:
    """A validation row that every model predicts correctly; each set of columns that is tried is a game."""
    schema = replace(ONE, columns=tuple(replace(NUMBER, name=name) for name in "abcdefg"), rows=20)
    rows, noise = pair(schema, np.ones((20, 7)), [1] * 20, np.ones(7), 1), 0.7
    selector = Pafs(population=400, generations=1, held_out=0.05)

    def scores(noise: float, games: int, seed: int, ran: str) -> np.ndarray:
        tried: list[float] = []
        while len(tried) < games:
            trained, scored = privacy_losses(selector, *rows, noise, seed=seed, ran=ran, part=1)
            tried += (trained + scored).tolist()
            seed += 1
        return np.array(tried[:games])

    def play(noise: float, games: int) -> Scores:
        return scores(noise, games, 0, "neighbour"), scores(noise, games, 1000, "data")

    return Case(
        claim=replace(selector, models=1).cost(schema, noise),
        noise=noise,
        games=2000,
        play=play,
        ideal=lambda rng, games: ideal_attackers.gaussian(rng, games, noise=noise),
        bugs={"half the noise": lambda games: play(noise / 2, games // 2)},
    )


CASES: dict[str, Callable[[], Case]] = {
    "linear": linear,
    "dpsgd": dpsgd,
    **NETWORKS,
    "pate": pate,
    "private_knn": private_knn,
    "alibi": alibi,
    "label_mst": label_mst,
    "pafs": pafs,
    "cfs_greedy": lambda: cfs(CfsGreedy(columns=1)),
    "cfs_ga": lambda: cfs(CfsGa(columns=1, population=2, generations=1)),
    "top": top,
    "ranges, categories": lambda: ranges_of(Column(name="a", kind="category", categories=()), "b", games=20_000),
    "ranges, numbers": lambda: ranges_of(Column(name="a"), 5.0, games=800),
    "ranges, a person": categories_of_a_person,
    "search": search,
}


def main() -> None:
    """Prints the table, one line a mechanism as soon as it is known."""
    by_runs = "--runs" in sys.argv[1:]
    print("| mechanism | games a side | delta | proved | ideal attacker | claim |\n|---|---|---|---|---|---|")
    for name, build in CASES.items():
        case = build()
        play = case.runs if by_runs and case.runs else case.play
        games = min(case.games, 2000) if by_runs else case.games
        proved, ideal = case.proven(play(case.noise, games)), case.ideal_proof(games)
        print(f"| {name} | {games:,} | {case.delta:g} | {proved:.2f} | {ideal:.2f} | {case.claimed:.2f} |", flush=True)


if __name__ == "__main__":
    main()
