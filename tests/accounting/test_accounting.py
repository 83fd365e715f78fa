"""What the accountants promise, against closed forms, brute force and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from privaware import accounting
from privaware.accounting import _cf, _gaussian, _rdp
from privaware.accounting._cf_losses import LaplaceLoss, MixtureLoss
from privaware.accounting._cf_sum import LossSum
from privaware.errors import Refused, WrongInput
from privaware.events import (
    NOTHING,
    ZCDP,
    AnyOf,
    Approximate,
    Composed,
    Disjoint,
    Event,
    Gaussian,
    Group,
    Laplace,
    Pure,
    RandomisedResponse,
    Sampled,
    Selected,
    Unproven,
    from_json,
    to_json,
)
from tests.accounting.trainings import DELTA, training

few = settings(max_examples=6, deadline=None)
noises = st.floats(0.7, 20.0)
rates = st.floats(1e-3, 0.5)


# Exactness


@settings(max_examples=50, deadline=None)
@given(noise=st.floats(1e-3, 1e4), delta=st.floats(1e-12, 0.3))
def test_gaussian_epsilon_is_exact(noise: float, delta: float) -> None:
    found = accounting.epsilon(Gaussian(noise=noise), delta)
    mu = 1 / noise

    def analytic(e: float) -> float:
        first = stats.norm.logcdf(mu / 2 - e / mu)
        return float(first + np.log1p(-np.exp(min(e + stats.norm.logcdf(-mu / 2 - e / mu) - first, -1e-18))))

    if found > 1e-6:
        assert analytic(found * (1 + 1e-6)) <= math.log(delta) + 1e-9
        assert analytic(found * (1 - 1e-6)) >= math.log(delta) - 1e-9


def test_composed_gaussians_are_one_gaussian() -> None:
    schedule = [5 + 0.01 * i for i in range(600)]
    together = Composed(events=tuple(Gaussian(noise=noise) for noise in schedule))
    one = Gaussian(noise=sum(noise**-2 for noise in schedule) ** -0.5)
    assert accounting.epsilon(together, DELTA) == pytest.approx(accounting.epsilon(one, DELTA), rel=1e-9)


@pytest.mark.parametrize(("each", "count", "delta"), [(0.1, 2315, 1e-6), (0.0229, 1000, 1e-5), (0.5, 7, 1e-3)])
def test_pure_releases_compose_optimally(each: float, count: int, delta: float) -> None:
    k = np.arange(count + 1)
    probs = stats.binom.pmf(k, count, 1 / (1 + math.exp(-each)))

    def gap(e: float) -> float:
        return float(probs @ np.maximum(0, -np.expm1(np.minimum(e - (2 * k - count) * each, 0)))) - delta

    exact = optimize.brentq(gap, 0, count * each)
    assert accounting.epsilon(count * Pure(epsilon=each), delta) == pytest.approx(exact, rel=1e-6)


def test_randomised_response_is_counted_as_often_as_it_was_given() -> None:
    one = RandomisedResponse(epsilon=0.5, classes=10)
    assert accounting.epsilon(20 * one, DELTA) > 3 * accounting.epsilon(one, DELTA)
    assert accounting.epsilon(20 * one, DELTA) < accounting.epsilon(20 * Pure(epsilon=0.5), DELTA)


@pytest.mark.parametrize(
    ("rate", "noise", "order"), [(0.01, 0.37, 1.3), (0.1, 0.5, 2.5), (0.3, 2.0, 7.3), (0.01, 1.0, 12.0)]
)
def test_renyi_divergence_equals_an_adaptive_integral(rate: float, noise: float, order: float) -> None:
    def integrand(x: float) -> float:
        ratio = 1 - rate + rate * math.exp((2 * x - 1) / (2 * noise**2))
        return float(stats.norm.pdf(x, scale=noise)) * ratio**order

    value, _ = integrate.quad(integrand, -12 * noise, order + 12 * noise, limit=500, points=[0, 1, order])
    found = _rdp.sampled_gaussian(rate, noise, order)
    assert found == pytest.approx(math.log(value) / (order - 1), rel=1e-6)


@pytest.mark.parametrize("event", [training(), training(0.5, 0.001, 10), 5 * Laplace(noise=2.0).sampled(rate=0.1)])
def test_delta_is_epsilon_read_the_other_way(event: Event) -> None:
    assert accounting.delta(event, accounting.epsilon(event, DELTA)) == pytest.approx(DELTA, rel=0.03)


# The library's own accountant


def library_epsilon(parts: list[tuple[object, int]], delta: float) -> float:
    import dp_accounting

    accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=1e-4)
    for event, count in parts:
        accountant.compose(event, count)
    return float(accountant.get_epsilon(delta))


def test_p7_gradient_and_count_are_one_event() -> None:
    """Adaptive clipping: the two Gaussians of one sample are one with 1/z^2 added up, as the library composes them."""
    import dp_accounting as dp

    z, s = 1.2, 3.0
    pair = Gaussian(noise=z) + Gaussian(noise=s)
    both = dp.ComposedDpEvent([dp.GaussianDpEvent(z), dp.GaussianDpEvent(s)])
    assert accounting.epsilon(20 * pair, DELTA) == pytest.approx(library_epsilon([(both, 20)], DELTA), rel=5e-3)
    one = dp.PoissonSampledDpEvent(0.05, dp.GaussianDpEvent((z**-2 + s**-2) ** -0.5))
    ours = accounting.epsilon(500 * pair.sampled(rate=0.05), DELTA)
    assert ours == pytest.approx(library_epsilon([(one, 500)], DELTA), rel=5e-3)
    assert ours > accounting.epsilon(500 * Gaussian(noise=z).sampled(rate=0.05), DELTA) * 1.01


def test_mixed_composition_agrees_with_dp_accounting() -> None:
    import dp_accounting as dp

    sampled = dp.PoissonSampledDpEvent(0.02, dp.GaussianDpEvent(1.5))
    parts = [(sampled, 400), (dp.LaplaceDpEvent(4.0), 3), (dp.GaussianDpEvent(6.0), 2)]
    ours = training(1.5, 0.02, 400) + 3 * Laplace(noise=4.0) + 2 * Gaussian(noise=6.0)
    assert accounting.epsilon(ours, DELTA) == pytest.approx(library_epsilon(parts, DELTA), rel=5e-3)


# Order


@few
@given(noise=noises, rate=rates, steps=st.integers(1, 3000), more=st.floats(1.05, 3.0))
def test_p10_less_noise_or_delta_or_more_rate_or_steps_cost_more(
    noise: float, rate: float, steps: int, more: float
) -> None:
    base = accounting.epsilon(training(noise, rate, steps), DELTA)
    slack = 1 + 1e-3
    assert accounting.epsilon(training(noise * more, rate, steps), DELTA) <= base * slack + 1e-6
    assert accounting.epsilon(training(noise, rate / more, steps), DELTA) <= base * slack + 1e-6
    assert accounting.epsilon(training(noise, rate, max(1, int(steps / more))), DELTA) <= base * slack + 1e-6
    assert accounting.epsilon(training(noise, rate, steps), min(DELTA * more, 0.5)) <= base * slack + 1e-6


parts = st.one_of(
    st.builds(Gaussian, noise=st.floats(1, 20)),
    st.builds(Laplace, noise=st.floats(1, 20)),
    st.builds(Pure, epsilon=st.floats(0.05, 1)),
    st.builds(RandomisedResponse, epsilon=st.floats(0.1, 1), classes=st.integers(2, 10)),
    st.builds(training, noise=noises, rate=rates, steps=st.integers(50, 500)),
)


@few
@given(events=st.lists(parts, min_size=2, max_size=4), seed=st.randoms(use_true_random=False))
def test_composition_commutes(events: list[Event], seed: object) -> None:
    shuffled = list(events)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]
    first = accounting.epsilon(Composed(events=tuple(events)), DELTA)
    assert accounting.epsilon(Composed(events=tuple(shuffled)), DELTA) == pytest.approx(first, rel=1e-6)


@few
@given(events=st.lists(parts, min_size=2, max_size=3))
def test_p31_parts_of_a_budget_composed_again_stay_within_it(events: list[Event]) -> None:
    share = DELTA / len(events)
    total = sum(accounting.epsilon(event, share) for event in events)
    assert accounting.epsilon(Composed(events=tuple(events)), DELTA) <= total * (1 + 1e-3) + 1e-6


def test_disjoint_parts_cost_the_dearest() -> None:
    shared, a, b = Gaussian(noise=3.0), Laplace(noise=2.0), training()
    total = accounting.epsilon(shared + Disjoint(events=(a, b)), DELTA)
    assert total == max(accounting.epsilon(shared + part, DELTA) for part in (a, b))


# Extremes


@pytest.mark.parametrize("noise", [1e-4, 0.02, 0.3, 5.0, 1e3, 1e6])
@pytest.mark.parametrize("rate", [1e-6, 1e-2, 1.0])
@pytest.mark.parametrize("steps", [0, 1, 1000])
def test_p10_extremes_give_a_number_not_above_renyi(noise: float, rate: float, steps: int) -> None:
    event = steps * Gaussian(noise=noise).sampled(rate=rate)
    found = accounting.bounds(event, DELTA)
    assert 0 <= found["epsilon"] < math.inf
    assert found["epsilon"] <= found["rdp"] * (1 + 1e-3) + 1e-6
    assert (found["epsilon"] == 0) if steps == 0 else True


def test_empty_composition_costs_nothing() -> None:
    assert accounting.epsilon(NOTHING, DELTA) == 0.0
    assert accounting.delta(NOTHING, 0.0) == 0.0


@pytest.mark.parametrize("delta", [0, 1, -0.1, 2.0, math.nan, True])
def test_delta_outside_zero_and_one_is_refused(delta: float) -> None:
    with pytest.raises(WrongInput, match="delta strictly between 0 and 1"):
        accounting.epsilon(Gaussian(noise=1.0), delta)


def test_tiny_epsilons_are_not_floored_by_the_orders() -> None:
    event = training(1000.0, 0.01, 3640)
    assert accounting.bounds(event, DELTA)["rdp"] < 0.003
    assert accounting.bounds(event, DELTA, orders=accounting.TENSORFLOW_ORDERS)["rdp"] > 0.008


# Failing closed


def test_p10_accountants_that_disagree_report_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = _cf.epsilon
    monkeypatch.setattr(_cf, "epsilon", lambda total, delta: 1.02 * honest(total, delta))
    with pytest.raises(Refused, match="disagree"):
        accounting.epsilon(training(), DELTA)


def test_unproven_events_are_refused_by_every_accountant() -> None:
    event = Gaussian(noise=1.0) + Group(event=Unproven(reason="shuffled batches").sampled(rate=0.1), size=2)
    for ask in (accounting.epsilon, accounting.bounds, accounting.delta):
        with pytest.raises(Refused, match="shuffled batches"):
            ask(event, 0.5)
    with pytest.raises(Refused, match="shuffled batches"):
        accounting.calibrate(lambda noise: Gaussian(noise=noise) + event, 1.0, DELTA)


def test_failures_of_exactly_delta_leave_epsilon_zero() -> None:
    assert accounting.epsilon(Approximate(epsilon=0.0, delta=1e-5), 1e-5) == 0.0


def test_failures_above_delta_leave_no_epsilon() -> None:
    event = Gaussian(noise=1.0) + 3 * Approximate(epsilon=0.1, delta=4e-6)
    assert accounting.epsilon(event, DELTA) == math.inf
    assert accounting.epsilon(event, 2e-5) < math.inf
    assert accounting.epsilon(Approximate(epsilon=0, delta=1e-6), DELTA) == 0


def test_zcdp_goes_through_renyi_divergences() -> None:
    found = accounting.bounds(ZCDP(rho=0.1) + Gaussian(noise=2.0), DELTA)
    assert (found["pld"], found["method"]) == (None, "rdp")
    rho = 0.1 + 1 / 8
    assert found["epsilon"] < rho + 2 * math.sqrt(rho * math.log(1 / DELTA))


# Samples and groups


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize(("rate", "noise", "size"), [(0.3, 1.0, 2), (0.1, 2.0, 3), (0.6, 1.5, 4)])
def test_dominating_pair_of_a_sampled_group_is_the_worst_case(rate: float, noise: float, size: int) -> None:
    """Brute force in the plane: rows of norm 1 that point anywhere never beat rows that all point the same way."""
    rng = np.random.default_rng(size)
    line = np.arange(-8 * noise, size + 8 * noise, 0.05)
    x, y = np.meshgrid(line, np.arange(-size - 8 * noise, size + 8 * noise, 0.05), indexing="ij")
    base = np.exp(-(x**2 + y**2) / (2 * noise**2))
    losses = [MixtureLoss(noise=noise, rate=rate, group=size, side=side) for side in ("remove", "add")]
    for _ in range(3):
        angles = rng.uniform(-math.pi, math.pi, size)
        mixed = np.zeros_like(base)
        for subset in np.ndindex(*(2,) * size):
            chosen = np.array(subset, dtype=bool)
            weight = rate ** chosen.sum() * (1 - rate) ** (size - chosen.sum())
            cx, cy = np.cos(angles[chosen]).sum(), np.sin(angles[chosen]).sum()
            mixed += weight * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / (2 * noise**2))
        p, q = mixed / base.sum(), base / base.sum()
        for epsilon in (0.0, 0.3, 1.0):
            remove, add = (float(_cf.deltas(LossSum(losses=((loss, 1),)), np.array([epsilon]))[0]) for loss in losses)
            assert hockey_stick(p, q, epsilon) <= remove * (1 + 1e-3) + 1e-6
            assert hockey_stick(q, p, epsilon) <= add * (1 + 1e-3) + 1e-6


def test_group_of_one_costs_as_one_row() -> None:
    for event in (training(), Laplace(noise=2.0), Selected(event=training(), distribution="logarithmic", mean=5.0)):
        assert accounting.epsilon(Group(event=event, size=1), DELTA) == pytest.approx(
            accounting.epsilon(event, DELTA), rel=2e-3
        )


def test_groups_of_named_releases() -> None:
    assert accounting.epsilon(Group(event=Gaussian(noise=6.0), size=3), DELTA) == pytest.approx(
        accounting.epsilon(Gaussian(noise=2.0), DELTA)
    )
    assert accounting.epsilon(Group(event=Pure(epsilon=0.2), size=4), 1e-12) == pytest.approx(0.8, rel=1e-3)
    assert accounting.epsilon(Group(event=training(2.0, 0.01), size=3), DELTA) < 3 * accounting.epsilon(
        training(2.0, 0.01), DELTA / 30
    )


def test_sampling_twice_is_sampling_at_the_product() -> None:
    twice = 100 * Sampled(event=Gaussian(noise=1.0).sampled(rate=0.1), rate=0.2)
    assert accounting.epsilon(twice, DELTA) == pytest.approx(accounting.epsilon(training(1.0, 0.02, 100), DELTA))


def test_a_sampled_composition_lies_between_its_parts() -> None:
    together = 100 * (Laplace(noise=2.0) + Gaussian(noise=2.0)).sampled(rate=0.05)
    alone = 100 * Laplace(noise=2.0).sampled(rate=0.05)
    assert accounting.epsilon(alone, DELTA) < accounting.epsilon(together, DELTA)
    apart = alone + 100 * Gaussian(noise=2.0).sampled(rate=0.05)
    # One sample for both is dearer than two independent ones, but not than no sampling.
    assert accounting.epsilon(apart, DELTA) < accounting.epsilon(together, DELTA)


def test_sampled_laplace_is_the_amplified_profile() -> None:
    rate, noise, epsilon = 0.1, 2.0, 0.02
    inner = math.log1p(math.expm1(epsilon) / rate)
    exact = rate * -math.expm1((inner - 1 / noise) / 2)
    total = LossSum(losses=((LaplaceLoss(noise=noise, rate=rate, side="remove"), 1),))
    assert _cf.deltas(total, np.array([epsilon]))[0] == pytest.approx(exact, rel=1e-3)


# Selection


@pytest.mark.parametrize(
    ("distribution", "shape"), [("logarithmic", None), ("negative_binomial", 1.0), ("poisson", None)]
)
def test_selection_costs_more_than_a_run_and_less_than_all(distribution: str, shape: float | None) -> None:
    run = training(1.84, 0.01, 2000)
    event = Selected(event=run, distribution=distribution, mean=10.0, shape=shape)
    found = accounting.bounds(event, DELTA)
    assert accounting.epsilon(run, DELTA) < found["epsilon"] < accounting.epsilon(10 * run, DELTA)
    assert found["method"] == "trade_off"
    both = accounting.epsilon(event + training(), DELTA)
    assert found["epsilon"] < both < found["epsilon"] + accounting.epsilon(training(), DELTA)


def test_selection_of_a_pure_release_is_pure() -> None:
    event = Selected(event=Pure(epsilon=0.1), distribution="negative_binomial", mean=1000.0, shape=1.0)
    assert accounting.epsilon(event, 1e-9) <= 0.3 * (1 + 1e-3)


def test_selection_by_brute_force_stays_below_the_bound() -> None:
    """Geometric number of responses, the best score published: the exact distribution against the price."""
    epsilon, gamma = 0.4, 0.2
    event = Selected(event=Pure(epsilon=epsilon), distribution="negative_binomial", mean=1 / gamma, shape=1.0)
    good, bad = math.exp(epsilon) / (1 + math.exp(epsilon)), 1 / (1 + math.exp(epsilon))
    k = np.arange(1, 400)
    weight = gamma * (1 - gamma) ** (k - 1)
    worst = max(abs(math.log((weight @ p**k) / (weight @ q**k))) for p, q in ((good, bad), (bad, good)))
    assert worst <= accounting.epsilon(event, 1e-12) * (1 + 1e-3)


def test_capped_batches_never_cost_less() -> None:
    def capped(cap: int) -> float:
        step = Sampled(event=Gaussian(noise=2.0), rate=0.01, rows=10_000, cap=cap)
        return accounting.epsilon(1000 * step, DELTA)

    plain = accounting.epsilon(training(2.0, 0.01, 1000), DELTA)
    assert plain <= capped(200) * (1 + 1e-6) <= capped(120) * (1 + 1e-6) < capped(100)
    assert _gaussian.epsilon(1e-9, DELTA) == 0.0


def test_accountants_agree_on_bounded_loss_with_many_small_steps() -> None:
    event = Laplace(noise=1.0) + 50 * Gaussian(noise=5.0).sampled(rate=1 / 64)
    assert accounting.epsilon(event, DELTA) == pytest.approx(1.06437, rel=1e-3)


def test_any_of_costs_the_dearest_at_every_epsilon() -> None:
    """Two recipes that cross: neither is the dearer one everywhere, and composed freely they cost at least both."""
    one = 1000 * Gaussian(noise=1.5).sampled(rate=0.01)
    two = 3 * Laplace(noise=3.0)
    either = AnyOf(events=(one, two))
    for target in (1e-7, 1e-5, 1e-3):
        dearest = max(accounting.epsilon(one, target), accounting.epsilon(two, target))
        found = accounting.epsilon(either, target)
        assert dearest <= found * (1 + 1e-6)
        assert found <= dearest * 1.01
    mixed = accounting.epsilon(5 * one + 5 * two, 1e-5)
    assert accounting.epsilon(10 * either, 1e-5) >= mixed * (1 - 1e-3)
    assert accounting.epsilon(AnyOf(events=(one, one)), 1e-5) == pytest.approx(accounting.epsilon(one, 1e-5), rel=5e-3)
    assert from_json(to_json(either)) == either


def test_the_former_name_of_a_run_warns() -> None:
    with pytest.warns(DeprecationWarning, match="DpSgdRun"):
        assert accounting.Descent is accounting.DpSgdRun
