"""Turn an event into `Terms`: a flat list of dominating pairs for the PLD and the RDP accountant.

Gaussian releases become one Gaussian: their values of 1 / noise^2 add up, which is exact for adaptive releases too.
Probabilities of no failure are multiplied. A sample or group becomes the pair that dominates it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from privaware.accounting._capped import candidates
from privaware.accounting._pairs import (
    DIRECTIONS,
    Array,
    CappedGaussian,
    DominatingPair,
    GaussianPair,
    ResponsePair,
    SampledGaussian,
    SampledLaplace,
    TabulatedPair,
    sample,
)
from privaware.errors import Refused, WrongInput
from privaware.events import (
    ZCDP,
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
    Unproven,
    leaves,
    nested,
)

LARGEST_PARAMETER = 1e50
"""Largest epsilon, rho, mean or size that an event may have; a noise multiplier must be at least its inverse."""

MAX_REPETITIONS = 10**18
"""Largest number of repetitions of a release."""

MAX_NOISE = 1e15
"""A noise multiplier above this number is replaced by it, which can only increase the cost."""

_BUCKETS = 128
"""Largest number of different noise multipliers of sampled Gaussians; more are rounded down."""

_ROW_COUNTS = 50
"""Largest number of dominating pairs that cover the true number of rows of capped batches; above it, one pair is used.

