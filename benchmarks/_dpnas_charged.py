"""Digits under one budget: does a search that is charged pay?"""

from __future__ import annotations

from typing import Any

import numpy as np

from privaware import models
from privaware.models.dpnas import OPERATIONS
from privaware.models.spaces import Space
from privaware.workflow.fit import fit
from privaware.workflow.search import search


def charged(what: str, epsilon: float, seed: int) -> dict[str, Any]:
    """Digits within one budget: a search and its training, both charged, or a cell at random with all of the budget."""
    network = {"channels": [8], "squeeze": 8, "hidden": 16, "groups": 4}
    edges = ["edge_0_1", "edge_0_2", "edge_1_2"]
    cell = [f"${edge}" for edge in edges]
    built = {"name": "dpnas", "activation": "selu", **network, "cell": cell}
    recipe = {"architecture": built, "norm": 0.5, "lr": 2.0, "batch": 128, "epochs": 8.0}
    space = Space.load({"choices": {edge: list(OPERATIONS) for edge in edges}, "build": recipe})
    if what == "search":
        options = {
            "epochs": 8,
            "warm_up": 4,
            "rate": 0.1,
            "updates": 1,
            "lr": 4.0,
            "reward_noise": 4.0,
            "derived": 6,
            "nodes": 2,
            "network": network,
        }
        given = {"space": space, "strategy": "dpnas", "options": options, "held_out": 0.3}
        result: Any = search("digits", epsilon=epsilon, seed=seed, **given)
        point = result.best
    else:
        point = space.draw(np.random.default_rng(seed))
        result = fit("digits", epsilon=epsilon, seed=seed, learner="dpsgd", settings=space.settings(point))
    scores = [result.internal["test_score"]]
    size = models.count({**space.settings(point)["architecture"], "inputs": [1, 8, 8], "outputs": 10})
    return {"data": "digits", "seed": seed, "accuracy": scores, "cell": point, "parameters": size}
