"""DPMLBench's algorithms that are settings of one private descent, on a part of MNIST."""

from __future__ import annotations

import numpy as np
import pytest

from privaware import accounting
from privaware.learners._networks.training import MomentumNetwork
from privaware.learners.dpsgd import DpSgd
from privaware.learners.focal import Focal
from privaware.learners.hand_dp import HandDp
from privaware.learners.majority import Majority
from privaware.learners.noise_decay import NoiseDecay
from privaware.learners.quantile_clip import QuantileClip
from privaware.learners.tanh import Tanh
from privaware.metrics import accuracy
from privaware.noise import Rng
from tests.learners.mnist_subset import mnist

SMALL = {"name": "fcn", "hidden": [32], "activation": "relu", "dropout": 0.0}
PRESETS = [
    DpSgd(epochs=4, batch=300, architecture=SMALL),
    Tanh(epochs=4, batch=300, architecture=SMALL),
    Focal(epochs=4, batch=300, architecture=SMALL),
    NoiseDecay(epochs=4, batch=300, architecture=SMALL),
    QuantileClip(epochs=4, batch=300, architecture=SMALL),
    HandDp(epochs=4, batch=300),
]


@pytest.mark.parametrize("learner", PRESETS, ids=[type(preset).__name__ for preset in PRESETS])
def test_mnist_accuracy_beats_the_constant_at_epsilon_eight(learner: MomentumNetwork) -> None:
    """Mean of three seeds, trained as one population."""
    train, test = mnist(2000, held_out=500)
    noise = accounting.calibrate(lambda noise: learner.cost(train.schema, noise), 8.0, 1e-5)
    models = learner.run_population([learner] * 3, train, noise, Rng(seed=0))
    constant = accuracy(test.y, Majority().run(train, 0.125, Rng(seed=0)).predictions(test))
    assert np.mean([accuracy(test.y, model.predictions(test)) for model in models]) > constant + 0.35
