"""The second accountant reads events by itself: a mistake planted in the first one's reading makes the two disagree."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaware import accounting
from privaware.accounting import _cf_losses, _cf_tree, _pairs, _price, _profiles, _selection, _terms
from privaware.errors import Refused
from privaware.events import (
    AnyOf,
    Approximate,
    Disjoint,
    Event,
    Gaussian,
    Group,
    Laplace,
    Pure,
    RandomisedResponse,
    Sampled,
    Selected,
)
from tests.accounting.trainings import DELTA, training

Mistake = Callable[[pytest.MonkeyPatch], None]


def wrong(owner: Any, name: str, spoil: Callable[..., Any]) -> Mistake:
    """`name` of `owner` replaced: `spoil` is given the right function and its arguments."""
    right = getattr(owner, name)
    return lambda patch: patch.setattr(owner, name, lambda *a, **b: spoil(right, *a, **b))


def first_way(right: Any, event: Event) -> Any:
    return right(event)[:1]


def losses_shrunk(right: Any, *arguments: Any) -> Any:
    losses, probs, failure = right(*arguments)
    return 0.98 * losses, probs, failure


def never_full(right: Any, noise: float, rate: float, rows: int, cap: int, *rest: Any) -> Any:
    return right(noise, rate, cap, cap, *rest)


# Numbers that no other test uses: what a mistake leaves in a cache is never asked for again.
MISTAKES: dict[str, tuple[Mistake, Event]] = {
    "repetitions are forgotten": (
        wrong(_terms, "leaves", lambda right, event, count=1: [(e, min(n, 37)) for e, n in right(event, count)]),
        38 * Gaussian(noise=9.01),
    ),
    "Gaussians of one sample are not added up": (
        wrong(_terms, "_combined", lambda right, inner: min(e.noise for e, _ in inner)),
        50 * (Gaussian(noise=2.01) + Gaussian(noise=2.51)).sampled(rate=0.101),
    ),
    "failures are forgotten": (
        wrong(_terms._Total, "fail", lambda right, *rest: None),
        Gaussian(noise=1.501) + 3 * Approximate(epsilon=0.101, delta=2e-6),
    ),
    "only the first of disjoint parts counts": (
        wrong(_price, "alternatives", first_way),
        Disjoint(events=(Gaussian(noise=5.01), Gaussian(noise=2.02))),
    ),
    "batches are never full": (
        wrong(_terms, "candidates", never_full),
        20 * Sampled(event=Gaussian(noise=2.03), rate=0.051, rows=900, cap=20),
    ),
    "a group multiplies no delta": (
        wrong(_terms, "log_growth", lambda right, size, epsilon: 0.0),
        Gaussian(noise=2.04) + Group(event=Approximate(epsilon=1.01, delta=4e-7), size=3),
    ),
    "a failure proven for one row is taken for a unit's": (
        wrong(_terms, "_covered", lambda right, leaf: 1000),
        Group(event=Gaussian(noise=4.01) + Approximate(epsilon=0, delta=8e-7), size=4),
    ),
    "a response keeps its answer less often": (
        wrong(_pairs.ResponsePair, "table", lambda right, *rest: (0.98 * right(*rest)[0], right(*rest)[1])),
        5 * RandomisedResponse(epsilon=0.501, classes=4),
    ),
    "tables are sampled at half the rate": (
        wrong(_terms, "sample", lambda right, losses, probs, rate, way: right(losses, probs, rate / 2, way)),
        3 * (Laplace(noise=2.05) + Pure(epsilon=0.301)).sampled(rate=0.201),
    ),
    "tables of profiles have smaller losses": (
        wrong(_profiles, "pair_from_profile", losses_shrunk),
        2 * AnyOf(events=(training(1.51, 0.0101, 100), Laplace(noise=3.01))),
    ),
    "profiles inside a group are half as large": (
        wrong(_profiles, "profile", lambda right, event: lambda epsilons: 0.5 * right(event)(epsilons)),
        Group(event=(training(2.06, 0.0102, 300) + Laplace(noise=8.01)).sampled(rate=0.5), size=2),
    ),
    "ranks move less under private selection": (
        wrong(
            _selection.SelectionTradeOff, "_reach", lambda right, self, u: (0.9 * right(self, u)[0], right(self, u)[1])
        ),
        Selected(event=Gaussian(noise=3.01), distribution="logarithmic", mean=10.1),
    ),
    "private selection has another mean": (
        wrong(_selection, "_solved", lambda right, selected: (right(selected)[0], 0.8 * right(selected)[1])),
        Selected(event=Gaussian(noise=3.02), distribution="negative_binomial", shape=1.0, mean=10.2),
    ),
    "failures of selected runs are forgotten": (
        wrong(_selection, "failure", lambda right, selected, one: 0.0),
        Selected(
            event=Gaussian(noise=3.03) + Approximate(epsilon=0, delta=9e-7), distribution="logarithmic", mean=10.3
        ),
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_p43_error_in_first_reading_makes_accountants_disagree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, event = MISTAKES[name]
    plant(monkeypatch)
    with pytest.raises(Refused, match="disagree"):
        accounting.epsilon(event, DELTA)


def test_p43_the_second_accountant_imports_nothing_of_the_first() -> None:
    folder = Path(accounting.__file__).parent
    first = {"_terms", "_pairs", "_grid", "_pld", "_profiles", "_capped", "_selection", "_price", "_rdp", "_gaussian"}
    for file in folder.glob("_cf*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in getattr(node, "names", [])]
            module = (getattr(node, "module", None) or "").removeprefix("privaware.accounting.")
            assert not first & {module, *names}, file.name
            assert "leaves" not in names, file.name


def test_the_second_accountant_alone_is_exact_for_gaussians() -> None:
    for noise in (0.8, 3.0, 40.0):
        alone = _cf_tree.epsilon(7 * Gaussian(noise=noise), DELTA)
        assert alone == pytest.approx(accounting.epsilon(Gaussian(noise=noise / np.sqrt(7)), DELTA), rel=1e-6)


def test_many_rates_of_one_noise_are_composed() -> None:
    losses = tuple((_cf_losses.MixtureLoss(noise=1.0, rate=0.001 * at, side="remove"), 1) for at in range(1, 99))
    total = _cf_tree.LossSum(losses=losses)
    assert _cf_tree._coarser(total) == total
