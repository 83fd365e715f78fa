"""The games are nearly as good as an attacker can be, and prove planted bugs."""

from __future__ import annotations

import pytest

from tests.testing.canary_cases import CASES


def _slow(*names: str) -> list[object]:
    return [pytest.param(name, marks=pytest.mark.slow if name in names else ()) for name in CASES]


BY_RUNS = ("gep", "dpgen", "additive", "boosted")
"""Each game is a real step or run: minutes."""


@pytest.mark.parametrize("name", _slow(*BY_RUNS))
def test_game_proves_four_fifths_of_what_an_ideal_attacker_does(name: str) -> None:
    case = CASES[name]()
    proved = case.proven(case.play(case.noise, case.games))
    assert 0.8 * case.ideal_proof(case.games) <= proved <= case.claimed
    assert proved > 0.15 * case.claimed


@pytest.mark.parametrize("name", _slow("search", "bounds, numbers", *BY_RUNS))
def test_game_proves_more_than_the_claim_for_a_planted_bug(name: str) -> None:
    case = CASES[name]()
    for bug, play in case.bugs.items():
        assert case.proven(play(case.games)) > case.claimed, bug


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in CASES if name not in ("pafs", "search", *BY_RUNS)]
)  # these always run
def test_real_runs_prove_as_much_as_redrawn_values(name: str) -> None:
    case = CASES[name]()
    games = 400 if name == "private_knn" else min(case.games, 2000)  # four students a game
    assert case.runs is not None
    proved = case.proven(case.runs(case.noise, games))
    assert 0.8 * case.ideal_proof(games) <= proved <= case.claimed
