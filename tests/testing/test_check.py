"""Every check fails on the planted bug it exists for, and correct mechanisms pass them all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import NOTHING
from privaware.mechanism import Then
from privaware.noise import Rng
from privaware.selectors.cfs_greedy import CfsGreedy
from privaware.testing import BrokenPromise, _check, canary_game, check_mechanism, example, neighbours, replay, rows_for
from tests.testing import planted_descent, planted_preparation, planted_releases, planted_runs
from tests.testing.canary_cases import CASES
from tests.testing.planted_bugs import AUDITED, BUGS, PLAYED, rows

REPLACED = example(relation="replace_one")

CAUGHT = {bug: sentence for bugs in BUGS.values() for bug, sentence in bugs.items()}

CORRECT = {
    "sampled descent": (planted_descent.Slope(), None),
    "full-batch descent": (planted_descent.Slope(rate=1.0), None),
    "descent on other classes": (planted_descent.Slope(steps=2), example(classes=3, rows=50)),
    "Laplace sums": (planted_releases.Sums(), None),
    "noisy choice": (planted_releases.Commonest(), example(classes=4)),
    "noisy choice under replacement": (planted_releases.Commonest(), REPLACED),
    "randomised response": (planted_releases.Answers(), example(classes=3)),
    "disjoint parts": (planted_releases.Parts(), None),
    "responses in stages": (planted_releases.Stages(), example(classes=3)),
    "a population": (planted_releases.Crowd(), None),
    "candidates that are all paid for": (planted_runs.Candidates(), None),
    "a column by noisy choice": (planted_preparation.Column(), None),
    "a noisy score": (planted_preparation.Score(), None),
    "one-hot labels": (planted_preparation.OneHot(), None),
    "one after another": (
        Then(first=planted_releases.Commonest(), second=planted_releases.Sums(), join=lambda data, released: data),
        None,
    ),
}


@pytest.mark.parametrize("name", CORRECT)
def test_correct_mechanisms_pass_every_check(name: str) -> None:
    mechanism, schema = CORRECT[name]
    assert 0 <= check_mechanism(mechanism, schema=schema, games=100) <= 1


@pytest.mark.parametrize("bug", CAUGHT, ids=lambda bug: bug.__name__)
def test_each_planted_bug_is_caught(bug: Any) -> None:
    with pytest.raises(BrokenPromise, match=f"^{bug.__name__}: .*({CAUGHT[bug]})"):
        check_mechanism(bug())


def test_every_planted_bug_is_in_the_table() -> None:
    correct = {type(mechanism) for mechanism, _ in CORRECT.values()}
    classes = {
        value
        for module in (planted_descent, planted_releases, planted_preparation, planted_runs)
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__
    }
    assert classes - correct == set(CAUGHT)


def test_at_least_sixty_planted_bugs_are_listed() -> None:
    areas = ["accounting", "sampling", "clipping", "summation", "noise", "preprocessing", "selection", "scores"]
    areas += ["label mechanisms", "checkpoints", "search", "resume and early stops"]
    assert list(BUGS) == areas
    assert all(len(bugs) >= 3 for bugs in BUGS.values())
    assert len(CAUGHT) >= 60
    assert all(set(bugs) <= set(CASES[name]().bugs) for name, bugs in PLAYED.items())
    page = (Path(__file__).parents[2] / "docs" / "planted_bugs.md").read_text()
    assert [line for line in page.splitlines() if line.startswith("| ") and "planted bug |" not in line] == rows()
    assert f"{len(rows())} planted bugs" in page
    assert set(AUDITED) == {"linear", "descent", "dpsgd"}


def test_p35_audit_catches_the_planted_p11_bug() -> None:
    """The game alone, blind to calls and sensitivities, proves more than the stated epsilon; correct noise does not."""
    mechanism = planted_descent.Slope(rate=1.0)
    noise = accounting.calibrate(lambda level: mechanism.cost(example(), level), 1.0, 1e-5)
    few = rows_for(example(), 8)
    canary = next(other for _, other in neighbours(few, "row"))
    broken = planted_descent.BatchFactor(rate=1.0)
    assert canary_game(broken, few, canary, noise, delta=1e-5, games=500) > 1.5
    assert canary_game(mechanism, few, canary, noise, delta=1e-5, games=500) <= 1.0


def test_p16_one_validation_row_cannot_change_control_flow() -> None:
    """Of all rows tried, some fall into the validation part and would end the training sooner or later."""
    rows, ends = rows_for(example(), 12), []
    tried = [other for _ in range(5) for _, other in neighbours(rows, "row")]
    for seed, other in enumerate(tried):
        replay(planted_releases.Parts(), rows, other, 2.0, seed=seed)
        try:
            replay(planted_descent.EarlyStopping(), rows, other, 2.0, seed=seed)
        except BrokenPromise as problem:
            ends.append("control flow depends on the rows" in str(problem))
    assert any(ends)


@pytest.mark.parametrize("mechanism", [planted_releases.Sums(), CfsGreedy(columns=1)], ids=["laplace", "gaussian"])
def test_generator_with_half_the_noise_is_caught(mechanism: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls and sensitivities are right, so neither replay nor price shows it; 30 runs alone would not either."""
    check_mechanism(mechanism, games=30)
    for kind in ("laplace", "gaussian"):
        monkeypatch.setattr(Rng, kind, _halved(getattr(Rng, kind)))
    with pytest.raises(BrokenPromise, match="the canary game proves"):
        check_mechanism(mechanism, games=30)


def _halved(release: Any) -> Any:
    return lambda self, exact, *, noise, sensitivity: release(self, exact, noise=noise / 2, sensitivity=sensitivity)


def test_check_proves_most_of_the_epsilon_of_one_release() -> None:
    assert check_mechanism(planted_releases.Sums(), games=30) > 0.6


def test_broken_promise_is_one_sentence() -> None:
    with pytest.raises(AssertionError) as caught:
        check_mechanism(planted_descent.NoClip())
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("NoClip: sensitivity exceeded")


def test_data_independent_mechanism_passes_at_no_cost() -> None:
    @dataclass(frozen=True)
    class Constant:
        def cost(self, schema: Any, noise: float) -> Any:
            return NOTHING

        def run(self, data: Data, noise: float, rng: Rng) -> Any:
            return rng.initial.integers(10), "constant"

    assert check_mechanism(Constant(), games=20) == 0


def test_canary_of_the_caller_is_used_in_the_game() -> None:
    rows = rows_for(example(), 6)
    hidden = planted_descent.QuietFastPath(rate=1.0)
    with pytest.raises(BrokenPromise, match="the canary game proves"):
        check_mechanism(hidden, data=rows, neighbour=lambda data: data.take(np.arange(1, 6)))
    with pytest.raises(WrongInput, match="differs in one row"):
        check_mechanism(hidden, data=rows, neighbour=rows.take(np.arange(2, 6)))


@pytest.mark.parametrize(("games", "played"), [(40, 0), (80, 2)])
def test_games_too_few_to_refute_the_claim_are_not_played(
    games: int, played: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty runs a side prove at most 0.42, so against a claim of 1 they could not fail."""
    counted: list[int] = []
    monkeypatch.setattr(_check, "canary_game", lambda *rows, games, **settings: counted.append(games) or 0.0)
    check_mechanism(planted_releases.Sums(), games=games)
    assert counted == [games] * played
