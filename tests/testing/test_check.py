"""Every check is seen failing on the bug it exists for, and honest mechanisms pass them all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privaware import accounting
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import NOTHING, Gaussian, Laplace, Pure, Sampled, Selected
from privaware.mechanism import Then
from privaware.noise import Rng
from privaware.testing import (
    BrokenPromise,
    Recorder,
    canary_game,
    check_mechanism,
    example,
    extremes,
    neighbours,
    record,
    released_numbers,
    replay,
    rows_for,
    spent,
)
from tests.testing import planted

REPLACED = example(relation="replace_one")

CAUGHT = {
    planted.NoiseForgotten: "the release differs on neighbouring rows",
    planted.NoiseHalved: "the price is too low",
    planted.NoisePerMicroBatch: "the price is too low|control flow depends on the rows",
    planted.NoiseAfterTheMean: "control flow depends on the rows: the sensitivity of call",
    planted.NoiseReused: "the release differs on neighbouring rows",
    planted.NoiseIgnoresTheKnob: "the price is too low",
    planted.BatchFactor: "sensitivity exceeded",
    planted.NoClip: "sensitivity exceeded",
    planted.ClipOffByTwo: "sensitivity exceeded: .* by 2 times",
    planted.BoundsFromData: "sensitivity exceeded",
    planted.CrashWithoutRows: "run crashed on .*0 rows",
    planted.NotFinite: "an exact value that is not finite",
    planted.RealisedDivisor: "the release differs on neighbouring rows",
    planted.ShuffledAsPoisson: "the price is too low",
    planted.SampledWithReplacement: "the price is too low",
    planted.SampleIgnored: "the price is too low.*moved by a row outside the sample",
    planted.RateFromData: "the price is too low|the rate of call",
    planted.StepsOffByOne: "the price is too low",
    planted.EmptyBatchSkipped: "control flow depends on the rows",
    planted.OneSampleTwice: "the price is too low",
    planted.BranchOnLabels: "control flow depends on the rows: the noise of call",
    planted.EarlyStopping: "control flow depends on the rows",
    planted.ScoreInTheReport: "the release differs on neighbouring rows",
    planted.ScoreInAClosure: "the release differs on neighbouring rows",
    planted.BatchSizesLogged: "the release differs on neighbouring rows",
    planted.FixedSeed: "the same release for different seeds",
    planted.OwnRandomness: "the same seed gives different releases",
    planted.FixedNoise: "the release differs on neighbouring rows",
    planted.TorchStream: "drawn from directly",
    planted.CostIsANumber: "cost is not an event",
    planted.CostByIdentity: "cost is not a function of public facts",
    planted.CostGrowsWithNoise: "more noise costs more",
    planted.CostOfRealisedRows: "the cost changed after a run",
    planted.KeepsTheRows: "run changed the fields",
    planted.WrongBoundIndex: "sensitivity exceeded",
    planted.UpperBoundOnly: "sensitivity exceeded",
    planted.AnswersShifted: "sensitivity exceeded",
    planted.AnswersForRows: "control flow depends on the rows: .* shape",
    planted.PartsOverlap: "the price is too low",
    planted.CrowdMixed: "sensitivity exceeded",
    planted.QuietFastPath: "the canary game proves",
}

HONEST = {
    "sampled descent": (planted.Slope(), None),
    "full-batch descent": (planted.Slope(rate=1.0), None),
    "descent on other classes": (planted.Slope(steps=2), example(classes=3, rows=50)),
    "Laplace sums": (planted.Sums(), None),
    "noisy choice": (planted.Commonest(), example(classes=4)),
    "noisy choice under replacement": (planted.Commonest(), REPLACED),
    "randomised response": (planted.Answers(), example(classes=3)),
    "disjoint parts": (planted.Parts(), None),
    "a population": (planted.Crowd(), None),
    "one after another": (
        Then(first=planted.Commonest(), second=planted.Sums(), join=lambda data, released: data),
        None,
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_mechanisms_keep_every_promise(name: str) -> None:
    mechanism, schema = HONEST[name]
    assert 0 <= check_mechanism(mechanism, schema=schema, games=100) <= 1


@pytest.mark.parametrize("bug", CAUGHT, ids=lambda bug: bug.__name__)
def test_each_planted_bug_is_caught(bug: Any) -> None:
    with pytest.raises(BrokenPromise, match=f"^{bug.__name__}: .*({CAUGHT[bug]})"):
        check_mechanism(bug())


def test_every_planted_bug_is_in_the_table() -> None:
    honest = {type(mechanism) for mechanism, _ in HONEST.values()}
    there = {thing for thing in vars(planted).values() if isinstance(thing, type) and thing.__module__ == "planted"}
    assert there - honest == set(CAUGHT)


def test_p35_audit_catches_the_planted_p11_bug() -> None:
    """The game alone, blind to calls and sensitivities, proves more than was claimed; honest noise it does not."""
    mechanism = planted.Slope(rate=1.0)
    noise = accounting.calibrate(lambda level: mechanism.cost(example(), level), 1.0, 1e-5)
    few = rows_for(example(), 8)
    canary = next(other for _, other in neighbours(few, "row"))
    broken = planted.BatchFactor(rate=1.0)
    assert canary_game(broken, few, canary, noise, delta=1e-5, games=500) > 1.5
    assert canary_game(mechanism, few, canary, noise, delta=1e-5, games=500) <= 1.0


def test_p16_one_validation_row_cannot_change_control_flow() -> None:
    """Of all rows tried, some fall into the validation part and would end the training sooner or later."""
    rows, ends = rows_for(example(), 12), []
    for seed, (_, other) in enumerate(neighbours(rows, "row")):
        replay(planted.Parts(), rows, other, 2.0, seed=seed)
        try:
            replay(planted.EarlyStopping(), rows, other, 2.0, seed=seed)
        except BrokenPromise as problem:
            ends.append("control flow depends on the rows" in str(problem))
    assert any(ends)


def test_p1_rate_and_divisor_do_not_follow_the_rows() -> None:
    rows = rows_for(example(), 24)
    with pytest.raises(BrokenPromise, match=r"the rate of call 1 \(poisson\) is 0.25 on the data"):
        replay(planted.RateFromData(), rows, rows.take(np.arange(23)), 2.0)


def test_p30_lopsided_bounds_are_among_the_rows_tried() -> None:
    lows = {column.low for column in example().used if column.kind == "number"}
    assert 0.0 in lows
    assert all(column.low != -column.high for column in example().used if column.kind == "number")
    tried = np.array([x for _, x, _ in extremes(example())])
    for at, column in enumerate(example().used[:2]):
        assert {column.low, column.high} <= set(tried[:, at])


def test_p32_a_row_count_in_words_is_a_leak() -> None:
    rows = rows_for(example(), 5)
    with pytest.raises(BrokenPromise, match="the release differs"):
        replay(planted.BatchSizesLogged(), rows, rows.take(np.arange(4)), 1.0)


def test_a_promise_is_named_in_one_sentence() -> None:
    with pytest.raises(AssertionError) as caught:
        check_mechanism(planted.NoClip())
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("NoClip: sensitivity exceeded")


def test_a_mechanism_that_reads_no_row_costs_nothing_and_passes() -> None:
    @dataclass(frozen=True)
    class Constant:
        def cost(self, schema: Any, noise: float) -> Any:
            return NOTHING

        def run(self, data: Data, noise: float, rng: Rng) -> Any:
            return rng.initial.integers(10), "constant"

    assert check_mechanism(Constant(), games=20) == 0


def test_a_canary_of_ones_own_is_played() -> None:
    rows = rows_for(example(), 6)
    hidden = planted.QuietFastPath(rate=1.0)
    with pytest.raises(BrokenPromise, match="the canary game proves"):
        check_mechanism(hidden, data=rows, neighbour=lambda data: data.take(np.arange(1, 6)))
    with pytest.raises(WrongInput, match="differs in one row"):
        check_mechanism(hidden, data=rows, neighbour=rows.take(np.arange(2, 6)))


# The event that really happened.


@given(rates=st.lists(st.sampled_from([0.1, 0.25, 1.0]), min_size=1, max_size=5), noise=st.floats(0.5, 8.0))
def test_what_was_recorded_is_what_honest_descent_charges(rates: list[float], noise: float) -> None:
    rng = Recorder(0)
    for rate in rates:
        rng.poisson(9, rate)
        rng.gaussian(np.zeros(3), noise=noise, sensitivity=1.0)
    expected = NOTHING
    for rate in dict.fromkeys(rates):
        expected = expected + rates.count(rate) * Gaussian(noise=noise).sampled(rate=rate)
    assert spent(rng.calls) == expected


def test_two_releases_on_one_sample_are_priced_together() -> None:
    rng = Recorder(0)
    rng.poisson(9, 0.1)
    rng.gaussian(0.0, noise=3.0, sensitivity=1.0)
    rng.gaussian(0.0, noise=4.0, sensitivity=1.0)
    assert spent(rng.calls) == Sampled(event=Gaussian(noise=2.4), rate=0.1)
    assert spent(rng.calls, unsampled={2}) == Gaussian(noise=4.0) + Gaussian(noise=3.0).sampled(0.1)


def test_releases_before_any_sample_are_priced_in_full() -> None:
    rng = Recorder(0)
    rng.laplace(0.0, noise=3.0, sensitivity=1.0)
    rng.choose(np.zeros(3), epsilon=0.5, sensitivity=1.0)
    assert spent(rng.calls) == Laplace(noise=3.0) + Pure(epsilon=0.5)


def test_a_draw_from_several_samples_is_priced_at_their_union() -> None:
    rng = Recorder(0)
    for _ in range(3):
        rng.poisson(9, 0.2)
    rng.gaussian(0.0, noise=3.0, sensitivity=1.0)
    priced = spent(rng.calls)
    assert isinstance(priced, Sampled)
    assert priced.rate == pytest.approx(0.6)


def test_private_selection_is_not_priced_call_by_call() -> None:
    @dataclass(frozen=True)
    class Best:
        def cost(self, schema: Any, noise: float) -> Any:
            return Selected(event=Gaussian(noise=noise), law="logarithmic", mean=3.0)

        def run(self, data: Data, noise: float, rng: Rng) -> Any:
            tried = 1 + int(rng.initial.integers(4))
            return max(rng.gaussian(float(len(data)), noise=noise, sensitivity=1.0) for _ in range(tried))

    assert check_mechanism(Best(), games=50) <= 1


# Replaying.


@given(seed=st.integers(0, 2**32), rows=st.integers(0, 12), front=st.booleans())
@settings(max_examples=60)
def test_masks_agree_on_common_rows_and_the_extra_row_is_in(seed: int, rows: int, front: bool) -> None:
    class Masks:
        def __init__(self) -> None:
            self.seen: list[np.ndarray] = []

        def cost(self, schema: Any, noise: float) -> Any:
            return NOTHING

        def run(self, data: Data, noise: float, rng: Rng) -> Any:
            self.seen.append(rng.poisson(len(data), 0.5))

    more = rows_for(example(), rows + 1, seed=seed % 7)
    fewer = more.take(np.arange(1, rows + 1) if front else np.arange(rows))
    at = 0 if front else rows
    for inside in (True, False):
        masks = Masks()
        replay(masks, fewer, more, 1.0, seed=seed, inside=inside)
        replay(masks, more, fewer, 1.0, seed=seed, inside=inside)
        first, grown, whole, shrunk = masks.seen
        assert np.array_equal(np.delete(grown, at), first)
        assert np.array_equal(np.delete(whole, at), shrunk)
        assert grown[at] == whole[at] == inside


def test_a_row_in_one_part_leaves_the_sample_of_the_other_alone() -> None:
    class Halves:
        def run(self, data: Data, noise: float, rng: Rng) -> Any:
            counts = [float(rng.poisson(len(part), 0.5).sum()) for part in data.split(rng, (0.5, 0.5))]
            return [rng.gaussian(count, noise=noise, sensitivity=1.0) for count in counts]

    rows = rows_for(example(), 20)
    moved = [
        frozenset(replay(Halves(), fewer, rows, 1.0, seed=seed).moved)
        for seed in range(20)
        for fewer in (rows.take(np.arange(19)), rows.take(np.arange(1, 20)))
    ]
    assert set(moved) == {frozenset({3}), frozenset({4})}


@given(scale=st.floats(0.1, 100.0), dimensions=st.integers(1, 6), kind=st.sampled_from(["l1", "l2"]))
def test_the_distance_measured_is_the_norm_the_noise_needs(scale: float, dimensions: int, kind: str) -> None:
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


def test_replacement_may_move_a_sampled_sum_by_both_rows_but_no_more() -> None:
    class Total:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        def run(self, data: Data, noise: float, rng: Rng) -> Any:
            kept = data.y[rng.poisson(len(data), 0.5)] * 2.0 - 1.0
            return rng.gaussian(float(kept.sum()) * self.scale, noise=noise, sensitivity=1.0)

    rows = replace(rows_for(REPLACED, 6), schema=REPLACED)
    other = replace(rows, y=np.append(rows.y[:-1], 1 - rows.y[-1]))
    assert replay(Total(1.0), rows, other, 1.0).ratios[1] == pytest.approx(1.0)
    with pytest.raises(BrokenPromise, match="sensitivity exceeded"):
        replay(Total(1.01), rows, other, 1.0)


def test_tensors_are_played_back_untouched() -> None:
    import torch

    class InPlace:
        def run(self, data: Data, noise: float, rng: Rng) -> Any:
            total = torch.full((3,), float(len(data)), dtype=torch.float32)
            noisy = rng.gaussian(total, noise=noise, sensitivity=3**0.5)
            total.zero_()
            noisy.mul_(2)
            return noisy

    rows = rows_for(example(), 5)
    seen = replay(InPlace(), rows, rows.take(np.arange(4)), 1.0)
    assert seen.ratios[0] == pytest.approx(1.0, rel=1e-4)
    assert torch.equal(seen.released, seen.calls[0].returned * 2)


def test_recording_changes_no_draw() -> None:
    rows = rows_for(example(), 24)
    plain = planted.Slope().run(rows, 2.0, Rng(seed=5))
    taped = record(planted.Slope(), rows, 2.0, seed=5).released
    assert np.array_equal(plain["weights"], taped["weights"])


# What a release carries, and made-up rows.


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"a": 1.0}, {"a": 2.0}),
        ((1, ("x",)), (1, ("y",))),
        (np.array(["p", "q"], dtype=object), np.array(["p", "r"], dtype=object)),
        (example(), replace(example(), rows=25)),
        ([np.zeros(2)], [np.zeros(3)]),
        ({"a", "b"}, {"a", "c"}),
        (b"one", b"two"),
        (True, False),
    ],
)
def test_a_difference_in_any_corner_of_a_release_is_seen(one: Any, two: Any) -> None:
    assert not np.array_equal(released_numbers(one), released_numbers(two))
    assert np.array_equal(released_numbers(one), released_numbers(one))


def test_a_model_and_a_frame_are_looked_into() -> None:
    import pandas as pd
    import torch

    module = torch.nn.Linear(2, 1)
    before = released_numbers({"module": module})
    with torch.no_grad():
        module.weight[0, 1] += 1
    assert (released_numbers({"module": module}) != before).sum() == 1
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    changed = frame.assign(b=["x", "z"])
    assert (released_numbers(frame) != released_numbers(changed)).sum() == 1


def test_what_refers_to_itself_is_walked_once() -> None:
    ring: list[Any] = [1.0]
    ring.append(ring)
    assert released_numbers(ring).tolist() == [1.0]


@pytest.mark.parametrize("classes", [0, 2, 5])
@pytest.mark.parametrize("form", ["table", "image", "text"])
def test_made_up_rows_cover_what_is_declared(form: str, classes: int) -> None:
    schema = example(form, classes=classes)
    data = rows_for(schema, 400, seed=1)
    assert len(data) == len(data.x) == 400
    assert len(rows_for(schema, 0).x) == 0
    if classes:
        assert set(data.y) == set(range(classes))
        assert {y for _, _, y in extremes(schema)} == set(range(classes))
    else:
        assert schema.low <= data.y.min() < data.y.max() <= schema.high
    if form == "table":
        for at, column in enumerate(schema.used[:2]):
            known = data.x[:, at][~np.isnan(data.x[:, at])]
            span = column.high - column.low
            assert column.low <= known.min() < column.low + span / 10
            assert column.high >= known.max() > column.high - span / 10
        assert np.isnan(data.x).any(axis=0).tolist() == [False, True, False]
        assert set(data.x[:, 2]) == {0.0, 1.0, 2.0}
    for few in (rows_for(schema, 0), rows_for(schema, 3)):
        for _, other in neighbours(few, "row"):
            assert abs(len(other) - len(few)) == 1


def test_neighbours_follow_the_unit_and_the_relation() -> None:
    rows = rows_for(REPLACED, 4)
    for _, other in neighbours(rows, "row"):
        assert len(other) == 4
    relabelled = [other for _, other in neighbours(rows_for(example(), 4), "label")]
    assert relabelled
    for other in relabelled:
        assert np.array_equal(other.x, rows_for(example(), 4).x, equal_nan=True)
        assert (other.y != rows_for(example(), 4).y).sum() == 1
