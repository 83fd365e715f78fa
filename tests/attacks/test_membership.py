"""What attacks achieve: an overfitted model gives its members away, a private one does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privaware import accounting
from privaware.attacks import find_attack, play
from privaware.noise import Rng
from tests.attacks.games import EPSILON_1, PRIVATE, digits_game

LEARNT = {"lr": 3e-3, "epochs": 3}
LEAKS: dict[str, tuple[str, dict[str, Any], float]] = {
    "threshold": ("threshold", {}, 0.6),
    "threshold, confidence": ("threshold", {"statistic": "confidence"}, 0.6),
    "threshold, entropy": ("threshold", {"statistic": "entropy"}, 0.6),
    "black_box": ("black_box", LEARNT, 0.6),
    "black_box, odds": ("black_box", {**LEARNT, "reads": "odds"}, 0.6),
    "white_box": ("white_box", LEARNT, 0.6),
    "lira": ("lira", {}, 0.7),
    "lira, offline": ("lira", {"offline": True}, 0.65),
    "rmia": ("rmia", {}, 0.65),
    "label_only": ("label_only", {}, 0.6),
}


@pytest.mark.parametrize("case", LEAKS)
def test_overfitted_model_gives_its_members_away(case: str) -> None:
    name, settings, least = LEAKS[case]
    result = play(digits_game(), find_attack(name, **settings), Rng(seed=1), name=name)
    assert result.auc > least
    assert result.auc_interval[0] > 0.55
    assert result.shadow_training == "without privacy"


@pytest.mark.parametrize("case", LEAKS)
def test_private_model_does_not(case: str) -> None:
    """At epsilon 1; the interval of 99.9% holds one half, whatever the attack makes of 300 rows."""
    name, settings, _ = LEAKS[case]
    result = play(digits_game(private=True), find_attack(name, **settings), Rng(seed=1), confidence=0.999)
    assert result.auc_interval[0] <= 0.5 <= result.auc_interval[1]
    assert result.shadow_training == "private"


def test_private_game_is_played_at_epsilon_1() -> None:
    schema = digits_game(private=True).game.model.schema
    assert schema.rows == 150
    assert 0.7 < accounting.epsilon(PRIVATE.cost(schema, EPSILON_1), 1e-3) <= 1


def test_reversed_ranking_has_the_other_auc() -> None:
    results = [
        play(digits_game(), find_attack("threshold", reverse=reverse), Rng(seed=1)).auc for reverse in (False, True)
    ]
    assert sum(results) == pytest.approx(1)


def test_shuffled_answers_give_one_half() -> None:
    from dataclasses import replace

    posed = digits_game()
    shuffled = replace(posed, inside=np.random.default_rng(5).permutation(posed.inside))
    result = play(shuffled, find_attack("lira"), Rng(seed=1), confidence=0.999)
    assert result.auc_interval[0] <= 0.5 <= result.auc_interval[1]


def test_p35_result_says_which_shadows_and_shows_no_score() -> None:
    result = play(digits_game(), find_attack("lira"), Rng(seed=1), name="lira")
    shown = result.to_json()
    assert shown["shadows"] == {"count": 8, "training": "without privacy", "online": True}
    assert shown["members"] == shown["non_members"] == 150
    assert set(shown["tpr_at_fpr"]) == {"0.001", "0.01"}
    rate = shown["tpr_at_fpr"]["0.01"]
    assert rate["interval"][0] <= rate["tpr"] <= rate["interval"][1]
    assert rate["fpr_at_most"] > 0.01
    assert shown["tailored_auc"] == max(result.auc, 0.5)
    assert str(result.inside_scores[0]) not in repr(result)
