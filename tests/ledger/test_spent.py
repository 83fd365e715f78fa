"""What entries cost together."""

from __future__ import annotations

from pathlib import Path

import pytest

from privaware import accounting
from privaware.events import Composed, Disjoint, Gaussian, Laplace, leaves
from privaware.ledger import Ledger, _spent
from tests.ledger.books import DELTA

pytestmark = pytest.mark.usefixtures("adding")


@pytest.mark.usefixtures("real")
def test_repeated_disjoint_splits_may_meet_a_row_in_different_parts(tmp_path: Path) -> None:
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
def test_many_disjoint_splits_are_bounded_together() -> None:
    pairs = [(Gaussian(noise=9.0 + at), Laplace(noise=4.0 + at)) for at in range(7)]
    total = _spent.total((None, Disjoint(events=pair)) for pair in pairs)
    assert not any(isinstance(leaf, Disjoint) for leaf, _ in leaves(total))
    every = Composed(events=tuple(Disjoint(events=pair) for pair in pairs))
    exact = accounting.epsilon(every, DELTA)  # every choice of parts, one by one
    assert exact <= accounting.epsilon(total, DELTA) <= 1.1 * exact
