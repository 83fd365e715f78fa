"""Turn an event into sums of losses for the CF accountant.

An event has several alternatives if it affects a row in one of several ways: through one part of a `Disjoint`, or at
one of several true numbers of rows of a capped batch. This module reads the event tree separately: it uses neither the
terms nor the pairs and tables of the PLD accountant. So a mistake in either reading makes the two accountants disagree.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial

import numpy as np

from privaware.accounting import _cf, _cf_selection
from privaware.accounting._cf_capped import batches
from privaware.accounting._cf_losses import LaplaceLoss, Loss, MixtureLoss, NormalLoss, ResponseLoss, TableLoss
from privaware.accounting._cf_sum import LossSum, TooSlow
from privaware.accounting._quadrature import Array, Profile
from privaware.errors import Refused, WrongInput
from privaware.events import (
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
    Repeated,
    Sampled,
    Selected,
    Unproven,
)

SIDES = ("remove", "add")
"""Directions of a privacy loss: a row is removed, or added."""

_REACH = 690.0
"""Largest loss of one release that floating point can represent."""

_QUIET = 1e15
"""A noise multiplier above this number is replaced by it, which can only increase the cost."""

_MAX_ALTERNATIVES = 1000
"""Largest number of alternatives, one for each choice of a part of every `Disjoint`; `TooSlow` is raised for more."""

_SCHEDULE = 96
"""Largest number of different noise multipliers of a schedule; more are rounded."""

_DOTS = 3001
"""Number of epsilons at which a privacy profile is tabulated."""

_ABOVE = 1.005
"""Factor on the last epsilon of a table, for numerical error: the profile of a bounded loss ends steeply."""


def epsilon(event: Event, delta: float) -> float | None:
    """Return the largest epsilon of `event` at `delta` over the ways in which it affects a row.

    A way is, for instance, one part of a `Disjoint`. A way with zCDP is skipped, and so is a way with losses above
    `_REACH` (690) of releases that are sampled or not Gaussian. If a way is skipped, the result may be too small; if
    every way is skipped, the result is None. Raise `TooSlow` if the losses cannot be resolved, and `Refused` for an
    unproven event.
    """
    if isinstance(event, Selected):
        return _cf_selection.epsilon(event, _runs(event.event), delta)
    both = zip(*(_readings(event, side) for side in SIDES), strict=True)
    sums = [total for way in both for total in dict.fromkeys(way) if not total.rho and _within_reach(total)]
    return max((_cf.epsilon(_quieted(total), delta) for total in sums), default=None)


def profile(event: Event) -> Profile:
    """Return a function from ascending epsilons >= 0 to the deltas of `event`, failure probability included.

    It gives the largest delta over all ways in which the event can affect a row (`_ways`), and over both directions.
    Raise `TooSlow` if a way has zCDP or a loss above `_REACH`.
    """
    sums = dict.fromkeys(total for side in SIDES for total in _readings(event, side))
    if any(total.rho or not _within_reach(total) for total in sums):
        raise TooSlow
    return partial(_largest, tuple(sums))


def _largest(sums: tuple[LossSum, ...], epsilons: Array) -> Array:
    return np.max([t.failure + (1 - t.failure) * _cf.deltas(t, epsilons) for t in sums], axis=0)  # type: ignore[no-any-return]


def _within_reach(total: LossSum) -> bool:
    return all(loss.beyond() <= _REACH or isinstance(loss, NormalLoss) for loss, _ in total.losses)


def _quieted(total: LossSum) -> LossSum:
    """Return one Gaussian without sampling in place of `total` if it has only Gaussians of negligible cost.

    Their cost is negligible if that Gaussian, with the sum of the precisions (sensitivity / noise)**2 of all releases,
    sampled or not, has sensitivity / noise of at most 1e-7. No quadrature resolves such small losses. Otherwise, or if
    a release may fail, return `total`.
    """
    shifts = [loss.shift() for loss, _ in total.losses]
    if total.failure or not shifts or any(shift is None for shift in shifts):
        return total
    precision = sum(n * shift**2 for (_, n), shift in zip(total.losses, shifts) if shift)
    if precision == 0 or math.sqrt(precision) > 1e-7:
        return total
    return LossSum(losses=((NormalLoss(precision=precision), 1),))


@lru_cache(maxsize=256)
def _readings(event: Event, side: str) -> tuple[LossSum, ...]:
    return tuple(_coarser(total) for total in _ways(event, 1, side))


def _ways(event: Event, times: int, side: str) -> list[LossSum]:
    """Return one sum of losses of `times` repetitions of `event` for each way in which it can affect a row.

    `side` is the direction, "remove" or "add". A way is a part of a `Disjoint`, or a range of row counts of a capped
    batch. A composition has every combination of the ways of its parts. Raise `TooSlow` for more than
    `_MAX_ALTERNATIVES` ways.
    """
    match event:
        case Repeated():
            return _ways(event.event, times * event.count, side)
        case Disjoint():
            return list(dict.fromkeys(way for part in event.events for way in _ways(part, times, side)))
        case Composed():
            ways, single = [LossSum()], LossSum()
            for part in event.events:
                more = _ways(part, times, side)
                if len(more) == 1:
                    single = single + more[0]
                    continue
                ways = [a + b for a in ways for b in more]
                if len(ways) > _MAX_ALTERNATIVES:
                    raise TooSlow
            return [_gathered(single + way) for way in ways]
        case Sampled(cap=int()):
            noise = _noise(event.event)
            if noise is None or noise == math.inf:
                raise TooSlow
            return [LossSum(losses=((loss, times),)) for loss in batches(event, noise, side)]
        case _:
            return [_gathered(_single(event, times, side))]


def _single(event: Event, times: int, side: str) -> LossSum:
    match event:
        case Sampled():
            return _sampled(event.event, event.rate, event.relation == "replace_one", times, side)
        case Group():
            return _unit(event.event, event.size, times, side)
    return _sampled(event, 1.0, False, times, side)


def _of(loss: Loss, times: int = 1) -> LossSum:
    return LossSum(losses=((loss, times),)) if loss.beyond() > 0 else LossSum()


def _fails(chance: float, times: int) -> LossSum:
    return LossSum(log_survival=times * math.log1p(-chance) if chance < 1 else -math.inf)


def _noise(event: Event) -> float | None:
    """Return the noise multiplier of one Gaussian with the cost of `event`; None unless all releases are Gaussian.

    A release on a sample does not count as Gaussian. An event without releases has an infinite noise multiplier.
    """
    match event:
        case Gaussian(noise=noise):
            return min(noise, _QUIET)
        case Repeated():
            inner = _noise(event.event)
            return None if inner is None else inner / math.sqrt(event.count)
        case Composed():
            noises = [_noise(part) for part in event.events]
            if any(noise is None for noise in noises):
                return None
            root = math.hypot(*(1 / noise for noise in noises if noise))
            return 1 / root if root else math.inf
    return None


def _sampled(event: Event, rate: float, replace: bool, times: int, side: str) -> LossSum:
    """Return the losses of `times` repetitions of `event`, each on a new Poisson sample at `rate`.

    `side` is the direction, "remove" or "add". If `replace` is True, neighbours differ by replacing a row, `side` has
    no effect, and an event that is not only Gaussian raises `WrongInput`. If it is False, an unproven event raises
    `Refused`, and an event without a formula is tabulated.
    """
    same = side if rate < 1 else SIDES[0]  # without sampling both directions have the same loss
    noise = _noise(event)
    if noise is not None:
        if noise == math.inf:
            return LossSum()
        if rate == 1:
            return _of(NormalLoss(precision=times * (2 if replace else 1) ** 2 / noise**2))
        return _of(MixtureLoss(noise=noise, rate=rate, side="replace" if replace else side), times)
    if replace:
        raise WrongInput("the cost under replace_one is known for Gaussian releases only")
    match event:
        case Laplace(noise=noise):
            return _of(LaplaceLoss(noise=min(noise, _QUIET), rate=rate, side=same), times)
        case Pure(epsilon=e):
            return _of(ResponseLoss(epsilon=e, classes=2, rate=rate, side=same), times)
        case RandomisedResponse(epsilon=e, classes=classes):
            return _of(ResponseLoss(epsilon=e, classes=classes, rate=rate, side=same), times)
        case Approximate(epsilon=e, delta=delta):
            rest = _sampled(Pure(epsilon=e), rate, False, times, side) if e else LossSum()
            return _fails(rate * delta, times) + rest
        case ZCDP(rho=rho):
            return LossSum(rho=times * rho)
        case Sampled(relation="add_remove", cap=None):
            return _sampled(event.event, rate * event.rate, False, times, side)
        case Unproven(reason=reason):
            raise Refused(f"no guarantee can be computed: {reason}")
    return _tabulated(event, rate, times, side)


def _unit(event: Event, size: int, times: int, side: str) -> LossSum:
    """Return the losses of `times` repetitions of `event` for a unit of `size` rows; `side` is "remove" or "add".

    Releases are handled one by one (`_group`), with one exception. An `Approximate` with epsilon 0 is the failure
    probability of other releases of `event`. If it is proven for fewer than `size` rows, and `event` has other
    releases, the whole event is one release, to which group privacy is applied.
    """
    chances, releases = _failures(event)
    if any((chance.rows or 1) < size for chance in chances) and len(chances) + releases > 1:
        return _tabulated(Group(event=event, size=size), 1.0, times, side)
    return _group(event, size, times, side)


def _failures(event: Event) -> tuple[list[Approximate], int]:
    """Return the `Approximate` events with epsilon 0 in a composition, and the number of its other releases.

    These events are failure probabilities of the other releases. A repeated release counts once.
    """
    match event:
        case Repeated():
            return _failures(event.event)
        case Composed():
            parts = [_failures(part) for part in event.events]
            return [chance for chances, _ in parts for chance in chances], sum(count for _, count in parts)
        case Approximate(epsilon=0):
            return [event], 0
    return [], 1


def _group(event: Event, size: int, times: int, side: str) -> LossSum:
    """Return the losses of `times` repetitions of `event` for a unit of `size` rows; `side` is "remove" or "add".

    Each release is accounted for the whole unit by itself: for instance, a noise multiplier is divided by `size`, and a
    pure epsilon is multiplied by it. Releases without such a rule are tabulated by group privacy.
    """
    match event:
        case _ if size == 1 and not isinstance(event, (Composed, Repeated, Disjoint)):
            capped = isinstance(event, Sampled) and event.cap is not None
            return _tabulated(event, 1.0, times, side) if capped else _single(event, times, side)
        case Repeated():
            return _group(event.event, size, times * event.count, side)
        case Composed():
            return sum((_group(part, size, times, side) for part in event.events), LossSum())
        case Gaussian(noise=noise):
            return _single(Gaussian(noise=min(noise, _QUIET) / size), times, side)
        case Laplace(noise=noise):
            return _single(Laplace(noise=min(noise, _QUIET) / size), times, side)
        case Pure(epsilon=e):
            return _single(Pure(epsilon=size * e), times, side)
        case Approximate(epsilon=e, delta=delta):
            # A chain of n steps of `rows` rows each has delta (1 + e^epsilon + ... + e^((n - 1) epsilon)).
            chain = math.ceil(size / (event.rows or 1))
            growth = float(_log_growth(np.array([e]), chain)[0])
            rest = _single(Pure(epsilon=chain * e), times, side) if e else LossSum()
            return _fails(math.exp(min(0.0, math.log(delta) + growth)), times) + rest
        case RandomisedResponse():
            return _single(event, times * size, side)
        case ZCDP(rho=rho):
            return LossSum(rho=times * size**2 * rho)
        case Group():
            return _unit(event.event, size * event.size, times, side)
        case Unproven():
            return _single(event, times, side)
        case Sampled(relation="add_remove", cap=None) if (scale := _noise(event.event)) is not None:
            if scale == math.inf:
                return LossSum()
            if event.rate == 1:
                return _single(Gaussian(noise=scale / size), times, side)
            return _of(MixtureLoss(noise=scale, rate=event.rate, side=side, group=size), times)
    return _tabulated(event if size == 1 else Group(event=event, size=size), 1.0, times, side)


def _log_growth(epsilons: Array, size: int) -> Array:
    """Return the logarithm of the sum of exp(i * epsilon) over i = 0, ..., size - 1, at each of `epsilons` >= 0."""
    e = np.maximum(epsilons, 1e-300)
    ratio = np.expm1(-size * e) / np.expm1(-e)
    return np.where(epsilons > 0, (size - 1) * e + np.log(ratio), math.log(size))


def _tabulated(event: Event, rate: float, times: int, side: str) -> LossSum:
    """Return the losses of `times` repetitions of `event`, which has no formula, each on a Poisson sample at `rate`.

    The loss of one repetition is a table, computed from an upper bound on the privacy profile of the event. `side` is
    the direction, "remove" or "add".
    """
    epsilons, deltas, failure = _bound(event)
    mirrored = -np.expm1(-epsilons) + np.exp(-epsilons) * deltas
    e = np.append(-epsilons[:0:-1], epsilons)
    d = np.append(mirrored[:0:-1], deltas)
    if rate < 1:
        e, d = _amplified(e, d, rate, side)
    table = _cf_selection.atoms(e, d)
    loss = TableLoss(event=event, rate=rate, side=side if rate < 1 else SIDES[0], table=table)
    return _fails(rate * failure, times) + _of(loss, times)


def _amplified(e: Array, d: Array, rate: float, side: str) -> tuple[Array, Array]:
    """Return the profile of a release on a Poisson sample at `rate`, as (new epsilons, deltas at them).

    `side` is the direction. Without sampling the release has the deltas `d` at the epsilons `e` (Balle, Barthe and
    Gaboardi 2018).
    """
    if side == "remove":  # H((1-q) Q + q P || Q) at 1 + q (x - 1) is q times H(P || Q) at x
        return np.logaddexp(math.log1p(-rate), math.log(rate) + e), rate * d
    # H(P || (1-q) P + q Q) at y is (1 - (1-q) y) times H(P || Q) at x = q y / (1 - (1-q) y)
    y = -np.logaddexp(math.log1p(-rate), math.log(rate) - e)
    return y, np.exp(math.log(rate) + y - e) * d


@lru_cache(maxsize=64)
def _bound(event: Event) -> tuple[Array, Array, float]:
    """Return epsilons >= 0, an upper bound on delta at each if nothing fails, and the probability of failure.

    `event` is a private selection, a group, a choice, a composition, a sample or an event on disjoint parts; any other
    kind raises `Refused`.
    """
    match event:
        case Selected():
            return _cf_selection.profile(event, _runs(event.event))
        case Group():
            inner, size = event.event, event.size
            each = np.linspace(0.0, _top(inner, 1e-13), _DOTS)
            growth = np.exp(np.minimum(_log_growth(each, size), 700.0))
            return _without_failure(size * each, growth * profile(inner)(each))
        case AnyOf():
            epsilons = np.linspace(0.0, max(_top(part, 1e-12) for part in event.events), _DOTS)
            return _without_failure(epsilons, np.max([profile(part)(epsilons) for part in event.events], axis=0))
        case Composed() | Disjoint() | Repeated() | Sampled():
            epsilons = np.linspace(0.0, _top(event, 1e-12), _DOTS)
            return _without_failure(epsilons, profile(event)(epsilons))
    raise Refused(f"no accountant knows {type(event).__name__}")


def _without_failure(epsilons: Array, deltas: Array) -> tuple[Array, Array, float]:
    deltas = np.minimum.accumulate(np.minimum(deltas, 1.0))
    failure = float(deltas[-1])
    return epsilons, (deltas - failure) / (1 - failure) if failure < 1 else 0 * deltas, failure


def _top(event: Event, delta: float) -> float:
    """Return an epsilon at which the profile of `event`, without outright failures, is at most `delta`.

    Raise `TooSlow` if this epsilon is infinite or not found.
    """
    tops = []
    for total in dict.fromkeys(total for side in SIDES for total in _readings(event, side)):
        quiet = _quieted(LossSum(losses=total.losses))
        tops.append(min(_ABOVE * _cf.epsilon(quiet, delta), quiet.largest))
    if not math.isfinite(top := max(tops)):
        raise TooSlow
    return top


def _runs(event: Event) -> list[tuple[LossSum, LossSum]]:
    """Return a pair of losses (row removed, row added) of `event`, one run of a selection, for each alternative.

    Raise `TooSlow` if an alternative has zCDP or a loss above `_REACH`.
    """
    ways = list(zip(*(_readings(event, side) for side in SIDES), strict=True))
    if any(total.rho or not _within_reach(total) for way in ways for total in way):
        raise TooSlow
    return ways


def _gathered(total: LossSum) -> LossSum:
    """Return `total` with all Gaussian releases without sampling combined into one, by adding their precisions."""
    normal = sum(n * loss.precision for loss, n in total.losses if isinstance(loss, NormalLoss))
    rest = tuple((loss, n) for loss, n in total.losses if not isinstance(loss, NormalLoss))
    first = ((NormalLoss(precision=normal), 1),) if normal else ()
    return LossSum(losses=(*first, *rest), log_survival=total.log_survival, rho=total.rho)


def _coarser(total: LossSum) -> LossSum:
    """Return `total` with the noise multipliers of sampled Gaussians rounded to `_SCHEDULE` values with a common ratio.

    A noise multiplier is rounded to the nearest value, so the result is close to `total`, but no bound. `total` itself
    is returned if it has at most `_SCHEDULE` different noise multipliers.
    """
    noises = {loss.noise for loss, _ in total.losses if isinstance(loss, MixtureLoss)}
    if len(noises) <= _SCHEDULE:
        return total
    low = math.log(min(noises))
    width = (math.log(max(noises)) - low) / (_SCHEDULE - 1)
    counts: dict[Loss, int] = {}
    for loss, n in total.losses:
        near: Loss = loss
        if isinstance(loss, MixtureLoss):
            noise = math.exp(low + width * round((math.log(loss.noise) - low) / width))
            near = MixtureLoss(noise=noise, rate=loss.rate, side=loss.side, group=loss.group)
        counts[near] = counts.get(near, 0) + n
    return LossSum(losses=tuple(counts.items()), log_survival=total.log_survival, rho=total.rho)
