"""Logistic (or robust linear) regression whose objective carries a random linear term: objective perturbation.

The released weights are the exact minimiser of the losses' sum, a ridge and a random linear term. Tables
are one-hot encoded, images flattened, text hashed, so that a row with its constant has a declared
length; more than two classes are one problem each. Regression takes the log-cosh loss, whose slope is
bounded. The minimiser is certified by its gradient, and a noise of a thousandth of the price hides what
is left of it (approximate minima perturbation, Iyengar et al. 2019).

Paper: Chaudhuri, Monteleoni, Sarwate 2011, Differentially Private Empirical Risk Minimization; Kifer, Smith,
Thakurta 2012; Redberg, Koskela, Wang 2023, arXiv:2401.00583.
Privacy: one row added or removed. law="gamma": pure, epsilon = 1 / noise (twice that for a row replaced:
the published epsilon of Chaudhuri et al.). law="gaussian": a Gaussian mechanism of slightly less noise. One
row moves the vector implied by any weights by at most its length R, and the log-determinant by at most
bend R^2 / ridge; `analysis` says how the two are added up: "tight" together, as derived in `_prices.py`, or as
published: "chaudhuri" (gamma), "kifer" and "redberg" (gaussian, at the internal `delta`). The ridge is raised to
R^2 noise where a smaller one could not be paid for; the number of rows is nowhere used.
Use when: columns are few, or thousands of small models are wanted at once (`fit_many`).

>>> from privaware.schema import Column, Schema
>>> schema = Schema(columns=(Column(name="age", low=0, high=99),), classes=("no", "yes"), rows=100)
>>> Objective(law="gamma").cost(schema, noise=2.0)
Pure(epsilon=0.5)
>>> Objective(analysis="redberg", ridge=0.1)
Traceback (most recent call last):
privaware.errors.WrongInput: objective: expected ridge above the curvature of one row...
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Approximate, Event, Gaussian, Pure
from privaware.learners import Learner, _prices
from privaware.learners._affine import NORM, affine_model, goals, outputs, with_constant
from privaware.learners._convex import LOSSES, Problems
from privaware.learners._rows import feature_for, rows_of
from privaware.model import Model
from privaware.noise import SMEAR, Rng
from privaware.schema import Schema

__all__ = ["Objective", "fit_many"]

ANALYSES = {"gamma": ("tight", "chaudhuri"), "gaussian": ("tight", "redberg", "kifer")}
TOLERANCE = 1e-10
"""Gradient at which a minimiser is certified, over what rows and noise can make of one."""


@dataclass(frozen=True, kw_only=True)
class Objective(Learner):
    """`ridge` left out follows the noise; some analyses spend a `delta` inside; `reach` is for regression."""

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")

    law: str = "gaussian"
    analysis: str = "tight"
    ridge: float | None = None
    delta: float = 9e-6
    reach: float = 0.5

    def __post_init__(self) -> None:
        if self.law not in ANALYSES or self.analysis not in ANALYSES[self.law]:
            known = "; ".join(f"{law}: {', '.join(names)}" for law, names in ANALYSES.items())
            raise WrongInput(
                f"objective: expected a law and one of its analyses ({known}), got {self.law!r} and {self.analysis!r}"
            )
        if self.ridge is not None and not 1e-6 <= self.ridge <= 1e12:
            raise WrongInput(f"objective: expected ridge from 1e-6 to 1e12, got {self.ridge!r}")
        if not 0 < self.delta < 0.1 or not 1e-3 <= self.reach <= 1e3:
            raise WrongInput(
                "objective: expected delta in (0, 0.1) and reach from 0.001 to 1000, got "
                f"{self.delta!r} and {self.reach!r}"
            )
        least = NORM**2 * LOSSES["logistic"].bend
        if self.analysis == "redberg" and self.ridge is not None and self.ridge <= least:
            raise WrongInput(
                f"objective: expected ridge above the curvature of one row, {least:g}, for the analysis "
                f"of Redberg et al., got {self.ridge!r}"
            )

    def cost(self, schema: Schema, noise: float) -> Event:
        return outputs(schema) * self._terms(schema, noise)[2]

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        schema, many = data.schema, outputs(data.schema)
        feature = feature_for(schema)
        own, ridge, price = self._terms(schema, noise)
        problems = _problems(
            with_constant(rows_of(data, feature)),
            goals(data, self.reach),
            _loss(schema),
            noise=np.full(many, own),
            ridge=np.full(many, ridge),
            norm=np.full(many, NORM),
        )
        weights = _released(problems, self.law, np.full(many, own), (price,) * many, rng)
        return affine_model(schema, feature, weights, self.reach)

    def _terms(self, schema: Schema, noise: float) -> tuple[float, float, Event]:
        """For one problem: its noise, its ridge and its price."""
        many, loss = outputs(schema), _loss(schema)
        own = noise * (many if self.law == "gamma" else math.sqrt(many))
        bend = LOSSES[loss].bend * NORM**2
        ridge = self.ridge
        if ridge is None:
            ridge = default_ridge(own, NORM, feature_for(schema).width(schema) + 1, self.law)
        if self.analysis == "chaudhuri":
            left, ridge = _prices.chaudhuri(2 / own, ridge, NORM, LOSSES[loss].bend)
            return 2 / left, ridge, Pure(epsilon=1 / own)
        ridge = max(ridge, _prices.FREE[loss] * NORM**2 * own * (1 + 1 / SMEAR))
        if self.law == "gamma":
            return own, ridge, Pure(epsilon=1 / own)
        if self.analysis == "tight" and loss == "logistic":
            covered = _prices.equivalent(own, NORM**2 / ridge)
            return own, ridge, Gaussian(noise=covered / math.hypot(1, 1 / SMEAR))
        rest = self.delta * (1 - 1 / SMEAR)
        if self.analysis == "kifer":
            epsilon = _prices.kifer_epsilon(own, rest)
            ridge = max(ridge, 2 * bend / epsilon)
        elif self.analysis == "redberg":
            ridge = max(ridge, 4 * bend)
            epsilon = _prices.redberg_epsilon(own, rest, bend / ridge)
        else:
            epsilon = _prices.gaussian_epsilon(own, rest, NORM**2 / ridge, loss)
        # what hides the tolerance is a Gaussian release as well, at the rest of delta
        epsilon += _prices.plain_epsilon(SMEAR * own, self.delta - rest)
        return own, ridge, Approximate(epsilon=epsilon, delta=self.delta)


def fit_many(
    rows: np.ndarray,
    labels: np.ndarray,
    *,
    epsilons: Any,
    rng: Rng,
    masks: np.ndarray | None = None,
    norm: Any = 1.0,
    ridge: Any = 1.0,
    relation: str = "add_remove",
    analysis: str = "tight",
) -> np.ndarray:
    """Weights (problems, columns) of as many pure private logistic regressions, each a release of its own.

    Problem p sees the columns of `masks[p]` (all of them where no masks are given), its rows are shortened to
    `norm[p]`, which is declared and never read off the rows, and it costs `Pure(epsilon=epsilons[p])` for
    `relation`. `labels` are 0 and 1 (or -1 and 1), for all problems or (problems, rows). `ridge` is in sum form
    (rows x Lambda) and raised where epsilon asks for it. A constant column is the caller's to add.

    >>> drawn = np.random.default_rng(0).random((50, 3))
    >>> made = fit_many(drawn, drawn[:, 0] > 0.5, epsilons=[1.0, 1e9], rng=Rng(seed=1), norm=2.0)
    >>> made.shape, bool(made[1, 0] > abs(made[1, 1:]).max())
    ((2, 3), True)
    """
    _expect_known(relation, analysis)
    epsilons = np.atleast_1d(np.asarray(epsilons, dtype=float))
    many = len(epsilons) if masks is None else max(len(masks), len(epsilons))
    epsilons, limits, ridges = (
        np.broadcast_to(np.asarray(value, dtype=float), many).copy() for value in (epsilons, norm, ridge)
    )
    if not (np.isfinite(epsilons) & (epsilons > 0)).all():
        raise WrongInput("expected every epsilon as a finite number above 0")
    shape = (many, rows.shape[1])
    masks = np.ones(shape, bool) if masks is None else np.broadcast_to(masks.astype(bool), shape)
    clean = np.nan_to_num(np.asarray(rows, dtype=float), posinf=0.0, neginf=0.0)
    one = epsilons if relation == "add_remove" else epsilons / 2
    noise, ridges = _many_terms(one, ridges, limits, analysis)
    goal = np.atleast_2d(np.where(np.asarray(labels) > 0, 1.0, -1.0))
    problems = _problems(clean, goal, "logistic", noise=noise, ridge=ridges, norm=limits, masks=masks)
    return _released(problems, "gamma", noise, tuple(Pure(epsilon=e) for e in one.tolist()), rng)


def default_ridge(noise: float, norm: float, width: int, law: str) -> float:
    """One that keeps what the noise makes of the weights to a few units of length, and never below 1."""
    length = noise * norm * (width if law == "gamma" else math.sqrt(width))
    return max(1.0, length / LENGTH)


LENGTH = 16.0
"""How long noise alone may make the weights: one constant for all data, the best mean of 2, 4, 8, 16 and 32 on held-out
training rows of five public data sets (`benchmarks.convex lengths`, docs/results/convex.md)."""


def _problems(
    rows: np.ndarray,
    goal: np.ndarray,
    loss: str,
    *,
    noise: np.ndarray,
    ridge: np.ndarray,
    norm: np.ndarray,
    masks: np.ndarray | None = None,
) -> Problems:
    columns = rows.shape[1]
    return Problems(
        rows=rows,
        targets=goal,
        loss=loss,
        ridge=ridge,
        norm=norm,
        masks=np.ones((len(ridge), columns), bool) if masks is None else masks,
        tolerance=TOLERANCE * norm * (1 + noise * columns),
    )


def _released(problems: Problems, law: str, noise: np.ndarray, price: tuple[Event, ...], rng: Rng) -> np.ndarray:
    bend = LOSSES[problems.loss].bend * problems.norm**2 / problems.ridge
    extra = 1 + 1 / SMEAR if law == "gamma" else 1.0  # pays for the noise that hides the tolerance
    return rng.perturb(
        problems, law=law, noise=noise * extra, sensitivity=problems.norm, volume=np.log1p(bend), price=price
    )


def _many_terms(
    epsilons: np.ndarray, ridges: np.ndarray, norms: np.ndarray, analysis: str
) -> tuple[np.ndarray, np.ndarray]:
    """Noise and ridge of pure problems, for one row added or removed; `_released` draws 1 / SMEAR more noise."""
    if analysis == "tight":
        return 1 / epsilons, np.maximum(ridges, norms**2 / epsilons * (1 + 1 / SMEAR))
    known = zip(epsilons, ridges, norms, strict=True)
    terms = [_prices.chaudhuri(2 * epsilon, ridge, norm) for epsilon, ridge, norm in known]
    left, used = np.array(terms).reshape(-1, 2).T
    return 2 / left, used


def _loss(schema: Schema) -> str:
    return "logistic" if schema.classes else "logcosh"


def _expect_known(relation: str, analysis: str) -> None:
    if relation not in ("add_remove", "replace_one") or analysis not in ANALYSES["gamma"]:
        raise WrongInput(
            "expected relation add_remove or replace_one and analysis tight or chaudhuri, got "
            f"{relation!r} and {analysis!r}"
        )
