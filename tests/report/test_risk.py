"""The audit on the page: beside its claim, below the largest rates that the events allow, and never a guarantee."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from privaware import report
from privaware.card import ModelCard, PricedEvent
from privaware.errors import WrongInput
from privaware.events import Gaussian, Unproven
from privaware.report._risk import AuditRecord, audit_view, largest_rates, read_audit, risk_view
from tests.report.pages import card_entries

AUDIT: dict[str, Any] = {
    "attack": "one_run",
    "assumes": "nothing",
    "epsilon_lower": 0.75199,
    "epsilon_claimed": 1.0,
    "delta": 1e-5,
    "confidence": 0.95,
    "auc": 0.61,
    "refuted": False,
    "roc": [[0.01, 0.03], [0.1, 0.2], [1.0, 1.0]],
}


def card() -> ModelCard:
    return ModelCard.from_json(card_entries())


def written(folder: Path, **changes: Any) -> Path:
    (folder / "audit.json").write_text(json.dumps({**AUDIT, **changes}))
    return folder


def test_largest_rates_come_of_all_events_together() -> None:
    model = card()
    fprs = np.array([0.001, 0.01, 0.1])
    both = replace(model, events=(PricedEvent(what="train", event=Gaussian(noise=3.73), epsilon=1.0),))
    found = largest_rates(both).at(fprs)
    alone = [report.power(model.guarantee.epsilon, model.guarantee.delta, float(fpr)) for fpr in fprs]
    assert (found <= np.array(alone) + 1e-12).all()
    assert found[2] < 0.8 * alone[2]
    unproven = replace(model, events=(PricedEvent(what="train", event=Unproven(reason="none"), epsilon=None),))
    assert largest_rates(unproven).at(fprs) == pytest.approx(alone)
    assert largest_rates(both).of_events
    assert not largest_rates(unproven).of_events


def test_bound_is_rounded_down_and_the_claim_up(tmp_path: Path) -> None:
    audit = read_audit(written(tmp_path))
    assert audit is not None
    shown = audit_view(card(), audit)
    assert (shown["lower"], shown["claim"]) == ("0.7519", "1")
    assert "does not prove the claim" in shown["verdict"]
    assert [line["measured"] for line in shown["rates"]] == ["too few canaries to tell", "3%", "20%"]


def test_measured_rates_are_those_that_the_audit_states(tmp_path: Path) -> None:
    rates = {
        "0.001": {"tpr": 0.00783, "interval": [0.0021, 0.0199]},
        "0.01": {"tpr": 0.0176, "interval": [0.008, 0.0332]},
        "0.1": {"tpr": 0.145, "interval": [0.1157, 0.1786]},
    }
    audit = read_audit(written(tmp_path, members=511, tpr_at_fpr=rates))
    assert audit is not None
    measured = [line["measured"] for line in audit_view(card(), audit)["rates"]]
    assert measured == ["0.783% (0.21% to 1.99%)", "1.76% (0.8% to 3.32%)", "14.5% (11.6% to 17.9%)"]


def test_refuted_claim_is_said_on_the_page(tmp_path: Path) -> None:
    text = report.page_text(report.page(card(), read_audit(written(tmp_path, refuted=True))))
    assert "The claim is refuted: with 99.9% confidence" in text
    assert "What an audit found" not in report.page_text(report.page(card()))


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon_lower": None},
        {"epsilon_lower": "much"},
        {"confidence": -1},
        {"roc": 3},
        {"roc": [[1]]},
        {"auc": True},
        {"tpr_at_fpr": 3},
    ],
)
def test_damaged_audit_is_one_sentence(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(WrongInput, match=r"audit\.json is damaged: expected what `privaware audit` wrote"):
        read_audit(written(tmp_path, **changes))


def test_words_of_an_audit_are_escaped(tmp_path: Path) -> None:
    page = report.page(card(), read_audit(written(tmp_path, attack="<script>alert(1)</script>")))
    assert "<script" not in page


def test_chart_is_logarithmic_on_both_axes_and_has_three_curves(tmp_path: Path) -> None:
    charts: list[Any] = []
    risk_view(card(), read_audit(written(tmp_path)), lambda chart, *facts: charts.append(chart(*facts)) or "")
    spec = charts[0].to_dict()
    assert spec["encoding"]["x"]["scale"]["type"] == spec["encoding"]["y"]["scale"]["type"] == "log"
    rows = next(iter(spec["datasets"].values()))
    assert {row["who"] for row in rows} == {"best possible attacker", "this audit", "guessing"}
    assert min(row["y"] for row in rows) >= 1e-4


def test_chance_to_be_right_is_that_of_the_best_threshold() -> None:
    """Of one Gaussian, whose trade-off is known: the best attacker decides in the middle."""
    gaussian = replace(card(), events=(PricedEvent(what="train", event=Gaussian(noise=2.0), epsilon=2.0),))
    gaussian = replace(gaussian, guarantee=replace(gaussian.guarantee, epsilon=2.5))
    assert largest_rates(gaussian).accuracy == pytest.approx(norm.cdf(0.25), abs=2e-3)


def test_audit_shows_intervals_of_auc_and_rates() -> None:
    facts: dict[str, Any] = {"attack": "one_run", "assumes": "nothing", "delta": 1e-5, "refuted": False}
    facts |= {"epsilon_lower": 0.5, "epsilon_claimed": 1.0, "confidence": 0.95, "auc": 0.6, "members": 100}
    audit = AuditRecord(**facts, auc_interval=(0.55, 0.65), roc=((0.01, 0.05), (1.0, 1.0)))
    shown = audit_view(ModelCard.from_json(card_entries()), audit)
    assert shown["auc"] == "0.6, 95% interval 0.55 to 0.65"
    assert shown["rates"][1]["measured"] == "5% (1.64% to 11.3%)"
