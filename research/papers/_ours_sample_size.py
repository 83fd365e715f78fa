"""What more rows and a larger epsilon are worth: the learner `linear` on parts of public data sets.

A part is the first rows of a fixed public order, declared as the number of rows there are, so that noise and step size
follow it as they would for a smaller data set. Test rows are the official ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privaware import accounting, datasets
from privaware.bench import Result, Settings
from privaware.learners import find_learner
from privaware.metrics import accuracy
from privaware.noise import Rng
from research.papers._runner import Bench

__all__ = ["scores"]

DELTA = 1e-5


def scores(bench: Bench, settings: Settings) -> Result:
    """Test accuracy of `linear` at one number of rows and one epsilon, for each seed."""
    loaded = datasets.load(settings["data"])
    rows = min(settings["rows"], len(loaded.train))
    part = loaded.train.take(np.random.default_rng(0).permutation(len(loaded.train))[:rows])
    part = replace(part, schema=replace(loaded.train.schema, rows=rows))
    learner, test = find_learner("linear")(), loaded.test
    noise = accounting.calibrate(lambda noise: learner.cost(part.schema, noise), settings["epsilon"], DELTA)
    models = [learner.run(part, noise, Rng(seed)) for seed in range(settings["seeds"])]
    measured = [accuracy(test.y, model.predictions(test)) for model in models]
    constant = float(np.mean(test.y == np.bincount(part.y).argmax()))
    return {"scores": [round(score, 4) for score in measured], "constant": round(constant, 4)}
