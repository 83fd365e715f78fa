"""The games against learners that train networks or trees: worst-case rows, and one step, query or tree a game."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from privaware.learners.additive import Additive
from privaware.learners.amortised import Amortised
from privaware.learners.boosted import Boosted
from privaware.learners.dpgen import DpGen
from privaware.learners.gep import Gep
from privaware.learners.private_set import PrivateSet
from privaware.learners.rgp import Rgp
from privaware.noise import Rng
from privaware.schema import Schema
from privaware.testing import privacy_losses, rows_for
from tests.learners.tiny_table_network import tiny_table_network
from tests.testing import ideal_attackers
from tests.testing.canary_case import ALONE, ONE, Case, Scores, pair, redrawn, repeated, runs, steps

LINEAR = {"name": "linear"}


def _sampled(learner: Any, unsampled: Any, real: Any) -> Case:
    """Four releases on half of the rows each, by a row that moves each by its whole sensitivity."""
    noise, count = 1.0, 4
    play, all_rows = redrawn(learner, ALONE, count), redrawn(unsampled, ALONE, count)
    return Case(
        claim=count * learner.cost(ONE, noise),
        noise=noise,
        play=play,
        runs=real,
        ideal=lambda rng, games: ideal_attackers.sampled_gaussian(rng, games, noise=noise, rate=0.5, count=count),
        bugs={
            "half the noise": lambda games: play(noise / 2, games),
            "sampling priced and not done": lambda games: all_rows(noise, games),
        },
    )


def _gaussian(claim: Any, play: Callable[[float, int], Scores], games: int, noise: float = 1.0) -> Case:
    """One Gaussian release a game."""
    return Case(
        claim=claim,
        noise=noise,
        games=games,
        play=play,
        ideal=lambda rng, games: ideal_attackers.gaussian(rng, games, noise=noise),
        bugs={"half the noise": lambda games: play(noise / 2, games)},
    )


def rgp() -> Case:
    """A row alone, with carriers longer than the clipping norm; four steps, each on half of the rows."""
    learner = Rgp(steps=1, batch=5, architecture=LINEAR)
    learner = replace(learner, initial=learner.run(ALONE[0], 1.0, Rng(seed=0)))
    return _sampled(learner, replace(learner, batch=10), steps(learner, ALONE, 4))


def private_set() -> Case:
    """A row alone, with a gradient longer than the clipping norm; four queries, each on half of the rows."""
    learner = PrivateSet(
        networks=1,
        rounds=1,
        queries=1,
        inner=1,
        per_class=1,
        private_batch=5,
        norm=0.01,
        steps=1,
        architecture=LINEAR,
        matching=LINEAR,
    )
    return _sampled(learner, replace(learner, private_batch=10), repeated(learner, ALONE, 4))


def gep() -> Case:
    """A row alone, whose coordinate and residual are both longer than their norms; each step of a run is a game."""
    learner = Gep(steps=1, batch=10, norm=0.01, directions=1, blocks=1, public=rows_for(ONE, 5), architecture=LINEAR)
    learner = replace(learner, initial=learner.run(ALONE[0], 1.0, Rng(seed=0)))
    return _gaussian(learner.cost(ONE, 1.0), steps(learner, ALONE, 1), games=1000)


def dpgen() -> Case:
    """The corrected variant on an image alone; each step of its score network is a game."""
    schema = Schema(form="image", shape=(1, 2, 2), classes=("no", "yes"), rows=10)
    row = rows_for(schema, 1)
    score = {"steps": 1, "batch": 10, "levels": 2, "langevin": 1, "lr": 1e-9, "largest": 0.1, "smallest": 0.05}
    settings: dict[str, Any] = {"norm": 1e-4, "draws": 1, "samples": 4, "steps": 1, "architecture": LINEAR}
    learner = DpGen(variant="corrected", score=score, **settings)

    def play(noise: float, games: int) -> Scores:
        long = replace(learner, score={**score, "steps": games})
        rows = row.take(np.arange(0)), row
        sides = [privacy_losses(long, *rows, noise, seed=1, ran=ran) for ran in ("neighbour", "data")]
        with_row, without = (np.array([float(step.sum()) for step in side]) for side in sides)
        return with_row, without

    return _gaussian(learner.cost(schema, 1.0), play, games=500)


def trees(learner: Any) -> Case:
    """A thousand rows of one class and one of the other: its gradient is the longest there is; a run is a game."""
    schema = replace(ONE, rows=1000)
    rows = pair(schema, [0.0] * 1000, [0] * 1000, [1.0], 1)
    return _gaussian(learner.cost(schema, 1.0), runs(learner, rows), games=1000)


def amortised() -> Case:
    """A row alone: it moves the count of its class and the sums of its column by nearly the sensitivity."""
    learner = Amortised(rounds=1, weights=tiny_table_network())
    case = _gaussian(learner.cost(ONE, 1.0), redrawn(learner, ALONE), games=20_000)
    return replace(case, runs=runs(learner, ALONE))


NETWORKS: dict[str, Callable[[], Case]] = {
    "rgp": rgp,
    "gep": gep,
    "private_set": private_set,
    "dpgen": dpgen,
    "additive": lambda: trees(Additive(steps=1)),
    "amortised": amortised,
    "boosted": lambda: trees(Boosted(steps=0, trees=1)),
}
