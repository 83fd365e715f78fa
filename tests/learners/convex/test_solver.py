"""The batched solver finds what one problem at a time finds, by every one of its ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from privaware.errors import Refused, WrongInput
from privaware.learners._convex import problems as _convex_problems
from privaware.learners._convex import solver as _convex_solver
from privaware.learners._convex.solver import LOSSES, Problems, solve


def random_problems(seed: int, *, rows: int = 30, columns: int = 5, many: int = 4, loss: str = "logistic") -> Any:
    rng = np.random.default_rng(seed)
    masks = rng.random((many, columns)) < 0.7
    problems = Problems(
        rows=rng.standard_normal((rows, columns)),
        targets=np.where(rng.random((many, rows)) < 0.5, 1.0, -1.0),
        loss=loss,
        ridge=10.0 ** rng.uniform(-2, 2, many),
        masks=masks,
        norm=rng.uniform(0.5, 3.0, many),
        tolerance=np.full(many, 1e-10),
    )
    return problems, rng.standard_normal((many, columns)) * 10.0 ** rng.uniform(-1, 2) * masks


def slow(problems: Problems, tilt: np.ndarray, at: int) -> np.ndarray:
    """One problem on its own columns and shortened rows, by a root finder on the gradient."""
    mask, loss = problems.masks[at], LOSSES[problems.loss]
    x = problems.lattice_rows[:, mask]
    length = np.linalg.norm(x, axis=1, keepdims=True)
    x = x * np.minimum(1, problems.norm[at] / np.maximum(length, 1e-300))
    y, ridge = problems.targets[at], problems.ridge[at]

    def gradient(w: np.ndarray) -> np.ndarray:
        return loss.slopes(x @ w, y)[0] @ x + ridge * w + tilt[at][mask]

    def hessian(w: np.ndarray) -> np.ndarray:
        return (x * loss.slopes(x @ w, y)[1][:, None]).T @ x + ridge * np.eye(x.shape[1])

    def value(w: np.ndarray) -> float:
        return float(loss.value(x @ w, y).sum() + ridge / 2 * w @ w + tilt[at][mask] @ w)

    full = np.zeros(len(mask))
    if not mask.any():
        return full
    near = optimize.minimize(value, np.zeros(x.shape[1]), jac=gradient, hess=hessian, method="trust-exact").x
    full[mask] = optimize.root(gradient, near, jac=hessian, tol=1e-14).x
    return full


@pytest.mark.parametrize("loss", LOSSES)
@given(seed=st.integers(0, 10**6), rows=st.integers(0, 40), columns=st.integers(1, 7))
@settings(max_examples=15, deadline=None)
def test_minimisers_equal_those_of_scipy(loss: str, seed: int, rows: int, columns: int) -> None:
    problems, tilt = random_problems(seed, rows=rows, columns=columns, loss=loss)
    solutions = solve(problems, tilt)
    for at in range(len(solutions)):
        expected = slow(problems, tilt, at)
        assert np.abs(solutions[at] - expected).max(initial=0) <= 1e-8 * (1 + np.abs(expected).max(initial=0))


@pytest.mark.parametrize(
    "change", [{"MAX_COLUMN_PRODUCTS": 0}, {"MAX_HESSIAN_COLUMNS": 0}, {"MAX_MARGINS_PER_GROUP": 60}]
)
def test_direct_and_conjugate_steps_reach_the_same_minimiser(change: dict[str, int], monkeypatch: Any) -> None:
    """Shared Hessians and conjugate gradients, no Hessian at all, many groups."""
    problems, tilt = random_problems(3, rows=60, many=9)
    usual = solve(problems, tilt)
    for name, value in change.items():
        owner = _convex_solver if hasattr(_convex_solver, name) else _convex_problems
        monkeypatch.setattr(owner, name, value)
    fresh, _ = random_problems(3, rows=60, many=9)
    assert np.abs(solve(fresh, tilt) - usual).max() < 1e-8


def test_implied_tilt_certifies_the_gradient_at_the_minimiser() -> None:
    problems, tilt = random_problems(5, rows=200, columns=12, many=50)
    implied, volume = problems.implied(solve(problems, tilt))
    assert np.linalg.norm(implied - tilt, axis=1).max() <= 1.01e-10
    assert np.isfinite(volume).all()


def test_ill_conditioned_problems_converge() -> None:
    """Equal columns, a tilt of millions and separable rows with hardly any ridge."""
    x = np.repeat(np.random.default_rng(0).standard_normal((50, 1)), 4, axis=1)
    problems = Problems(
        rows=x,
        targets=np.sign(x[:, :1]).T,
        loss="logistic",
        ridge=np.array([1e-6, 1e-3, 1.0]),
        masks=np.ones((3, 4), bool),
        norm=np.full(3, 100.0),
        tolerance=np.array([1e-10, 1e-6, 1e-3]),
    )
    tilt = np.array([[0.0] * 4, [1e3, -1e3, 0, 0], [1e6, 1e6, -1e6, 1e6]])
    implied, _ = problems.implied(solve(problems, tilt))
    assert (np.linalg.norm(implied - tilt, axis=1) <= 1.1 * problems.tolerance).all()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_gradient_steps_solve_what_newton_leaves_unsolved(loss: str, steps: int) -> None:
    """Whether Newton's steps suffice depends on rows, so it may not be told by an error, nor by the distance left."""
    problems, tilt = random_problems(3, rows=60, many=9)
    problems = Problems(**{**vars_of(problems), "loss": loss})
    short, long = solve(problems, tilt, steps=steps), solve(problems, tilt)
    assert (np.linalg.norm(short - long, axis=1) <= 2 * problems.slack).all()


