"""Results show a short text, and a small card in notebooks."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware import Ledger, advise, audit, crossover, fit, load, search, select, verify
from privaware._rounded import rounded_up
from privaware.events import Gaussian

LONGEST = 300
"""Most characters of a `repr`: two lines."""
FORMAT_1 = Path(__file__).parent / "workflow" / "format_1"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One of everything that a user gets back."""
    folder = tmp_path_factory.mktemp("shown")
    rng = np.random.default_rng(0)
    names = [f"a column with the name {at}" for at in range(12)]
    frame = pd.DataFrame(rng.normal(size=(300, 12)), columns=names)
    frame["y"] = np.where(frame[names[0]] > 0, "<b>yes</b>", "no")
    plain: dict[str, Any] = {"target": "y", "epsilon": 1.0, "seed": 1}
    fitted = fit(frame, learner="linear", out=folder / "m", ledger=folder / "l.ledger", **plain)
    built_in: dict[str, Any] = {"dry_run": True, "epsilon": 1.0}
    ledger = Ledger.create(folder / "other.ledger", limit=3.0)
    ledger.spend(Gaussian(noise=4.0), what="<i>a sum</i>")
    return {
        "fit": fitted,
        "select": select("wisconsin", method="all", epsilon=1.0),
        "search": search("wisconsin", **built_in),
        "crossover": crossover("wisconsin", simple="linear", complex="dpsgd", dry_run=True, epsilons=(1.0,), repeats=2),
        "advise": advise("wisconsin", epsilon=1.0),
        "audit": audit("wisconsin", learner="linear", attack="one_run", **built_in),
        "verify": verify(folder / "m"),
        "model": fitted.model,
        "loaded": load(folder / "m"),
        "card": load(folder / "m").card,
        "guarantee": load(folder / "m").guarantee,
        "ledger": ledger,
    }


EVERYTHING = ("fit", "select", "search", "crossover", "advise", "audit", "verify", "model", "loaded", "card")
EVERYTHING += ("guarantee", "ledger")


@pytest.mark.parametrize("name", EVERYTHING)
def test_repr_has_at_most_two_lines(shown: dict[str, Any], name: str) -> None:
    assert len(repr(shown[name])) <= LONGEST
    assert "\n" not in repr(shown[name])


class Elements(HTMLParser):
    """The elements of a page, and whether each was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", EVERYTHING)
def test_card_is_small_escaped_html(shown: dict[str, Any], name: str) -> None:
    page = shown[name]._repr_html_()
    elements = Elements()
    elements.feed(page)
    assert elements.open == []
    assert elements.seen <= {"div", "strong", "table", "tr", "th", "td", "p"}  # no class name or charge is an element
    assert len(page) < 6000
    assert "http" not in page


def test_card_of_a_fit_states_its_guarantee(shown: dict[str, Any]) -> None:
    page = shown["fit"]._repr_html_()
    assert "linear" in page
    assert "SEEDED, NOT FOR RELEASE" in page


def test_summary_of_a_fit_has_no_test_score() -> None:
    result = fit("wisconsin", epsilon=1.0, learner="majority")
    score = result.internal["test_score"]
    assert score is not None
    assert f"{score:.4g}" not in repr(result) + result._repr_html_()


def test_repr_of_a_model_names_its_guarantee() -> None:
    model = load(FORMAT_1)
    assert repr(model).startswith("ReleasedModel(learner='")
    assert f"epsilon={rounded_up(model.guarantee.epsilon)}" in repr(model)


def test_card_of_a_ledger_shows_spent_and_limit(shown: dict[str, Any]) -> None:
    ledger = shown["ledger"]
    assert f"{rounded_up(ledger.spent())}</td>" in ledger._repr_html_()
    assert "a sum" in ledger._repr_html_()


def test_card_of_a_lost_ledger_says_why(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l.ledger", limit=1.0)
    ledger.path.unlink()
    assert "l.ledger" in repr(ledger)
    assert "l.ledger" in ledger._repr_html_()
