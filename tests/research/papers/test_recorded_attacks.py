"""What DPMLBench publishes of membership inference, held against the cells that were recorded: no GPU is needed.

`test_published.py` trains and attacks the same models anew where there is one.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from privaware.bench._store import Store
from privaware.metrics import MIN_BASELINE_AUC, privacy_leakage
from research.papers._dpmlbench_means import ATTACKS, Means

RESULTS = Path(__file__).parents[3] / "docs" / "results"
MEANS = Means.of(Store(RESULTS / "dpmlbench" / "cells.jsonl").read().values())
AREAS = [name for name in {name for results in MEANS.values.values() for name in results} if name.startswith("auc ")]
LABEL_PRIVATE = ("alibi", "label_mst")
PLACE = ("simple_cnn", "cifar10")


def attacked(name: str, **wanted: Any) -> list[dict[str, Any]]:
    """Attacks on models of their own, recorded line by line; those with these entries."""
    lines = (RESULTS / "attacks" / name).read_text().splitlines()
    return [line for line in map(json.loads, lines) if wanted.items() <= line.items()]


def test_without_privacy_the_areas_are_those_of_the_paper() -> None:
    """Published: 0.78 and 0.72. With its settings the black box is within a point of 0.70; log odds pass that."""
    black_box, white_box = (MEANS.get("sgd", *PLACE, None, name) or 0.0 for name in ATTACKS)
    assert black_box >= 0.69
    assert white_box >= 0.68
    for lines in (
        attacked("odds.jsonl", attack="black_box"),
        attacked("odds_epsilon4.jsonl", attack="black_box", target="without privacy"),
    ):
        assert len(lines) >= 3
        assert mean(line["tailored_auc"] for line in lines) >= 0.78


def test_no_attack_on_rows_at_epsilon_four_passes_auc_0_53() -> None:
    areas = {
        (key[0], name): area
        for name in AREAS
        for key, area in MEANS.having(name)
        if key[1:] == (*PLACE, 4.0) and key[0] not in LABEL_PRIVATE
    }
    assert {learner for learner, _ in areas} >= {"dpsgd", "tanh", "noise_decay", "quantile_clip", "hand_dp"}
    assert max(areas.values()) <= 0.53
    odds = attacked("odds_epsilon4.jsonl", target="epsilon 4")
    assert {line["shadows"]["training"] for line in odds} == {"private", "without privacy"}
    assert max(line["tailored_auc"] for line in odds) <= 0.53


def test_leakage_share_is_undefined_where_sgd_leaks_nothing() -> None:
    """Every recorded cell has a share or none, as its baseline has it; the share of CIFAR-10 is small at epsilon 4."""
    shares = {key: MEANS.leakage(key) for key, _ in MEANS.having(ATTACKS[0]) if key[3] is not None}
    for key, share in shares.items():
        baseline = MEANS.get("sgd", key[1], key[2], None, ATTACKS[0])
        assert (share is None) == (baseline is None or baseline < MIN_BASELINE_AUC), key
    assert shares["dpsgd", *PLACE, 4.0] == pytest.approx(0.045, abs=0.05)
    assert privacy_leakage(0.51, 0.505) is None
