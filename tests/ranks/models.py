"""Models of learners and rows of features that one process and several processes repeat bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privaware import features
from privaware.data import Data
from privaware.learners._fixed_features import rows_after
from privaware.noise import Rng
from privaware.testing import rows_for
from tests.learners.test_every_learner import IMAGE, LEARNERS
from tests.learners.tiny_prior import tiny_prior

ON_RANKS = [name for name, (learner, _) in LEARNERS.items() if getattr(learner, "on_ranks", False)]
FEATURES = {"scatter": {"name": "scatter", "J": 1, "L": 2}, "prior": {"name": "prior"} | tiny_prior()}


def images(count: int) -> Data:
    return rows_for(replace(IMAGE, rows=count), count, seed=2)


def of(name: str) -> dict[str, bytes]:
    """The tensors of a learner's model, or the rows of a feature."""
    if name in FEATURES:
        return {name: rows_after((features.build(FEATURES[name]),), images(300)).tobytes()}
    learner, schema = LEARNERS[name]
    released = learner.run(rows_for(schema, 40, seed=1), 1.0, Rng(5))
    return {key: np.asarray(value).tobytes() for key, value in released.tensors.items()}
