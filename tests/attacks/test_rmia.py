"""RMIA against its definition, pair by pair."""

from __future__ import annotations

import numpy as np
import pytest

from privaware.attacks.rmia import marginals, rmia
from privaware.errors import WrongInput
from privaware.noise import Rng
from tests.attacks.games import digits_game


@pytest.mark.parametrize("online", [True, False])
@pytest.mark.parametrize("gamma", [1.0, 2.0])
def test_scores_are_the_share_of_other_rows_that_a_row_beats(online: bool, gamma: float) -> None:
    game = digits_game().game if online else digits_game(online=False, count=2).game
    auxiliary = game.auxiliary
    assert auxiliary is not None

    def ratios(rows: object, masks: list[np.ndarray]) -> list[float]:
        def own(model: object) -> np.ndarray:
            return model.probabilities(rows)[np.arange(len(rows.y)), rows.y]  # type: ignore[attr-defined]

        observed, shadows = own(game.model), [own(shadow.model) for shadow in game.shadows]
        values = []
        for at, value in enumerate(observed):
            saw = [p[at] for p, mask in zip(shadows, masks, strict=True) if mask[at]]
            not_saw = [p[at] for p, mask in zip(shadows, masks, strict=True) if not mask[at]]
            if not not_saw:
                continue
            outside = float(np.mean(not_saw))
            within = float(np.mean(saw)) if saw and game.online else 0.3 * outside + 0.7
            values.append(value / ((within + outside) / 2))
        return values

    candidates = ratios(game.rows, [shadow.inside for shadow in game.shadows])
    references = ratios(auxiliary, [shadow.auxiliary_inside for shadow in game.shadows])
    expected = [np.mean([x / z >= gamma for z in references]) for x in candidates]
    assert rmia(game, Rng(seed=0), gamma=gamma) == pytest.approx(expected, abs=2 / len(references))


def test_row_that_every_shadow_saw_has_no_marginal() -> None:
    inside = np.array([[True, False], [True, True]])
    mean = marginals(np.array([[0.2, 0.4], [0.6, 0.8]]), inside, online=True, slope=0.3)
    assert np.isnan(mean[0])
    assert mean[1] == pytest.approx(0.6)


def test_game_without_shadows_is_refused() -> None:
    from dataclasses import replace

    game = replace(digits_game().game, shadows=(), shadow_training="none")
    with pytest.raises(WrongInput, match="expected a game with a shadow model"):
        rmia(game, Rng(seed=0))
