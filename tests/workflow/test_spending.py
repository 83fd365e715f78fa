"""The chart of a ledger shows both sums and is written once."""

from __future__ import annotations

from pathlib import Path

import pytest

from privaware.errors import WrongInput
from privaware.events import Gaussian
from privaware.ledger import Ledger
from privaware.workflow._spending import plot_spending, spending_chart


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger.create(tmp_path / "book.ledger", limit=9.0)
    for what in ("a sum", "another"):
        ledger.spend(Gaussian(noise=4.0), what=what)
    return ledger


def test_chart_has_composed_and_added_epsilon_of_each_charge(ledger: Ledger) -> None:
    chart = spending_chart(ledger).to_dict()
    points = {(row["way"], row["charge"]): row["epsilon"] for row in chart["datasets"][chart["data"]["name"]]}
    assert points["composed", 2] == pytest.approx(ledger.spent())
    assert points["added up", 2] == pytest.approx(2 * points["composed", 1])
    assert points["composed", 2] < points["added up", 2]
    assert [{"limit": 9.0}] in chart["datasets"].values()


@pytest.mark.parametrize(("suffix", "start"), [(".svg", b"<svg"), (".html", b"<!DOCTYPE")])
def test_chart_is_written_in_the_format_of_its_suffix(ledger: Ledger, suffix: str, start: bytes) -> None:
    path = plot_spending(ledger, ledger.path.with_suffix(suffix))
    content = path.read_bytes()
    assert content.lstrip().startswith(start)
    assert b"cdn." not in content  # opens without a network
    with pytest.raises(WrongInput, match="not overwritten"):
        plot_spending(ledger, path)


def test_other_suffixes_and_empty_ledgers_are_refused(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match=r"ends in \.svg"):
        plot_spending(ledger, tmp_path / "book.docx")
    with pytest.raises(WrongInput, match="without any"):
        plot_spending(Ledger.create(tmp_path / "new.ledger", limit=1.0), tmp_path / "new.svg")