def test_rows_are_clipped_to_the_declared_norm() -> None:
    problems, tilt = random_problems(7, many=2)
    longer = problems.rows * np.where(np.arange(30) == 4, 1e6, 1.0)[:, None]
    at_the_limit = Problems(**{**vars_of(problems), "rows": longer, "norm": np.full(2, 0.1)})
    usual = Problems(**{**vars_of(problems), "norm": np.full(2, 0.1)})
    assert np.abs(solve(at_the_limit, tilt) - solve(usual, tilt)).max() < 1e-9


def test_shapes_that_do_not_fit_are_refused() -> None:
    problems, _ = random_problems(1)
    with pytest.raises(WrongInput, match="expected masks"):
        Problems(**{**vars_of(problems), "masks": problems.masks[:, 1:]})
    with pytest.raises(WrongInput, match="expected ridge above 0"):
        Problems(**{**vars_of(problems), "ridge": 0 * problems.ridge})


def certified_error(rows: int, loss: str) -> float:
    """The largest error of the certified gradient, against 120 bits."""
    from mpmath import mp, mpf, tanh

    rng = np.random.default_rng(0)
    problems = Problems(
        rows=rng.uniform(0.5, 0.7, (rows, 2)),  # one sign, so that sums grow and lose bits
        targets=np.full((1, rows), -1.0),
        loss=loss,
        ridge=np.array([1e-3]),
        masks=np.ones((1, 2), bool),
        norm=np.array([0.8]),
        tolerance=np.array([1e-6]),
    )
    group, weights = _convex_problems.ProblemGroup(problems, np.array([0])), np.array([[0.3, 0.1]])
    mp.prec = 120
    sums = [mpf(0), mpf(0)]
    scales = np.broadcast_to(group.scale, (1, rows))[0].tolist()
    for x, scale in zip(problems.lattice_rows.tolist(), scales, strict=True):
        margin = (mpf(x[0]) * mpf(0.3) + mpf(x[1]) * mpf(0.1)) * mpf(scale)
        slope = 1 / (1 + mp.exp(-margin)) if loss == "logistic" else tanh(margin + 1)
        sums = [total + slope * mpf(scale) * mpf(entry) for total, entry in zip(sums, x, strict=True)]
    certified = group.certified(weights, -1e-3 * weights)[0]
    return max(abs(float(mpf(value) - total)) for value, total in zip(certified, sums, strict=True))


