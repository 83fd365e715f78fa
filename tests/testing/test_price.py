"""The event that recorded calls compose to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privaware.data import Data
from privaware.errors import Refused
from privaware.events import NOTHING, Gaussian, Laplace, Pure, RandomisedResponse, Sampled, Selected
from privaware.noise import Rng
from privaware.testing import Recorder, check_mechanism, spent
from privaware.testing._call import Call


@given(rates=st.lists(st.sampled_from([0.1, 0.25, 1.0]), min_size=1, max_size=5), noise=st.floats(0.5, 8.0))
def test_recorded_calls_of_descent_compose_to_its_cost(rates: list[float], noise: float) -> None:
    rng = Recorder(0)
    for rate in rates:
        rng.poisson(9, rate)
        rng.gaussian(np.zeros(3), noise=noise, sensitivity=1.0)
    expected = NOTHING
    for rate in dict.fromkeys(rates):
        expected = expected + rates.count(rate) * Gaussian(noise=noise).sampled(rate=rate)
    assert spent(rng.calls) == expected


def test_two_releases_on_one_sample_are_one_sampled_event() -> None:
    rng = Recorder(0)
    rng.poisson(9, 0.1)
    rng.gaussian(0.0, noise=3.0, sensitivity=1.0)
    rng.gaussian(0.0, noise=4.0, sensitivity=1.0)
    assert spent(rng.calls) == Sampled(event=Gaussian(noise=2.4), rate=0.1)
    assert spent(rng.calls, unsampled={2}) == Gaussian(noise=4.0) + Gaussian(noise=3.0).sampled(0.1)


def test_releases_before_any_sample_are_not_amplified() -> None:
    rng = Recorder(0)
    rng.laplace(0.0, noise=3.0, sensitivity=1.0)
    rng.choose(np.zeros(3), epsilon=0.5, sensitivity=1.0)
    assert spent(rng.calls) == Laplace(noise=3.0) + Pure(epsilon=0.5)


def test_responses_among_candidates_cost_all_of_epsilon() -> None:
    """With two candidates a response of three classes loses epsilon as one of two classes does."""
    everything = np.ones((4, 3), dtype=bool)
    rng = Recorder(0)
    rng.respond(np.zeros(4, dtype=int), epsilon=0.5, classes=3, candidates=everything)
    rng.respond(np.zeros(4, dtype=int), epsilon=0.5, classes=3, candidates=np.arange(3) < [[3], [3], [2], [3]])
    assert spent(rng.calls) == RandomisedResponse(epsilon=0.5, classes=3) + Pure(epsilon=0.5)


def test_release_on_several_samples_is_sampled_at_their_union() -> None:
    rng = Recorder(0)
    for _ in range(3):
        rng.poisson(9, 0.2)
    rng.gaussian(0.0, noise=3.0, sensitivity=1.0)
    priced = spent(rng.calls)
    assert isinstance(priced, Sampled)
    assert priced.rate == pytest.approx(0.6)


def test_private_selection_is_not_composed_call_by_call() -> None:
    @dataclass(frozen=True)
    class Best:
        def cost(self, schema: Any, noise: float) -> Any:
            return Selected(event=Gaussian(noise=noise), distribution="logarithmic", mean=3.0)

        def run(self, data: Data, noise: float, rng: Rng) -> Any:
            tried = 1 + int(rng.initial.integers(4))
            return max(rng.gaussian(float(len(data)), noise=noise, sensitivity=1.0) for _ in range(tried))

    assert check_mechanism(Best(), games=50) <= 1


def test_call_of_an_unknown_kind_has_no_price() -> None:
    call = Call(kind="cauchy", public={"noise": 1.0, "sensitivity": 1.0}, exact=np.zeros(1), returned=np.zeros(1))
    with pytest.raises(Refused, match="got 'cauchy'"):
        spent([call])
