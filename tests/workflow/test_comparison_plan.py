"""Designs of a comparison: the largest one within a total, and a refusal that names one that fits."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privaware import Ledger, accounting, crossover, datasets
from privaware._rounded import rounded_up
from privaware.errors import BudgetExceeded
from privaware.workflow._comparison_plan import TOTAL, Design, choose_design

MODELS = {"simple": "majority", "complex": "linear:steps=5"}


def added(design: Design) -> float:
    """The simplest price: the sum of both trainings at every epsilon."""
    return 2 * design.repeats * sum(design.epsilons)


@pytest.mark.parametrize(
    ("epsilons", "repeats", "total", "expected"),
    [
        (None, None, 1.0, Design((0.1, 0.3), 1)),
        (None, None, 6.0, Design((0.1, 0.3, 1.0), 2)),
        (None, None, 1000.0, Design((0.1, 0.3, 1.0, 3.0, 10.0), 5)),
        (None, 4, 12.0, Design((0.1, 0.3, 1.0), 4)),
        ([1.0, 2.0], None, 13.0, Design((1.0, 2.0), 2)),
        ([1.0, 2.0], 7, float("inf"), Design((1.0, 2.0), 7)),
    ],
)
def test_largest_design_within_the_total_is_chosen(
    epsilons: list[float] | None, repeats: int | None, total: float, expected: Design
) -> None:
    assert choose_design(added, epsilons=epsilons, repeats=repeats, total=total) == expected


def test_refusal_names_price_and_a_design_that_fits() -> None:
    with pytest.raises(BudgetExceeded) as refused:
        choose_design(added, epsilons=[1.0, 3.0, 10.0], repeats=5, total=30.0)
    message = str(refused.value)
    assert "3 epsilons x 5 repeats costs epsilon 140, above the total of 30" in message
    assert "`epsilons=[1, 3, 10], repeats=1` costs 28" in message
    with pytest.raises(BudgetExceeded, match=r"`epsilons=\[1, 3\], repeats=1` costs 8"):
        choose_design(added, epsilons=[1.0, 3.0, 10.0], repeats=5, total=9.0)


def test_refusal_names_default_epsilons_if_no_given_one_fits() -> None:
    with pytest.raises(BudgetExceeded, match=r"`epsilons=\[0\.1, 0\.3\], repeats=1` costs 0\.8"):
        choose_design(added, epsilons=[1.0, 3.0], repeats=3, total=2.0)
    with pytest.raises(BudgetExceeded, match="no smaller design fits; a built-in data set like yours costs nothing"):
        choose_design(added, epsilons=[1.0, 3.0], repeats=3, total=0.7)


@pytest.fixture
def tumours(tmp_path: Path) -> Path:
    """The rows of a built-in data set as a private file."""
    rows = datasets.load("wisconsin").train
    frame = pd.DataFrame(np.asarray(rows.x)[:, :3], columns=["a", "b", "c"]).assign(y=np.asarray(rows.y))
    frame.to_csv(tmp_path / "tumours.csv", index=False)
    return tmp_path / "tumours.csv"


def test_default_design_on_private_rows_is_within_the_total(tumours: Path) -> None:
    result = crossover(tumours, target="y", accept_schema=True, **MODELS)
    assert [len(points) for points in result.curves.values()] == [3, 3]
    assert result.repeats == 2
    assert result.epsilon <= TOTAL
    ledger = Ledger.open(f"{tumours}.ledger")
    assert ledger.spent() == pytest.approx(result.epsilon, rel=1e-6)
    (sentence,) = [line for line in result.plan if line.startswith("Design: ")]
    assert sentence.startswith(
        f"Design: 3 epsilons x 2 repeats, epsilon {rounded_up(result.epsilon)}, within the total of 5"
    )
    assert re.search(r"5 epsilons x 5 repeats: 9\d\.\d+; .*a built-in data set: 0\.$", sentence)


def test_design_above_the_total_is_refused_before_a_charge(tumours: Path) -> None:
    call = {"target": "y", "accept_schema": True, "epsilons": [1.0, 3.0, 10.0], "repeats": 5, **MODELS}
    with pytest.raises(BudgetExceeded, match=r"costs epsilon 9\d\.\d+, above the total of 5") as refused:
        crossover(tumours, **call)
    assert not Path(f"{tumours}.ledger").exists()
    assert "`epsilons=[0.1, 0.3, 1], repeats=1` costs 2." in str(refused.value)
    assert crossover(tumours, total=100.0, dry_run=True, **call).epsilon > 90


def test_ledger_without_room_names_a_design_that_fits(tumours: Path) -> None:
    ledger = Ledger.create(f"{tumours}.ledger", limit=3.0)
    with pytest.raises(BudgetExceeded, match="past the limit of 3") as refused:
        crossover(tumours, target="y", accept_schema=True, **MODELS)
    named = re.search(r"`epsilons=\[(.+)\], repeats=(\d)` costs", str(refused.value))
    assert named is not None
    epsilons = [float(epsilon) for epsilon in named[1].split(",")]
    crossover(tumours, target="y", accept_schema=True, epsilons=epsilons, repeats=int(named[2]), **MODELS)
    assert accounting.epsilon(ledger.total(), ledger.delta) <= 3.0


def test_public_rows_have_no_total_unless_one_is_given() -> None:
    result = crossover("wisconsin", dry_run=True, **MODELS)
    assert (len(result.models), result.repeats) == (2, 5)
    assert result.epsilon > 50
    assert crossover("wisconsin", total=3.0, dry_run=True, **MODELS).epsilon <= 3.0