That pair costs more than any of them.
"""

Leaves = Sequence[tuple[Event, int]]
"""Simple events with their numbers of repetitions."""

Profile = Callable[[Event], tuple[Array, Array, float]]
"""A function from an event to the finite losses, probabilities and failure probability of its pair."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """A flattened composition.

    `pairs` are dominating pairs with their numbers of repetitions. `survive` is the log probability that no release
    fails outright. `rho` is the sum of zCDP parameters, which bound a Rényi curve and have no pair.
    """

    pairs: tuple[tuple[DominatingPair, int], ...] = ()
    survive: float = 0.0
    rho: float = 0.0

    @property
    def failure(self) -> float:
        return -math.expm1(self.survive)

    def directions(self) -> tuple[str, ...]:
        return DIRECTIONS[:1] if all(pair.symmetric for pair, _ in self.pairs) else DIRECTIONS

    def gaussian(self) -> float | None:
        """Return mu (sensitivity / noise) if there are only Gaussian releases without sampling or failures.

        Otherwise return None.
        """
        if len(self.pairs) == 1 and isinstance(pair := self.pairs[0][0], GaussianPair) and not self.rho:
            return pair.mu if self.survive == 0 else None
        return None

    def without_sampling(self) -> float | None:
        """Return mu of a Gaussian that costs at least as much, or None if the terms have other releases or may fail.

        A release on a sample costs no more than the same release on all rows.
        """
        shifts = [pair.largest_shift() for pair, _ in self.pairs]
        if self.rho or self.survive or not shifts or any(shift is None for shift in shifts):
            return None
        return math.sqrt(sum(n * shift**2 for (_, n), shift in zip(self.pairs, shifts) if shift))

    def pure(self) -> float:
        """Return an epsilon that holds with delta 0 if no release fails; infinite with Gaussian or zCDP releases."""
        return sum(n * pair.pure() for pair, n in self.pairs) if not self.rho else math.inf


def expect_priceable(event: Event, count: int = 1) -> None:
    """Raise `WrongInput` if a number of the event, repeated `count` times, is too extreme for floating point.

    A release may have at most 10^18 repetitions. An epsilon, rho, mean or size may be at most 1e50, and a noise
    multiplier must be at least 1e-50. Events inside the event are checked too.

    >>> expect_priceable(10**30 * Gaussian(noise=1.0))
    Traceback (most recent call last):
    privaware.errors.WrongInput: expected at most 1e+18 repetitions of a release, got 1e+30
    """
    for leaf, times in leaves(event, count):
        if times > MAX_REPETITIONS:
            shown = f"{times:.3g}" if times < 10**300 else "more than 1e+300"
            raise WrongInput(f"expected at most {MAX_REPETITIONS:.0e} repetitions of a release, got {shown}")
        for name in ("epsilon", "rho", "mean", "size"):
            if getattr(leaf, name, 0) > LARGEST_PARAMETER:
                raise WrongInput(f"{type(leaf).__name__}: expected {name} up to {LARGEST_PARAMETER:g}, got more")
        if getattr(leaf, "noise", 1.0) < 1 / LARGEST_PARAMETER:
            raise WrongInput(f"{type(leaf).__name__}: expected noise from {1 / LARGEST_PARAMETER:g} on, got less")
        inner = getattr(leaf, "events", None) or [getattr(leaf, "event", None)]
        for part in inner:
            if isinstance(part, Event):
                expect_priceable(part, times)


@dataclass(frozen=True, kw_only=True)
class CappedStep(Event):
    """A step on a capped batch, with the `pair` that covers some of the possible true numbers of rows."""

    pair: CappedGaussian


def alternatives(event: Event) -> list[list[tuple[Event, int]]]:
    """Return the ways in which an event can affect a row, each as a list of (simple event, repetitions).

    There is one way for each choice of a part of every `Disjoint`, combined with each pair that `_capped.candidates`
    returns for a capped batch; a capped batch becomes `CappedStep` events. Raise `Refused` if `Disjoint` parts give
    more than 1000 ways.
    """
    ways: list[list[tuple[Event, int]]] = [[]]
    for leaf, count in leaves(event):
        if isinstance(leaf, Disjoint):
            inner = [tuple(way) for part in leaf.events for way in alternatives(part)]
            unique = list(dict.fromkeys(inner))
            ways = [way + [(e, n * count) for e, n in extra] for way in ways for extra in unique]
            if len(ways) > 1000:
                raise Refused(
                    "the event composes too many disjoint releases to compare every choice of parts; "
                    "compose inside each part instead"
                )
        else:
            steps = _capped_steps(leaf, len(ways)) if isinstance(leaf, Sampled) and leaf.cap is not None else [leaf]
            ways = [[*way, (step, count)] for way in ways for step in steps]
    return ways


def _capped_steps(leaf: Sampled, ways: int) -> list[Event]:
    inner = list(leaves(leaf.event))
    if leaf.rows is None or leaf.cap is None or not inner or not all(isinstance(e, Gaussian) for e, _ in inner):
        return [leaf]
    swap = leaf.relation == "replace_one"
    pairs = candidates(_combined(inner), leaf.rate, leaf.rows, leaf.cap, swap, _ROW_COUNTS // ways)
    if len(pairs) > 1 and ways * len(pairs) > _ROW_COUNTS:  # replacement at the full rate costs more than any of them
        pairs = (replace(pairs[0], overflow=max(pair.overflow for pair in pairs), pushed=leaf.rate),)
    return [CappedStep(pair=pair) for pair in pairs]


def flatten(parts: Leaves, profile: Profile) -> Terms:
    """Return the `Terms` of the composition of `parts`, pairs of a simple event and its number of repetitions.

    `parts` is one of `alternatives`, so it has no `Disjoint`. `profile(event)` returns the pair (losses, probabilities,
    failure) of an event without a formula. Raise `Refused` for an unproven event.
    """
    total = _Total(profile)
    for leaf, count in parts:
        total.add(leaf, count)
    return total.terms()


class _Total:
    """The terms of a composition while events are added to it; `terms` then returns them as `Terms`.

    `profile(event)` returns the pair (losses, probabilities, failure) of an event without a formula.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.precision = 0.0
        self.pairs: dict[DominatingPair, int] = {}
        self.survive = 0.0
        self.rho = 0.0

    def terms(self) -> Terms:
        pairs = list(_bucketed(self.pairs).items())
        if self.precision:
            pairs.insert(0, (GaussianPair(mu=math.sqrt(self.precision)), 1))
        return Terms(pairs=tuple(pairs), survive=self.survive, rho=self.rho)

    def compose(self, pair: DominatingPair, count: int) -> None:
        if pair.pure() > 0:
            self.pairs[pair] = self.pairs.get(pair, 0) + count

    def gaussian(self, noise: float, count: int) -> None:
        self.precision += count / min(noise, MAX_NOISE) ** 2

    def fail(self, delta: float, count: int) -> None:
        self.survive += count * math.log1p(-delta) if delta < 1 else -math.inf

    def add(self, leaf: Event, count: int) -> None:
        match leaf:
            case Gaussian(noise=noise):
                self.gaussian(noise, count)
            case CappedStep(pair=pair):
                self.compose(pair, count)
            case Sampled():
                self.sampled(leaf, count)
            case Group():
                self.group(leaf.event, leaf.size, count)
            case _:
                self.sampled_one(leaf, 1.0, count)

    def by_profile(self, leaf: Event, count: int, rate: float = 1.0) -> None:
        losses, probs, failure = self.profile(leaf)
        self.fail(failure * rate, count)
        remove = add = (losses, probs)
        if rate < 1:
            remove, add = (sample(losses, probs, rate, direction) for direction in DIRECTIONS)
        self.compose(TabulatedPair(event=leaf, rate=rate, remove=remove, add=add), count)

    def sampled(self, leaf: Sampled, count: int) -> None:
        """Add `count` times the pair ((1-rate) Q + rate P, Q) of `leaf`, where (P, Q) is the pair of its releases.

        A formula is used if one exists, and a tabulated pair otherwise. If a row is replaced, or the batch is capped,
        the pair is another one, which is known for Gaussian releases only; any other release then raises `WrongInput`.
        """
        inner = list(leaves(leaf.event))
        if not inner:
            return
        swap, rate = leaf.relation == "replace_one", leaf.rate
        if all(isinstance(e, Gaussian) for e, _ in inner):
            noise = _combined(inner)
            if leaf.cap is not None:
                self.by_profile(Disjoint(events=(leaf,)), count)
            elif rate == 1:
                self.gaussian(noise / (2 if swap else 1), count)
            else:
                self.compose(SampledGaussian(noise=noise, rate=rate, replace=swap), count)
            return
        if swap or leaf.cap is not None:
            raise WrongInput(
                "the cost under replace_one and of capped batches is known for Gaussian releases only, "
                f"got a sample of {leaf.event}; use Gaussian noise, or Poisson sampling under add_remove"
            )
        if len(inner) == 1 and inner[0][1] == 1:
            self.sampled_one(inner[0][0], rate, count)
        else:
            self.by_profile(Composed(events=tuple(n * e for e, n in inner)), count, rate)

    def sampled_one(self, inner: Event, rate: float, count: int) -> None:
        """Add `count` times the pair of `inner`, one release that is not Gaussian, on a sample at `rate` (1: all rows).

        Sampling is not credited for zCDP. Raise `Refused` for an unproven event.
        """
        match inner:
            case Laplace(noise=noise):
                self.compose(SampledLaplace(noise=min(noise, MAX_NOISE), rate=rate), count)
            case Pure(epsilon=epsilon):
                self.compose(ResponsePair(epsilon=epsilon, rate=rate), count)
            case RandomisedResponse(epsilon=epsilon, classes=classes):
                self.compose(ResponsePair(epsilon=epsilon, classes=classes, rate=rate), count)
            case Approximate(epsilon=epsilon, delta=delta):
                # The worst such release fails with probability delta, otherwise it is randomised response (Kairouz
                # et al. 2015). A sample has ln(1 + rate (e^epsilon - 1)) and rate * delta (Balle et al. 2018).
                self.fail(rate * delta, count)
                if epsilon > 0:
                    self.compose(ResponsePair(epsilon=epsilon, rate=rate), count)
            case ZCDP(rho=rho):
                self.rho += count * rho  # sampling does not reduce a cost of which only zCDP is known
            case Sampled(relation="add_remove", cap=None):
                self.sampled(Sampled(event=inner.event, rate=rate * inner.rate), count)
            case Unproven(reason=reason):
                raise Refused(f"no guarantee can be computed: {reason}")
            case _:  # Selected, AnyOf, and Disjoint or Group inside a sample or a group
                self.by_profile(inner, count, rate)

    def group(self, event: Event, size: int, count: int) -> None:
        """Add `count` times the terms of `event` for a unit of `size` rows, each release for the whole unit.

        There is one exception. A failure probability (`Approximate` with epsilon 0) belongs to another release of the
        same composition. If it is proven for fewer than `size` rows, that release may fail more often for the whole
        unit. Then the whole composition counts as one release, to which group privacy is applied.
        """
        parts = list(leaves(event))
        if len(parts) > 1 and any(_fails_alone(leaf) and _covered(leaf) < size for leaf, _ in parts):
            self.by_profile(Group(event=event, size=size), count)
            return
        for leaf, times in parts:
            self.group_one(leaf, size, count * times)

    def group_one(self, leaf: Event, size: int, count: int) -> None:
        match leaf:
            case Gaussian(noise=noise):
                self.gaussian(noise / size, count)
            case Laplace(noise=noise):
                self.compose(SampledLaplace(noise=min(noise, MAX_NOISE) / size), count)
            case Pure(epsilon=epsilon):
                self.compose(ResponsePair(epsilon=size * epsilon), count)
            case Approximate(epsilon=epsilon, delta=delta):
                steps = -(-size // _covered(leaf))
                self.fail(math.exp(min(0.0, math.log(delta) + log_growth(steps, epsilon))), count)
                if epsilon > 0:
                    self.compose(ResponsePair(epsilon=steps * epsilon), count)
            case RandomisedResponse():
                self.add(leaf, count * size)  # every row of the unit is randomised independently
            case ZCDP(rho=rho):
                self.rho += count * size**2 * rho  # Bun and Steinke 2016
            case Group(event=inner, size=more):
                self.group(inner, size * more, count)
            case Unproven():
                self.add(leaf, count)
            case Sampled(relation="add_remove", cap=None) if self.group_sampled(leaf, size, count):
                return
            case _ if size == 1:
                self.add(leaf, count)
            case _:
                self.by_profile(Group(event=leaf, size=size), count)

    def group_sampled(self, leaf: Sampled, size: int, count: int) -> bool:
        inner = list(leaves(leaf.event))
        if not inner or not all(isinstance(e, Gaussian) for e, _ in inner):
            return False
        noise = _combined(inner)
        if leaf.rate == 1:
            self.gaussian(noise / size, count)
        else:
            self.compose(SampledGaussian(noise=noise, rate=leaf.rate, group=size), count)
        return True


def _fails_alone(leaf: Event) -> bool:
    """Return whether `leaf` is an `Approximate` with epsilon 0: only the failure probability of another release."""
    return isinstance(leaf, Approximate) and leaf.epsilon == 0


def _covered(leaf: Event) -> int:
    """Return the largest number of rows in which neighbours may differ for the guarantee of `leaf` to hold.

    It is 1 if the event does not state it.
    """
    return getattr(leaf, "rows", None) or 1


def _combined(gaussians: Leaves) -> float:
    """Return the noise multiplier, at most `MAX_NOISE`, of one Gaussian that costs as much as `gaussians` together."""
    least = min(e.noise for e, _ in gaussians)  # type: ignore[attr-defined]
    return min(MAX_NOISE, least / math.sqrt(sum(n * (least / e.noise) ** 2 for e, n in gaussians)))  # type: ignore[attr-defined]


def log_growth(size: int, epsilon: float) -> float:
    """Return ln of the sum of exp(i * epsilon) over i = 0, ..., size - 1, the factor of delta for a group."""
    if epsilon == 0:
        return math.log(size)
    return (size - 1) * epsilon + math.log(math.expm1(-size * epsilon) / math.expm1(-epsilon))


def _bucketed(pairs: dict[DominatingPair, int]) -> dict[DominatingPair, int]:
    """Round more than `_BUCKETS` different noise multipliers of sampled Gaussians down to about `_BUCKETS` values.

    `pairs` maps pairs to their numbers of repetitions, as does the result. With at most `_BUCKETS` different noise
    multipliers, `pairs` itself is returned.
    """
    noises = {pair.noise for pair in pairs if isinstance(pair, SampledGaussian)}
    if len(noises) <= _BUCKETS:
        return pairs
    least = min(noises)
    width = math.log(max(noises) / least) / _BUCKETS  # more than 0, because so many different numbers span it
    out: dict[DominatingPair, int] = {}
    for pair, count in pairs.items():
        rounded = pair
        if isinstance(pair, SampledGaussian):
            step = math.floor(math.log(pair.noise / least) / width + 1e-9)
            rounded = replace(pair, noise=min(pair.noise, least * math.exp(width * step)))
        out[rounded] = out.get(rounded, 0) + count
    return out


def contains(event: Event, kind: type[Event]) -> bool:
    """Return whether `event`, or an event anywhere inside it, is of type `kind`."""
    return any(isinstance(part, kind) for part in nested(event))


def pair_from_profile(epsilons: Array, deltas: Array, reverse: Array | None = None) -> tuple[Array, Array, float]:
    """Return the pair (losses, probabilities if nothing fails, failure) of an upper bound on a profile.

    1. `deltas` bound the profile at `epsilons` >= 0.
    2. At negative epsilons, delta(-e) = 1 - exp(-e) + exp(-e) delta'(e), where delta' is the profile of the other
       direction (`reverse`). Without `reverse`, `deltas` bound both directions.
    3. The true profile is convex in e^epsilon, so it lies below the lower convex hull of any upper bound.
    4. The profile of straight lines (in e^epsilon) between the points is the profile of losses at these points
       ("connecting the dots").
    """
    deltas = np.minimum.accumulate(np.minimum(deltas, 1.0))
    reverse = deltas if reverse is None else np.minimum.accumulate(np.minimum(reverse, 1.0))
    top = float(epsilons[-1])
    if deltas[-1] == 1:  # nothing is proven at any epsilon
        return np.zeros(1), np.ones(1), 1.0
    if top < 1e-9:  # the points are too close together, so take the worst release with this epsilon and delta
        losses = np.array([-top, top])
        return losses, 1 / (1 + np.exp(-losses)), float(deltas[-1])
    negative = epsilons[:0:-1]
    mirrored = -np.expm1(-negative) + np.exp(-negative) * reverse[:0:-1]
    e = np.concatenate([-negative, epsilons])
    d = _hull(e, np.concatenate([mirrored, deltas]))
    rise, gap = np.diff(d), np.diff(e)
    at_lower = rise * np.exp(-gap) / -np.expm1(-gap)
    probs = np.append(1 - d[0], rise / np.expm1(-gap)) + np.append(at_lower, 0.0)
    probs = np.maximum(probs, 0.0)
    some = probs > 0
    some[[0, -1]] = True  # the ends show how large a loss can be
    return e[some], probs[some] / probs.sum(), float(d[-1])


def _hull(epsilons: Array, deltas: Array) -> Array:
    """Return the lower convex hull of the points (e^epsilon, delta), evaluated at the same ascending `epsilons`.

    Only ratios (e^b - e^a) / (e^c - e^a) with a <= b <= c are computed, so no epsilon overflows.
    """
    e, d = epsilons.tolist(), deltas.tolist()
    keep: list[int] = []
    for i in range(len(e)):
        while len(keep) > 1:
            a, b = keep[-2], keep[-1]
            ratio = math.exp(e[b] - e[i]) * math.expm1(e[a] - e[b]) / math.expm1(e[a] - e[i])
            if d[b] - d[a] <= (d[i] - d[a]) * ratio:
                break
            keep.pop()
        keep.append(i)
    corners = np.array(keep)
    right = np.searchsorted(epsilons[corners], epsilons).clip(1)
    a, b = corners[right - 1], corners[right]
    ratio = np.exp(epsilons - epsilons[b]) * np.expm1(epsilons[a] - epsilons) / np.expm1(epsilons[a] - epsilons[b])
    return deltas[a] + (deltas[b] - deltas[a]) * ratio  # type: ignore[no-any-return]
