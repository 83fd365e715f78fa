"""The games are nearly as good as an attacker can be, and prove planted bugs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from tests.testing import ideal_attackers
from tests.testing.canary_case import Case, Scores
from tests.testing.canary_cases import CASES


def _slow(*names: str) -> list[object]:
    return [pytest.param(name, marks=pytest.mark.slow if name in names else ()) for name in CASES]


BY_RUNS = ("gep", "dpgen", "additive", "boosted")
"""Each game is a real step or run: minutes."""

FEWER_GAMES = {"private_knn": 400} | dict.fromkeys(("private_set", "amortised", "label_mst"), 500)
"""Where a game takes a tenth of a second or more; others have 2,000."""


def _proves_enough(case: Case, proved: float, games: int) -> bool:
    """Four fifths of an ideal attacker's proof or, with few games, as much as an ideal attacker without luck."""
    return proved >= 0.8 * case.ideal_proof(games) or proved >= case.unlucky_proof(games)


def _alike(scores: Scores, others: Scores) -> bool:
    """Whether both sides of a game have one distribution of scores; wrong for one of 5,000 games that are alike."""
    return all(ks_2samp(one, two, method="asymp").pvalue > 1e-4 for one, two in zip(scores, others, strict=True))


@pytest.mark.parametrize("name", _slow(*BY_RUNS))
def test_game_proves_four_fifths_of_what_an_ideal_attacker_does(name: str) -> None:
    case = CASES[name]()
    scores = case.play(case.noise, case.games)
    proved = case.proven(scores)
    assert 0.15 * case.claimed < proved <= case.claimed
    assert _proves_enough(case, proved, case.games)
    if name in BY_RUNS:
        assert _alike(scores, case.pilot)


@pytest.mark.parametrize("name", _slow("search", *BY_RUNS))
def test_game_proves_more_than_the_claim_for_a_planted_bug(name: str) -> None:
    case = CASES[name]()
    for bug, play in case.bugs.items():
        assert case.proven(play(case.games)) > case.claimed, bug


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in CASES if name not in ("pafs", "search", "ranges, a person", "ranges, numbers", *BY_RUNS)]
)  # the first two always run, and a run is replayed for one row only
def test_real_runs_score_as_redrawn_values_do(name: str) -> None:
    """What a few hundred games prove is mostly luck; the distribution of their scores is not."""
    case = CASES[name]()
    games = FEWER_GAMES.get(name, min(case.games, 2000))
    assert case.runs is not None
    scores = case.runs(case.noise, games)
    proved = case.proven(scores)
    assert proved <= case.claimed
    assert _proves_enough(case, proved, games)
    assert _alike(scores, case.play(case.noise, case.games))


def test_scores_of_a_row_that_moves_less_are_told_apart() -> None:
    rng = np.random.default_rng(0)

    def scores(noise: float, games: int) -> Scores:
        return ideal_attackers.sampled_gaussian(rng, games, noise=noise, rate=0.5, count=4)

    assert _alike(scores(1.0, 500), scores(1.0, 20_000))
    assert not _alike(scores(1.5, 500), scores(1.0, 20_000))
    assert not _alike((np.zeros(500), np.zeros(500)), scores(1.0, 20_000))
