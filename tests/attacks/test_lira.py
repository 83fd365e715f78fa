"""LiRA against a computation row by row with scipy's distributions, and on normal scores with a known AUC."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from privaware.attacks.lira import likelihoods, lira
from privaware.errors import WrongInput
from privaware.metrics import auc
from privaware.noise import Rng
from tests.attacks.games import digits_game

CASES = [(offline, pooled) for offline in (False, True) for pooled in (False, True)]


def confidences(models: int = 12, rows: int = 7, queries: int = 2) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    inside = rng.permuted(np.tile([True, False], (rows, models // 2)), axis=1).T
    scales = rng.uniform(0.5, 2, rows)[:, None]
    shadows = rng.normal(inside[:, :, None] * 1.5, scales, (models, rows, queries))
    return rng.normal(0, 1, (rows, queries)), shadows, inside


def reference(
    observed: np.ndarray, shadows: np.ndarray, inside: np.ndarray, offline: bool, pooled: bool
) -> list[float]:
    """Row by row and query by query, with two plain lists of numbers."""
    models, rows, queries = shadows.shape
    scores = [0.0] * rows
    for query in range(queries):
        lists = {
            (row, side): [shadows[m, row, query] for m in range(models) if inside[m, row] == side]
            for row in range(rows)
            for side in (True, False)
        }
        spread = {
            side: np.sqrt(np.mean([np.var(lists[row, side], ddof=1) for row in range(rows)])) for side in (True, False)
        }
        for row in range(rows):
            fitted = {
                side: stats.norm(
                    np.mean(lists[row, side]), spread[side] if pooled else np.std(lists[row, side], ddof=1)
                )
                for side in (True, False)
            }
            value = observed[row, query]
            if offline:
                scores[row] += np.log(fitted[False].cdf(value))
            else:
                scores[row] += np.log(fitted[True].pdf(value)) - np.log(fitted[False].pdf(value))
    return scores


@pytest.mark.parametrize(("offline", "pooled"), CASES)
def test_scores_agree_with_a_computation_row_by_row(offline: bool, pooled: bool) -> None:
    observed, shadows, inside = confidences()
    scores = likelihoods(observed, shadows, inside, offline=offline, pooled=pooled)
    assert scores == pytest.approx(reference(observed, shadows, inside, offline, pooled), rel=1e-9)


def fixed_confidences(queries: int) -> tuple[np.ndarray, ...]:
    """Confidences without random numbers, in which each row is inside half of the models."""
    model, row, query = np.ogrid[:16, :5, :queries]
    inside = ((model + row) % 2 == 0)[:, :, 0]
    shadows = np.sin(1 + 3 * model + 7 * row + 11 * query) * (0.5 + row / 4) + 1.5 * inside[:, :, None]
    return np.cos(2 * row[0] + 5 * query[0]), shadows, inside


def as_others_count(shadows: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Drawn together, so that deviations with n - 1 in the denominator are those with n, which other libraries take."""
    moved = shadows.copy()
    for row in range(shadows.shape[1]):
        for side in (inside[:, row], ~inside[:, row]):
            own = shadows[side, row]
            moved[side, row] = own.mean(axis=0) + (own - own.mean(axis=0)) * np.sqrt(1 - 1 / len(own))
    return moved


TENSORFLOW_PRIVACY = {
    (2, False): [-41.825701095, -9.8424848052, -136.3683080065, -1.2546014554, -4.5537702549],
    (1, True): [1.5145523053, -4.2916075473, -20.2456497763, -0.2768411358, -8.7128431806],
}
"""By compute_score_lira of tensorflow_privacy (advanced_mia.py, means), times the queries and with our sign."""
SACRO_OFFLINE = [0.9995700622, 0.0070489412, 0.7038909148, 0.6142603291, 0.6612944017]
"""By LIRAAttack of sacroml 2.0.1, mode "offline": the probability, not its logarithm."""


@pytest.mark.parametrize(("queries", "pooled"), TENSORFLOW_PRIVACY)
def test_online_scores_are_those_of_another_library(queries: int, pooled: bool) -> None:
    observed, shadows, inside = fixed_confidences(queries)
    scores = likelihoods(observed, as_others_count(shadows, inside), inside, offline=False, pooled=pooled)
    assert scores == pytest.approx(TENSORFLOW_PRIVACY[queries, pooled], abs=1e-8)


def test_offline_scores_are_those_of_another_library() -> None:
    observed, shadows, inside = fixed_confidences(1)
    scores = likelihoods(observed, as_others_count(shadows, inside), inside, offline=True, pooled=False)
    assert np.exp(scores) == pytest.approx(SACRO_OFFLINE, abs=1e-8)


@pytest.mark.parametrize(("offline", "pooled"), CASES)
def test_auc_on_normal_confidences_is_the_known_one(offline: bool, pooled: bool) -> None:
    rng, rows, models = np.random.default_rng(3), 4000, 200
    inside = rng.permuted(np.tile([True, False], (rows, models // 2)), axis=1).T
    shadows = rng.normal(inside[:, :, None], 1.0)
    members = np.arange(rows) < rows // 2
    scores = likelihoods(rng.normal(members[:, None], 1.0), shadows, inside, offline=offline, pooled=pooled)
    assert auc(scores[members], scores[~members]) == pytest.approx(stats.norm.cdf(1 / np.sqrt(2)), abs=0.02)


def test_offline_scores_do_not_saturate_for_confident_rows() -> None:
    observed, shadows = np.array([[8.0], [9.0], [30.0]]), np.random.default_rng(0).normal(size=(10, 3, 1))
    scores = likelihoods(observed, shadows, np.zeros((10, 3), dtype=bool), offline=True, pooled=True)
    assert scores[0] < scores[1] <= scores[2]


def test_online_scores_need_shadows_inside_and_outside() -> None:
    posed = digits_game(online=False, count=2)
    assert np.isfinite(lira(posed.game, Rng(seed=0))).all()
    with pytest.raises(WrongInput, match="that saw it"):
        lira(posed.game, Rng(seed=0), offline=False)


def test_mirrored_queries_are_two_a_row() -> None:
    game = digits_game(online=False, count=2).game
    assert not np.allclose(lira(game, Rng(seed=0), mirrored=True), lira(game, Rng(seed=0)))
