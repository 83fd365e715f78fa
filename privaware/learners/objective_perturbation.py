"""Objective perturbation: logistic (or robust linear) regression with a random linear term in the objective.

The released weights are the minimiser of the sum of the losses, a ridge and a random linear term. Tables are one-hot
encoded, images flattened and texts hashed, so a row with its constant has a bounded norm. More than two classes are one
problem for each class. Regression uses the log-cosh loss, whose derivative is bounded. The norm of the gradient
certifies that the solver is near the minimiser. The remaining distance is covered by noise that costs a thousandth of
the budget (approximate minima perturbation, Iyengar et al. 2019).

Paper: Chaudhuri, Monteleoni, Sarwate 2011, Differentially Private Empirical Risk Minimization; Kifer, Smith, Thakurta
2012; Redberg, Koskela, Wang 2023, arXiv:2401.00583.
Privacy: for one row added or removed. distribution="gamma" is pure, with epsilon = 1 / noise; for one row replaced
epsilon is 2 / noise, which is the published epsilon of Chaudhuri et al. distribution="gaussian" costs (epsilon,
`delta`), except for classes with the analysis "tight": these cost a Gaussian mechanism of slightly less noise. One row
of norm at most R changes the linear term implied by any weights by at most R, and the log-determinant by at most
curvature R^2 / ridge. `analysis` says how the two changes are combined: "tight", as derived in
`_convex/objective_prices.py`, or as published: "chaudhuri" (gamma), "kifer" and "redberg" (gaussian, at the internal
`delta`). "chaudhuri" raises the ridge by its own rule. With every other analysis the ridge is at least R^2 noise, or 2
R^2 noise for a regression; "kifer" and "redberg" may raise it further. The default ridge grows with the width of a row.
A table is charged for the smallest default ridge, of rows of width 1, because an earlier release may leave fewer
columns. The number of rows is not used. The gradient that certifies a minimiser has a proven rounding error, which the
last noise covers. Weights without a certificate are refused (`_convex/solver.py`).
Use when: columns are few, or thousands of small models are wanted at once (`fit_many`). Each category has a noisy
weight, so below about epsilon 5 the model may be more accurate without columns of many categories.

>>> from privaware.schema import Column, Schema
>>> schema = Schema(columns=(Column(name="age", low=0, high=99),), classes=("no", "yes"), rows=100)
>>> ObjectivePerturbation(distribution="gamma").cost(schema, noise=2.0)
Pure(epsilon=0.5)
>>> ObjectivePerturbation(analysis="redberg", ridge=0.1)
Traceback (most recent call last):
privaware.errors.WrongInput: objective_perturbation: expected ridge above the curvature of one row...
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privaware._validate import expect, expect_between, expect_in, expect_one_of
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Approximate, Event, Gaussian, Pure
from privaware.learners import Learner
from privaware.learners._convex import objective_prices as _objective_prices
from privaware.learners._convex.bounded_rows import NORM, affine_model, default_ridge, encoded, outputs
from privaware.learners._convex.solver import LOSSES, TOLERANCE, Problems
from privaware.learners._fixed_features import feature_for
from privaware.model import Model
from privaware.noise import SMEAR, Rng
from privaware.schema import Schema

__all__ = ["ObjectivePerturbation", "PureAnalysis", "fit_many"]

NAME = "objective_perturbation"
"""Name of the learner in error messages."""

MAX_NOISE_NORM = 16.0
"""The default ridge is so large that the noise gives the weights a norm of about this at most.

