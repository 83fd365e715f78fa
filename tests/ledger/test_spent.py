"""What entries cost together."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from privaware import accounting
from privaware.errors import Refused
from privaware.events import Approximate, Composed, Disjoint, Gaussian, Laplace, from_json, leaves
from privaware.ledger import Ledger, _ledger, _spent, explained_lines
from tests.ledger.books import DELTA

pytestmark = pytest.mark.usefixtures("adding")


@pytest.mark.usefixtures("real")
def test_repeated_disjoint_splits_count_a_row_in_different_parts(tmp_path: Path) -> None:
    """Noises at which two runs in either part cost epsilon 1; one in each part costs 1.15."""
    one, other = Gaussian(noise=5.2771), Laplace(noise=2.0005)
    ledger = Ledger.create(tmp_path / "a.ledger", limit=9.0, delta=1e-5)
    ledger.spend(Disjoint(events=(one, other)), what="a search")
    assert ledger.total() == Disjoint(events=(one, other))
    ledger.spend(Disjoint(events=(one, other)), what="the same again")
    worst = max(accounting.epsilon(event, 1e-5) for event in (2 * one, 2 * other, one + other))
    assert worst == pytest.approx(accounting.epsilon(one + other, 1e-5))
    assert worst <= ledger.spent() <= 1.05 * worst


@pytest.mark.usefixtures("real")
def test_equal_disjoint_splits_of_one_charge_are_of_their_own(tmp_path: Path) -> None:
    """Noises at which two runs in either part cost epsilon 1; one in each part costs 1.15."""
    split = Disjoint(events=(Gaussian(noise=5.2771), Laplace(noise=2.0005)))
    ledger = Ledger.create(tmp_path / "a.ledger", limit=9.0, delta=1e-5)
    ledger.spend(split + split, what="two searches")
    assert accounting.epsilon(split + split, 1e-5) <= ledger.spent() <= 1.05 * accounting.epsilon(split + split, 1e-5)
    assert _spent.total([(None, 2 * split)]) == 2 * split


@pytest.mark.usefixtures("real")
def test_many_disjoint_splits_are_bounded_together() -> None:
    pairs = [(Gaussian(noise=9.0 + at), Laplace(noise=4.0 + at)) for at in range(7)]
    total = _spent.total((None, Disjoint(events=pair)) for pair in pairs)
    assert not any(isinstance(leaf, Disjoint) for leaf, _ in leaves(total))
    every = Composed(events=tuple(Disjoint(events=pair) for pair in pairs))
    exact = accounting.epsilon(every, DELTA)  # every choice of parts, one by one
    assert exact <= accounting.epsilon(total, DELTA) <= 1.1 * exact


OLD_WORDS = {
    "kind": "Group",
    "size": 20,
    "event": {
        "kind": "Composed",
        "events": [{"kind": "Gaussian", "noise": 8.0}, {"kind": "Approximate", "epsilon": 0.0, "delta": 1e-07}],
    },
}
"""Categories bought for persons of 20 rows, as versions wrote it whose failure chance was proven for one row."""


def ledger_of_an_earlier_version(path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    ledger = Ledger.create(path, limit=50.0, delta=DELTA)
    with monkeypatch.context() as patch:
        patch.setattr(_spent, "epsilon_of", lambda event, delta: 14.0)
        patch.setattr(_ledger, "epsilon_of", lambda event, delta: 14.0)
        ledger.spend(from_json(OLD_WORDS), what="release bounds")
    return ledger


@pytest.mark.usefixtures("real")
def test_p52_ledger_with_an_unproven_failure_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.open(ledger_of_an_earlier_version(tmp_path / "a.ledger", monkeypatch).path)
    assert ledger.spent() == math.inf
    assert "No finite epsilon is proven" in explained_lines(ledger.json())[-1]


@pytest.mark.usefixtures("real")
def test_p52_unproven_failure_refuses_another_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ledger_of_an_earlier_version(tmp_path / "a.ledger", monkeypatch)
    for ask in (lambda: ledger.spend(Gaussian(noise=90.0), what="a sum"), lambda: ledger.set_limit(99.0)):
        with pytest.raises(Refused, match=r"none is proven at delta 1e-5 for entry 1 \(release bounds\)"):
            ask()


@pytest.mark.usefixtures("real")
def test_charge_without_a_finite_epsilon_is_refused_by_name(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "a.ledger", limit=50.0, delta=DELTA)
    with pytest.raises(Refused, match="for words of persons; no release"):
        ledger.spend(from_json(OLD_WORDS), what="words of persons")
    assert ledger.spent() == 0


@pytest.mark.usefixtures("real")
def test_chances_of_failure_beyond_delta_say_what_to_do(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "a.ledger", limit=50.0, delta=DELTA)
    release = Gaussian(noise=9.0) + Approximate(epsilon=0.0, delta=0.6 * DELTA)
    ledger.spend(release, what="release bounds")
    with pytest.raises(Refused, match=r"add up to less than delta 1e-5, .* declare them \(schema=\)"):
        ledger.spend(release, what="release bounds again")
