"""Record and replay: samples agree on common rows, and distances are measured in the norm of the noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware.data import Data
from privaware.events import NOTHING
from privaware.noise import Rng
from privaware.testing import BrokenPromise, example, record, replay, rows_for
from tests.testing.planted_descent import BatchSizesLogged, RateFromData, Slope

REPLACED = example(relation="replace_one")


@given(seed=st.integers(0, 2**32), rows=st.integers(0, 12), front=st.booleans())
@settings(max_examples=60)
def test_samples_agree_on_all_rows_but_the_extra_one(seed: int, rows: int, front: bool) -> None:
    class Masks:
        def __init__(self) -> None:
            self.samples: list[np.ndarray] = []

        def cost(self, schema: Any, noise: float) -> Any:
            return NOTHING

        def run(self, data: Data, noise: float, rng: Rng) -> Any:
            self.samples.append(rng.poisson(len(data), 0.5))

    more = rows_for(example(), rows + 1, seed=seed % 7)
    fewer = more.take(np.arange(1, rows + 1) if front else np.arange(rows))
    at = 0 if front else rows
    for inside in (True, False):
        masks = Masks()
        replay(masks, fewer, more, 1.0, seed=seed, inside=inside)
        replay(masks, more, fewer, 1.0, seed=seed, inside=inside)
        first, grown, full, shrunk = masks.samples
        assert np.array_equal(np.delete(grown, at), first)
        assert np.array_equal(np.delete(full, at), shrunk)
        assert grown[at] == full[at] == inside


def test_row_in_one_part_does_not_change_the_sample_of_the_other() -> None:
    class Halves:
        def run(self, data: Data, noise: float, rng: Rng) -> Any:
            counts = [float(rng.poisson(len(part), 0.5).sum()) for part in data.split(rng, (0.5, 0.5))]
            return [rng.gaussian(count, noise=noise, sensitivity=1.0) for count in counts]

    rows = rows_for(example(), 20)
    changed_calls = [
        frozenset(replay(Halves(), fewer, rows, 1.0, seed=seed).changed_calls)
        for seed in range(20)
        for fewer in (rows.take(np.arange(19)), rows.take(np.arange(1, 20)))
    ]
    assert set(changed_calls) == {frozenset({3}), frozenset({4})}


@given(scale=st.floats(0.1, 100.0), dimensions=st.integers(1, 6), kind=st.sampled_from(["l1", "l2"]))
def test_sensitivity_is_measured_in_the_norm_of_the_noise(scale: float, dimensions: int, kind: str) -> None:
    exact = scale if kind == "l1" else scale / dimensions**0.5
    exact = scale / dimensions if kind == "l1" else exact

    def mechanism(factor: float) -> Any:
        class Counts:
            def run(self, data: Data, noise: float, rng: Rng) -> Any:
                total = np.full(dimensions, exact * len(data))
                release = rng.laplace if kind == "l1" else rng.gaussian
                return release(total, noise=noise, sensitivity=scale * factor)

        return Counts()

    more = rows_for(example(), 5)
    ratios = replay(mechanism(1.0), more, more.take(np.arange(4)), 1.0).ratios
    assert ratios[0] == pytest.approx(1.0)
    with pytest.raises(BrokenPromise, match="sensitivity exceeded"):
        replay(mechanism(0.999), more, more.take(np.arange(4)), 1.0)


def test_replaced_row_may_move_a_sampled_sum_twice_as_far() -> None:
    class Total:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        def run(self, data: Data, noise: float, rng: Rng) -> Any:
            signs = data.y[rng.poisson(len(data), 0.5)] * 2.0 - 1.0
            return rng.gaussian(float(signs.sum()) * self.scale, noise=noise, sensitivity=1.0)

    rows = replace(rows_for(REPLACED, 6), schema=REPLACED)
    other = replace(rows, y=np.append(rows.y[:-1], 1 - rows.y[-1]))
    assert replay(Total(1.0), rows, other, 1.0).ratios[1] == pytest.approx(1.0)
    with pytest.raises(BrokenPromise, match="sensitivity exceeded"):
        replay(Total(1.01), rows, other, 1.0)


def test_replayed_tensors_are_copies() -> None:
    import torch

    class InPlace:
        def run(self, data: Data, noise: float, rng: Rng) -> Any:
            total = torch.full((3,), float(len(data)), dtype=torch.float32)
            noisy = rng.gaussian(total, noise=noise, sensitivity=3**0.5)
            total.zero_()
            noisy.mul_(2)
            return noisy

    rows = rows_for(example(), 5)
    result = replay(InPlace(), rows, rows.take(np.arange(4)), 1.0)
    assert result.ratios[0] == pytest.approx(1.0, rel=1e-4)
    assert torch.equal(result.released, result.calls[0].returned * 2)


def test_recording_changes_no_random_number() -> None:
    rows = rows_for(example(), 24)
    plain = Slope().run(rows, 2.0, Rng(seed=5))
    taped = record(Slope(), rows, 2.0, seed=5).released
    assert np.array_equal(plain["weights"], taped["weights"])


def test_p1_rate_and_divisor_do_not_depend_on_the_rows() -> None:
    rows = rows_for(example(), 24)
    with pytest.raises(BrokenPromise, match=r"the rate of call 1 \(poisson\) is 0.25 on the data"):
        replay(RateFromData(), rows, rows.take(np.arange(23)), 2.0)


def test_p32_row_count_in_a_text_is_a_leak() -> None:
    rows = rows_for(example(), 5)
    with pytest.raises(BrokenPromise, match="the release differs"):
        replay(BatchSizesLogged(), rows, rows.take(np.arange(4)), 1.0)


def test_sample_drawn_on_a_device_cannot_be_replayed() -> None:
    class OnDevice:
        def cost(self, schema: Any, noise: float) -> Any:
            return NOTHING

        def run(self, data: Data, noise: float, rng: Rng) -> Any:
            return rng.uniforms((len(data),), "cpu") < 0.5

    with pytest.raises(BrokenPromise, match="drawn on a device"):
        record(OnDevice(), rows_for(example(), 5), 1.0, seed=1)


def test_settings_that_one_side_lacks_are_control_flow() -> None:
    class Sometimes:
        unit = "label"

        def run(self, data: Data, noise: float, rng: Rng) -> Any:
            among = {"candidates": np.ones((len(data), 2), dtype=bool)} if data.y[0] else {}
            return rng.respond(data.y, epsilon=1.0, classes=2, **among)

    rows = rows_for(example(), 4)
    one, other = (replace(rows, y=np.array([label, 0, 1, 0])) for label in (0, 1))
    for pair in ((one, other), (other, one)):
        with pytest.raises(BrokenPromise, match=r"call 1 .respond. has the settings .*candidates"):
            replay(Sometimes(), *pair, 1.0)


def test_row_is_put_into_the_part_that_is_asked_for() -> None:
    class Counts:
        def run(self, data: Data, noise: float, rng: Rng) -> Any:
            parts = rng.shards(len(data), (1.0, 1.0, 1.0))
            return [rng.gaussian(float((parts == at).sum()), noise=noise, sensitivity=1.0) for at in range(3)]

    rows = rows_for(example(), 9)
    for seed in range(5):
        for part in range(3):
            for pair in ((rows.take(np.arange(8)), rows), (rows, rows.take(np.arange(1, 9)))):
                assert replay(Counts(), *pair, 1.0, seed=seed, part=part).changed_calls == {part + 1}


@pytest.mark.parametrize(("sensitivity", "kept"), [(1.0, True), (0.5, True), (0.49, False)])
def test_replaced_row_may_move_twice_the_sensitivity_where_asked(sensitivity: float, kept: bool) -> None:
    class Count:
        def run(self, data: Data, noise: float, rng: Rng) -> Any:
            return rng.gaussian(float((data.x[:, 0] > 0).sum()), noise=noise, sensitivity=sensitivity)

    rows = rows_for(example(), 5)
    changed = replace(rows, x=np.vstack([rows.x[:-1], np.zeros((1, rows.x.shape[1]))]))
    if kept:
        assert max(replay(Count(), rows, changed, 1.0, apart=2).ratios.values()) == pytest.approx(1 / sensitivity)
        return
    with pytest.raises(BrokenPromise, match="sensitivity exceeded"):
        replay(Count(), rows, changed, 1.0, apart=2)
