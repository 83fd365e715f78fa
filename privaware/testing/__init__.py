"""Check that your own mechanisms, learners, selectors, strategies and attacks keep the promises of their contract.

>>> import numpy as np
>>> from privaware.events import Gaussian
>>> class Count:
...     "How many rows there are, with noise."
...     def cost(self, schema, noise):
...         return Gaussian(noise=noise)
...     def run(self, data, noise, rng):
...         return rng.gaussian(float(len(data)), noise=noise, sensitivity=1.0)
>>> check_mechanism(Count(), games=100) <= 1.0
True

A broken promise raises an AssertionError whose message names the promise:

>>> class Exact(Count):
...     def run(self, data, noise, rng):
...         return len(data) + 0 * rng.gaussian(0.0, noise=noise, sensitivity=1.0)
>>> check_mechanism(Exact())
Traceback (most recent call last):
privaware.testing.BrokenPromise: Exact: the same release for different seeds...
"""

from privaware.testing._attack import check_attack
from privaware.testing._call import BrokenPromise
from privaware.testing._check import check_mechanism
from privaware.testing._game import canary_game, failure_game
from privaware.testing._learner import check_learner
from privaware.testing._price import spent
from privaware.testing._release import released_numbers
from privaware.testing._replay import Replay, record, replay
from privaware.testing._rows import example, extremes, neighbours, rows_for
from privaware.testing._selector import check_selector
from privaware.testing._strategy import check_strategy
from privaware.testing._tape import Recorder, Replayer
from privaware.testing._transcript import privacy_losses, redrawn_losses, transcript_game

__all__ = [
    "BrokenPromise",
    "Recorder",
    "Replay",
    "Replayer",
    "canary_game",
    "check_attack",
    "check_learner",
    "check_mechanism",
    "check_selector",
    "check_strategy",
    "example",
    "extremes",
    "failure_game",
    "neighbours",
    "privacy_losses",
    "record",
    "redrawn_losses",
    "released_numbers",
    "replay",
    "rows_for",
    "spent",
    "transcript_game",
]