@pytest.mark.parametrize("loss", ["logistic", "logcosh"])
def test_p39_certified_gradient_errs_by_less_than_the_slack(loss: str) -> None:
    assert certified_error(600, loss) <= 600 * 2.0**-49 * 0.8


def test_p39_certified_gradient_does_not_depend_on_row_order() -> None:
    problems, tilt = random_problems(11, rows=3000, columns=6, many=3)
    order = np.random.default_rng(1).permutation(3000)
    other = Problems(**{**vars_of(problems), "rows": problems.rows[order], "targets": problems.targets[:, order]})
    weights = solve(problems, tilt)
    one, two = (_convex_problems.ProblemGroup(p, np.arange(3)).certified(weights, tilt) for p in (problems, other))
    assert np.array_equal(one, two)
    plain = [p.implied(weights)[0] for p in (problems, other)]
    assert not np.array_equal(*plain)  # products in float64 do depend on it
    assert (np.linalg.norm(one, axis=1) <= problems.tolerance).all()


def vars_of(problems: Problems) -> dict[str, Any]:
    return {
        name: getattr(problems, name) for name in ("rows", "targets", "loss", "ridge", "masks", "norm", "tolerance")
    }


@pytest.mark.parametrize("rows", [3, 40_000])
def test_hessians_have_one_precision_for_any_number_of_rows(rows: int) -> None:
    """The number of rows is private: it must not decide with how many bits a step is computed."""
    problems, _ = random_problems(3, rows=rows)
    group = _convex_problems.ProblemGroup(problems, np.arange(4))
    curvature = np.ones((4, rows))
    assert group.hessians(curvature).dtype == group.take(np.arange(4) == 0).hessians(curvature[:1]).dtype == float


def test_singular_matrices_raise_no_error() -> None:
    singular = np.zeros((2, 3, 3))
    singular[:, 0, 0] = 1.0
    assert np.isfinite(_convex_solver._solution(singular, np.ones((2, 3, 1)))).all()


def test_weights_without_a_certificate_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    problems, tilt = random_problems(3)
    monkeypatch.setattr(_convex_solver._State, "gradient_steps", lambda self: None)
    with pytest.raises(Refused, match="certified to be near the minimiser"):
        solve(problems, tilt, steps=1)


HOSTILE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "extreme": lambda x: x * 10.0 ** np.random.default_rng(1).integers(-300, 300, x.shape),
    "one huge row": lambda x: np.concatenate([x[:-1], np.full((1, x.shape[1]), 1e300)]),
    "duplicated columns": lambda x: np.repeat(x[:, :1], x.shape[1], axis=1),
    "zeros": np.zeros_like,
    "separable": lambda x: np.abs(x),
}


@pytest.mark.parametrize("loss", ["logistic", "logcosh"])
@pytest.mark.parametrize("ridge", [1e-3, 1.0, 1e12])
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_row_moves_a_minimiser_within_the_claim(kind: str, ridge: float, loss: str) -> None:
    """The bound of output perturbation: the norm of a row over the ridge, and two slacks."""
    x = HOSTILE[kind](np.random.default_rng(0).standard_normal((60, 4)))
    y = np.ones((1, 60))
    y[0, -1] = -1.0
    settings: dict[str, Any] = {"loss": loss, "ridge": np.array([ridge]), "norm": np.array([1.4])}
    settings |= {"masks": np.ones((1, 4), bool), "tolerance": np.array([1.4 * _convex_solver.TOLERANCE])}
    both = [Problems(rows=x[:end], targets=y[:, :end], **settings) for end in (60, 59)]
    weights = [solve(problems, np.zeros((1, 4))) for problems in both]
    lengths = [
        float(np.linalg.norm(_convex_problems.ProblemGroup(problems, np.array([0])).certified(each, np.zeros((1, 4)))))
        for problems, each in zip(both, weights, strict=True)
    ]
    assert max(lengths) <= both[0].tolerance[0]
    assert np.linalg.norm(weights[0] - weights[1]) <= 1.4 / ridge + 2 * both[0].slack[0]
