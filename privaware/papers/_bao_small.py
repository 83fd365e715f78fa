"""Small items of Bao et al.: synthetic examples, text messages, medical cost, and what is only computed."""

from __future__ import annotations

import numpy as np

from privaware.papers import Result, Settings
from privaware.papers._results import table
from privaware.papers._runner import Bench
from privaware.studies.feature_cost import feature_cost, worth


def lemma(bench: Bench, settings: Settings) -> Result:
    """Lemma 1: how often the printed bound misses that dropping helps; Corollary 1: the exact threshold."""
    rng, draws = np.random.default_rng(0), settings["draws"]
    missed = dropped = wrong = 0
    for _ in range(draws):
        theta, x = rng.normal(size=5), rng.normal(size=5)
        target = float(theta @ x + rng.normal())
        cost = feature_cost(theta.tolist(), x.tolist(), target, noise=1.0)
        dropped += cost.drop
        missed += cost.drop and not cost.sufficient
        wrong += cost.sufficient and not cost.drop
    lines = []
    for epsilon in (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0):
        sizes = worth(epsilon, 1e-5)
        lines.append([f"{epsilon:g}", f"{sizes['exact']:.4g}", f"{sizes['printed']:.4g}"])
    head = ["epsilon", "exact Gaussian mechanism", "as printed"]
    return {
        "tables": [
            table("Corollary 1 at delta 1e-5 and sensitivity 1: a coefficient must be larger than", head, lines)
        ],
        "words": [
            f"Of {draws:,} random rows (five normal features, normal residual, noise 1) dropping the last one "
            f"helps in {dropped:,}; the printed bound misses {missed:,} of them, and {wrong} times it says drop "
            "where keeping is better."
        ],
    }
