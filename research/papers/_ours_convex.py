"""The price of objective perturbation beside exact densities, published bounds and membership games; its constants.

Densities are written down here once more, apart from the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from privaware.bench import Result, Settings
from privaware.noise import Rng
from research.papers._prices import least
from research.papers._runner import Bench

__all__ = ["LENGTHS", "constants", "lengths", "prices"]

NORM = 2.0
LENGTHS = {
    "objective_perturbation": (2.0, 4.0, 8.0, 16.0, 32.0),
    "output_perturbation": (0.5, 1.0, 1.5, 3.0, 6.0),
    "iteration_amplification": (0.5, 1.0, 2.0, 4.0, 8.0),
}
"""How long noise may make the weights: the values tried."""


@dataclass(frozen=True)
class Release:
    """A logistic regression by objective perturbation, with gamma or Gaussian noise, on rows of length `norm`."""

    distribution: str
    noise: float
    ridge: float
    norm: float = NORM

    def log_density(self, w: np.ndarray, rows: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """Of releases (many, columns), but for a constant that no row changes."""
        wrong = 1 / (1 + np.exp(np.clip((w @ rows.T) * signs, -700, 700)))
        b = (wrong * signs) @ rows - self.ridge * w
        hessian = np.einsum("ni,ij,ik->njk", wrong * (1 - wrong), rows, rows) + self.ridge * np.eye(w.shape[1])
        length = np.linalg.norm(b, axis=1) / (self.noise * self.norm)
        tail = length if self.distribution == "gamma" else length**2 / 2
        return np.asarray(np.log(np.linalg.det(hessian)) - tail)

    def worlds(self, columns: int) -> list[list[tuple[np.ndarray, np.ndarray]]]:
        """Without and with the canary (first axis) beside: no row, one against it, three alike, three across."""
        along, across = (np.eye(columns)[at] * self.norm for at in (0, -1))
        others = [
            (np.zeros((0, columns)), np.zeros(0)),
            (along[None], np.array([-1.0])),
            (np.tile(along, (3, 1)), np.ones(3)),
            (np.tile(across, (3, 1)), np.array([1.0, -1.0, 1.0])),
        ]
        return [[(x, y), (np.concatenate([x, along[None]]), np.append(y, 1.0))] for x, y in others]

    def exact(self, columns: int) -> Callable[[float], float]:
        """delta(epsilon) by quadrature: the worse direction of the worst of `worlds`."""
        line = np.linspace(-1, 1, 100_001 if columns == 1 else 801)
        line = (
            (45 if self.distribution == "gamma" else 10)
            * (self.noise + 0.5)
            * self.norm
            / self.ridge
            * line
            * np.abs(line)
        )
        step = np.gradient(line)
        w = line[:, None]
        if columns == 2:
            w = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
            step = np.outer(step, step).ravel()
        pairs = []
        for both in self.worlds(columns):
            logs = [self.log_density(w, x, y) for x, y in both]
            mass = [np.exp(each - logs[0].max()) * step for each in logs]
            pairs.append([m / m.sum() for m in mass])
        return lambda epsilon: max(
            float(np.maximum(p - np.exp(epsilon) * q, 0).sum()) for pair in pairs for p, q in (pair, pair[::-1])
        )

    def exact_epsilon(self, columns: int, delta: float) -> float:
        curve = self.exact(columns)
        return least(lambda epsilon: curve(epsilon) <= delta, 1e-3, 1e3, 1e-4)

    def played(self, columns: int, delta: float, games: int) -> float:
        """What real runs of our solver and generator prove, scored by the exact ratio of densities: the best world."""
        from privaware.attacks._bounds import epsilon_lower
        from privaware.events import NOTHING
        from privaware.learners import objective_perturbation as learner

        each = {"noise": np.full(games, self.noise), "ridge": np.full(games, self.ridge)}
        best = 0.0
        for at, both in enumerate(self.worlds(columns)):
            scores = []
            for turn, (x, y) in enumerate(both):
                problems = learner._problems(x, y[None], "logistic", **each, norm=np.full(games, self.norm))
                rng, free = Rng(seed=10 * at + turn), (NOTHING,) * games  # the price is for the recorder of tests only
                released = learner._released(problems, self.distribution, each["noise"], free, rng)
                without, with_canary = (self.log_density(released, *world) for world in both)
                scores.append(with_canary - without)
            best = max(best, epsilon_lower(scores[1], scores[0], delta=delta, confidence=0.999))
        return best


def prices(bench: Bench, settings: Settings) -> Result:
    """Our price at one noise and ridge beside the published bounds, the exact value and what games prove."""
    from privaware.learners._convex import objective_prices as _objective_prices

    noise, ridge, games = settings["noise"], settings["ridge"], settings["games"]
    release, bound = Release(settings["distribution"], noise, ridge), NORM**2 / ridge
    if settings["distribution"] == "gamma":
        result = {
            "ours": _objective_prices.pure_epsilon(noise, bound),
            "published": 1 / noise + float(np.log1p(bound / 4)),
        }
        result |= {f"exact {c}": release.exact_epsilon(c, 1e-12) for c in (1, 2)}
        return result | {f"played {c}": release.played(c, 0.0, games) for c in (1, 2)}
    delta, seen_at = 1e-5, 0.01
    covered, kifer = _objective_prices.equivalent(noise, bound), _objective_prices.kifer_epsilon(noise, delta)
    return {
        "ours": _objective_prices.plain_epsilon(covered, delta),
        "plain Gaussian": _objective_prices.plain_epsilon(noise, delta),
        "Redberg": _objective_prices.redberg_epsilon(noise, delta, bound / 4) if bound < 4 else None,
        "Kifer": kifer if ridge >= 2 * NORM**2 / 4 / kifer else None,
        **{f"exact {c}": release.exact_epsilon(c, delta) for c in (1, 2)},
        "ours at 0.01": _objective_prices.plain_epsilon(covered, seen_at),
        "exact at 0.01": release.exact_epsilon(1, seen_at),
        **{f"played {c}": release.played(c, seen_at, games) for c in (1, 2)},
    }


def constants(bench: Bench, settings: Settings) -> Result:
    """The right constants and wrong ones, where epsilon 1 is claimed: would a game see them?"""
    from privaware.learners._convex import objective_prices as _objective_prices

    noise, ridge, norm = 1.0, 25.0, 5.0
    left, used = _objective_prices.chaudhuri(2.0, 1.0, float(np.sqrt(norm)))
    chosen = {
        "right": (noise, ridge),
        "half the noise": (noise / 2, ridge),
        "noise not scaled by the norm": (noise / norm, ridge),
        "norm not squared": (2 / left, used),
    }
    release = Release("gamma", *chosen[settings["constants"]], norm)
    return {"exact": release.exact_epsilon(1, 1e-12), "played": release.played(1, 0.0, settings["games"])}


def lengths(bench: Bench, settings: Settings) -> Result:
    """Held-out accuracy (for numbers: minus the mean absolute error over the range) by constant, on training rows."""
    from privaware import datasets, registry

    name, epsilon = settings["learner"], settings["epsilon"]
    learner = registry.find("learners", name)()
    module = import_module(f"privaware.learners.{name}")
    train = datasets.load(settings["data"]).train
    count = min(len(train.y), 4000 if settings["data"] == "mnist" else 8000)
    fits, held_out = train.take(np.arange(3 * count // 4)), train.take(np.arange(3 * count // 4, count))
    fits = replace(fits, schema=replace(fits.schema, rows=len(fits)))
    key = f"lengths {name} {settings['data']} {epsilon:g}"
    noise = bench.prices.calibrated(key, lambda noise: learner.cost(fits.schema, noise), epsilon)
    if bench.dry:
        return {}
    scores, default = [], module.MAX_NOISE_NORM
    try:
        for value in LENGTHS[name]:
            module.MAX_NOISE_NORM = value  # type: ignore[attr-defined]
            models = (learner.run(fits, noise, Rng(seed=seed)) for seed in range(3))
            scores.append(100 * float(np.mean([_score(model, held_out) for model in models])))
    finally:
        module.MAX_NOISE_NORM = default  # type: ignore[attr-defined]
    return {"scores": scores}


def _score(model: Any, held_out: Any) -> float:
    predictions = model.predictions(held_out)
    if held_out.schema.classes:
        return float((predictions == held_out.y).mean())
    return -float(np.abs(predictions - held_out.y).mean() / (held_out.schema.high - held_out.schema.low))