docs/results/convex.md compares other values.
"""

ANALYSES = {"gamma": ("tight", "chaudhuri"), "gaussian": ("tight", "redberg", "kifer")}
"""The privacy analyses of each noise distribution."""


@dataclass(frozen=True, kw_only=True)
class ObjectivePerturbation(Learner):
    """Logistic or robust linear regression by objective perturbation.

    Parameters
    ----------
    distribution : str
        Distribution of the random linear term: "gaussian" or "gamma".
    analysis : str
        The privacy analysis: "tight" or "chaudhuri" for "gamma"; "tight", "redberg" or "kifer" for "gaussian".
    ridge : float, optional
        Ridge penalty of the sum of the losses. The analysis may raise it; by default it follows from the noise
        multiplier.
    delta : float
        The delta in the cost (epsilon, delta) of the "gaussian" distribution with the analysis "kifer" or "redberg", or
        "tight" for a regression. Otherwise `delta` is not used.
    reach : float
        Scale of residuals: the loss of a regression is log cosh(residual / reach), for targets scaled to [-1, 1]. Not
        used for classes.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    guarantee: ClassVar[str] = "(epsilon, delta), or epsilon with gamma noise"

    distribution: str = "gaussian"
    analysis: str = "tight"
    ridge: float | None = None
    delta: float = 9e-6
    reach: float = 0.5

    def __post_init__(self) -> None:
        known = "; ".join(f"{distribution}: {', '.join(names)}" for distribution, names in ANALYSES.items())
        good = self.analysis in ANALYSES.get(self.distribution, ())
        expect(good, NAME, f"a distribution and one of its analyses ({known})", (self.distribution, self.analysis))
        expect_between(NAME, 1e-6, 1e12, optional=True, ridge=self.ridge)
        expect_in(NAME, "(0, 0.1)", delta=self.delta)
        expect_between(NAME, 1e-3, 1e3, reach=self.reach)
        least = NORM**2 * LOSSES["logistic"].curvature
        if self.analysis == "redberg" and self.ridge is not None and self.ridge <= least:
            raise WrongInput(
                f"{NAME}: expected ridge above the curvature of one row, {least:g}, for the analysis "
                f"of Redberg et al., got {self.ridge!r}; raise ridge"
            )

    def cost(self, schema: Schema, noise: float) -> Event:
        return outputs(schema) * self._terms(schema, noise)[2]

    def run(self, data: Data, noise: float, rng: Rng) -> Model:
        schema, count = data.schema, outputs(data.schema)
        feature, rows, goal = encoded(data, self.reach)
        noise, ridge, event = self._terms(schema, noise)
        problems = _problems(
            rows,
            goal,
            _loss(schema),
            noise=np.full(count, noise),
            ridge=np.full(count, ridge),
            norm=np.full(count, NORM),
        )
        weights = _released(problems, self.distribution, np.full(count, noise), (event,) * count, rng)
        return affine_model(schema, feature, weights, self.reach)

    def _terms(self, schema: Schema, noise: float) -> tuple[float, float, Event]:
        """Return the noise multiplier, the ridge and the event (the privacy cost) of one problem.

        All problems have the same three values. There is one problem, or one for each class if there are more than two.
        The problems share the budget: the noise multiplier is `noise` times the number of problems for "gamma", or
        times its square root for "gaussian". The analysis "chaudhuri" raises it further, because the determinant takes
        a part of epsilon. The ridge is the setting `ridge`, or its default, raised to what the analysis requires. The
        event is for the smallest ridge of any columns that an earlier release may leave, because a run is charged
        before that release.
        """
        count, loss = outputs(schema), _loss(schema)
        multiplier = noise * (count if self.distribution == "gamma" else math.sqrt(count))
        width = feature_for(schema).width(schema) + 1
        least_width = 1 if schema.form == "table" else width
        used, charged = (self._ridge(multiplier, each) for each in (width, least_width))
        multiplier_used, ridge, _ = self._with_ridge(multiplier, used, loss)
        return multiplier_used, ridge, self._with_ridge(multiplier, charged, loss)[2]

    def _ridge(self, multiplier: float, width: int) -> float:
        """Return the ridge for rows of `width` numbers, before the analysis raises it."""
        return self.ridge or default_ridge(multiplier, width, self.distribution, MAX_NOISE_NORM)

    def _with_ridge(self, multiplier: float, ridge: float, loss: str) -> tuple[float, float, Event]:
        """Return the noise multiplier and the ridge of one problem as the analysis changes them, and its event."""
        curvature = LOSSES[loss].curvature * NORM**2
        if self.analysis == "chaudhuri":
            left, ridge = _objective_prices.chaudhuri(2 / multiplier, ridge, NORM, LOSSES[loss].curvature)
            return 2 / left, ridge, Pure(epsilon=1 / multiplier)
        ridge = max(ridge, _objective_prices.LEAST_RIDGE[loss] * NORM**2 * multiplier * (1 + 1 / SMEAR))
        if self.distribution == "gamma":
            return multiplier, ridge, Pure(epsilon=1 / multiplier)
        if self.analysis == "tight" and loss == "logistic":
            covered = _objective_prices.equivalent(multiplier, NORM**2 / ridge)
            return multiplier, ridge, Gaussian(noise=covered / math.hypot(1, 1 / SMEAR))
        rest = self.delta * (1 - 1 / SMEAR)
        if self.analysis == "kifer":
            epsilon = _objective_prices.kifer_epsilon(multiplier, rest)
            ridge = max(ridge, 2 * curvature / epsilon)
        elif self.analysis == "redberg":
            ridge = max(ridge, 4 * curvature)
            epsilon = _objective_prices.redberg_epsilon(multiplier, rest, curvature / ridge)
        else:
            epsilon = _objective_prices.gaussian_epsilon(multiplier, rest, NORM**2 / ridge, loss)
        # the noise that covers the tolerance is another Gaussian release, at delta = self.delta - rest
        epsilon += _objective_prices.plain_epsilon(SMEAR * multiplier, self.delta - rest)
        return multiplier, ridge, Approximate(epsilon=epsilon, delta=self.delta)


@dataclass(frozen=True, kw_only=True)
class PureAnalysis:
    """Which epsilon the argument `epsilons` of `fit_many` means: the neighbouring relation, and the privacy analysis.

    Parameters
    ----------
    relation : str
        The neighbouring relation that epsilon is for: "add_remove" or "replace_one".
    name : str
        "tight" for this package's analysis, or "chaudhuri" for the published one of Chaudhuri et al. 2011, which needs
        more noise.
    """

    relation: str = "add_remove"
    name: str = "tight"

    def __post_init__(self) -> None:
        expect_one_of("", ("add_remove", "replace_one"), relation=self.relation)
        expect_one_of("", ANALYSES["gamma"], name=self.name)


