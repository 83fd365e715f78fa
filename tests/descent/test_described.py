"""Losses, schedules and averages from plain tables."""

from __future__ import annotations

import math

import pytest

from privaware import descent
from privaware.descent import build_average, build_loss, build_schedule
from privaware.errors import WrongInput


def test_lengths_of_schedules_count_epochs() -> None:
    assert build_schedule({"name": "exponential", "factor": 0.9}, epoch=7) == descent.exponential(0.9, every=7)
    assert build_schedule({"name": "time_decay", "decay": 0.05, "every": 2}, epoch=7) == descent.time_decay(0.05, 14)
    assert build_schedule({"name": "warm_up", "over": 3}, epoch=7).at(0, 100) == pytest.approx(1 / 21)
    assert build_schedule({"name": "cosine", "end": 0.1}, epoch=7) == descent.cosine(0.1)


def test_published_decays_fall_as_their_formulas_say() -> None:
    """Yu et al. 2019: the noise falls in all of them; public code lets that of `time` grow."""
    steps, epoch = 40, 4
    for epochs in range(10):
        step = epoch * epochs + 1
        assert build_schedule({"name": "time_decay", "decay": 0.05}, epoch).at(step, steps) == 1 / (1 + 0.05 * epochs)
        by_factor = build_schedule({"name": "exponential", "factor": math.exp(-0.01)}, epoch)
        assert by_factor.at(step, steps) == pytest.approx(math.exp(-0.01 * epochs))
        by_step = build_schedule({"name": "exponential", "factor": 0.6, "every": 5}, epoch)
        assert by_step.at(step, steps) == 0.6 ** (epochs // 5)
        curve = build_schedule({"name": "polynomial", "power": 3, "end": 0.2, "within": 0.5}, epoch)
        assert curve.at(step, steps) == pytest.approx(0.2 + 0.8 * max(0, 1 - epochs / 5) ** 3)


def test_loss_takes_its_settings_and_its_epochs() -> None:
    assert build_loss({"name": "cross_entropy"}) is descent.cross_entropy
    assert build_loss({"name": "losing_less", "beta": 3.0}, epochs=8) == descent.losing_less(8, beta=3.0)


def test_average_is_a_share_or_a_table() -> None:
    assert build_average(0.0) is None
    assert build_average({"name": "ema", "decay": 0.9}) == descent.ema(0.9)


@pytest.mark.parametrize(
    ("table", "words"), [({"name": "cosin"}, "cosine"), ({}, "exponential"), ({"name": "cosine", "last": 1}, "'end'")]
)
def test_unknown_names_and_settings_are_answered_with_known_ones(table: dict[str, object], words: str) -> None:
    with pytest.raises(WrongInput, match=words):
        build_schedule(table, epoch=1)


def test_loss_refuses_settings_it_does_not_have() -> None:
    with pytest.raises(WrongInput, match="gamma"):
        build_loss({"name": "focal", "alpha": 1})