def fit_many(
    rows: np.ndarray,
    labels: np.ndarray,
    *,
    epsilons: Any,
    rng: Rng,
    masks: np.ndarray | None = None,
    norm: Any = 1.0,
    ridge: Any = 1.0,
    analysis: PureAnalysis | None = None,
) -> np.ndarray:
    """Fit many pure private logistic regressions to the same rows, each as a separate release; charge no ledger.

    There are as many problems as `epsilons` or, if they are more, `masks`; a single value is for all problems.

    Parameters
    ----------
    rows : numpy.ndarray
        The private rows (rows, columns), with a constant column for an intercept; non-finite entries count as 0.
    labels : numpy.ndarray
        Labels 0 and 1 (or -1 and 1): (rows,) for all problems, or (problems, rows).
    epsilons : float or array
        The epsilon of each problem, finite and above 0 (else `WrongInput`); its cost is `Pure(epsilon=epsilons[p])`.
    rng : Rng
        The source of noise.
    masks : numpy.ndarray, optional
        The columns that each problem uses, Boolean (problems, columns); by default all. Other weights are 0.
    norm : float or array
        The norm to which rows are clipped in each problem; it is declared, never computed from the rows.
    ridge : float or array
        The ridge of each problem, for the sum of the losses, not their mean; it is raised where epsilon requires it.
    analysis : PureAnalysis, optional
        The relation and the privacy analysis; by default "tight" for one row added or removed.

    Returns
    -------
    numpy.ndarray
        Weights (problems, columns). If a minimum is not certified, `Refused` is raised and nothing is released.

    >>> rows = np.random.default_rng(0).random((50, 3))
    >>> weights = fit_many(rows, rows[:, 0] > 0.5, epsilons=[1.0, 1e9], rng=Rng(seed=1), norm=2.0)
    >>> weights.shape, bool(weights[1, 0] > abs(weights[1, 1:]).max())
    ((2, 3), True)
    """
    analysis = analysis or PureAnalysis()
    epsilons = np.atleast_1d(np.asarray(epsilons, dtype=float))
    count = len(epsilons) if masks is None else max(len(masks), len(epsilons))
    epsilons, limits, ridges = (
        np.broadcast_to(np.asarray(value, dtype=float), count).copy() for value in (epsilons, norm, ridge)
    )
    if len(wrong := epsilons[~(np.isfinite(epsilons) & (epsilons > 0))]):
        raise WrongInput(f"expected every epsilon as a finite number above 0, got {wrong[0]:g}")
    shape = (count, rows.shape[1])
    masks = np.ones(shape, bool) if masks is None else np.broadcast_to(masks.astype(bool), shape)
    clean = np.nan_to_num(np.asarray(rows, dtype=float), posinf=0.0, neginf=0.0)
    one = epsilons if analysis.relation == "add_remove" else epsilons / 2
    noise, ridges = _many_terms(one, ridges, limits, analysis.name)
    goal = np.atleast_2d(np.where(np.asarray(labels) > 0, 1.0, -1.0))
    problems = _problems(clean, goal, "logistic", noise=noise, ridge=ridges, norm=limits, masks=masks)
    return _released(problems, "gamma", noise, tuple(Pure(epsilon=e) for e in one.tolist()), rng)


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
        tolerance=TOLERANCE * norm * (1 + TOLERANCE * noise * columns),  # large linear terms have large rounding errors
    )


def _released(
    problems: Problems, distribution: str, noise: np.ndarray, price: tuple[Event, ...], rng: Rng
) -> np.ndarray:
    curvature = LOSSES[problems.loss].curvature * problems.norm**2 / problems.ridge
    extra = 1 + 1 / SMEAR if distribution == "gamma" else 1.0  # for the noise that covers the tolerance
    return rng.perturb(
        problems,
        distribution=distribution,
        noise=noise * extra,
        sensitivity=problems.norm,
        volume=np.log1p(curvature),
        price=price,
    )


def _many_terms(
    epsilons: np.ndarray, ridges: np.ndarray, norms: np.ndarray, analysis: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the noise multiplier and the ridge, each (problems,), of problems under the gamma distribution.

    `epsilons` are for one row added or removed, and `norms` are the norms to which rows are clipped. `ridges` are
    raised where the `analysis` ("tight" or "chaudhuri") requires it. `_released` later multiplies the noise by 1 + 1 /
    SMEAR.
    """
    if analysis == "tight":
        return 1 / epsilons, np.maximum(ridges, norms**2 / epsilons * (1 + 1 / SMEAR))
    problems = zip(epsilons, ridges, norms, strict=True)
    terms = [_objective_prices.chaudhuri(2 * epsilon, ridge, norm) for epsilon, ridge, norm in problems]
    left, used = np.array(terms).reshape(-1, 2).T
    return 2 / left, used


def _loss(schema: Schema) -> str:
    return "logistic" if schema.classes else "logcosh"
