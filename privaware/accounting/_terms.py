"""Events become `Terms`: the flat list of pairs that the accountants compose.

Gaussians collapse into one (their squared inverse noises add up, exactly, also when later ones depend on earlier
outputs); chances of outright failure are multiplied together; samples and groups find the pair that dominates
them.
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
)

LARGEST_PARAMETER = 1e50
"""Largest epsilon, rho, mean or size of an event that is priced; a noise multiplier is at least its inverse."""

MOST = 10**18
"""Most repetitions of a release that are priced."""

ENDLESS = 1e15
"""Noise multiplier above which an event is priced as at this one."""

_BUCKETS = 128
_ROW_COUNTS = 50  # true numbers of rows that are told apart
Leaves = Sequence[tuple[Event, int]]
Profile = Callable[[Event], tuple[Array, Array, float]]  # finite losses, probabilities, failure


@dataclass(frozen=True, kw_only=True)
class Terms:
    """A composition, flattened: dominating pairs with their counts, and what has none."""

    pairs: tuple[tuple[DominatingPair, int], ...] = ()
    survive: float = 0.0  # ln of the probability that no release fails outright
    rho: float = 0.0  # zCDP is a bound on a curve, not a pair: only RDP can use it

    @property
    def failure(self) -> float:
        return -math.expm1(self.survive)

    def directions(self) -> tuple[str, ...]:
        return DIRECTIONS[:1] if all(pair.symmetric for pair, _ in self.pairs) else DIRECTIONS

    def gaussian(self) -> float | None:
        """mu, if all there is are Gaussians."""
        if len(self.pairs) == 1 and isinstance(pair := self.pairs[0][0], GaussianPair) and not self.rho:
            return pair.mu if self.survive == 0 else None
        return None

    def without_sampling(self) -> float | None:
        """mu of Gaussians at least as costly (a sample costs no more than all rows), None with anything else."""
        shifts = [pair.largest_shift() for pair, _ in self.pairs]
        if self.rho or self.survive or not shifts or any(shift is None for shift in shifts):
            return None
        return math.sqrt(sum(n * shift**2 for (_, n), shift in zip(self.pairs, shifts) if shift))

    def pure(self) -> float:
        """An epsilon that holds with delta 0, but for failures."""
        return sum(n * pair.pure() for pair, n in self.pairs) if not self.rho else math.inf


def expect_priceable(event: Event, count: int = 1) -> None:
    """Numbers that floating point can price; what is beyond them is meant by nobody.

    >>> expect_priceable(10**30 * Gaussian(noise=1.0))
    Traceback (most recent call last):
    privaware.errors.WrongInput: expected at most 1e+18 repetitions of a release, got 1e+30
    """
    for leaf, times in leaves(event, count):
        if times > MOST:
            shown = f"{times:.3g}" if times < 10**300 else "more than 1e+300"
            raise WrongInput(f"expected at most {MOST:.0e} repetitions of a release, got {shown}")
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
    """A step on a capped batch, for some of the true numbers of rows."""

    pair: CappedGaussian


def alternatives(event: Event) -> list[list[tuple[Event, int]]]:
    """The ways a row can meet the event: one list of leaves for each choice of a part of every `Disjoint`, and for
    each true number of rows that can be the dearest for a capped batch.
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
    if len(pairs) > 1 and ways * len(pairs) > _ROW_COUNTS:  # pushed at the full rate is dearer than any of them
        pairs = (replace(pairs[0], overflow=max(pair.overflow for pair in pairs), pushed=leaf.rate),)
    return [CappedStep(pair=pair) for pair in pairs]


def flatten(parts: Leaves, profile: Profile) -> Terms:
    """Terms of leaves without `Disjoint`; `profile` gives a pair for an event that has none by name."""
    total = _Total(profile)
    for leaf, count in parts:
        total.add(leaf, count)
    return total.terms()


class _Total:
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
        self.precision += count / min(noise, ENDLESS) ** 2

    def fail(self, delta: float, count: int) -> None:
        self.survive += count * math.log1p(-delta) if delta < 1 else -math.inf

    def add(self, leaf: Event, count: int) -> None:
        match leaf:
            case Gaussian(noise=noise):
                self.gaussian(noise, count)
            case Laplace(noise=noise):
                self.compose(SampledLaplace(noise=min(noise, ENDLESS)), count)
            case Pure(epsilon=epsilon):
                self.compose(ResponsePair(epsilon=epsilon), count)
            case RandomisedResponse(epsilon=epsilon, classes=classes):
                self.compose(ResponsePair(epsilon=epsilon, classes=classes), count)
            case Approximate(epsilon=epsilon, delta=delta):
                # The worst such release fails with probability delta, and else is a response (Kairouz et al. 2015).
                self.fail(delta, count)
                if epsilon > 0:
                    self.compose(ResponsePair(epsilon=epsilon), count)
            case ZCDP(rho=rho):
                self.rho += count * rho
            case CappedStep(pair=pair):
                self.compose(pair, count)
            case Sampled():
                self.sampled(leaf, count)
            case Group():
                self.group(leaf.event, leaf.size, count)
            case Unproven(reason=reason):
                raise Refused(f"no guarantee can be computed: {reason}")
            case _:  # Selected, AnyOf, and Disjoint inside a sample or a group
                self.by_profile(leaf, count)

    def by_profile(self, leaf: Event, count: int, rate: float = 1.0) -> None:
        losses, probs, failure = self.profile(leaf)
        self.fail(failure * rate, count)
        if rate == 1:
            table = (losses, probs)
            self.compose(TabulatedPair(event=leaf, remove=table, add=table), count)
        else:
            remove, add = (sample(losses, probs, rate, d) for d in DIRECTIONS)
            self.compose(TabulatedPair(event=leaf, rate=rate, remove=remove, add=add), count)

    def sampled(self, leaf: Sampled, count: int) -> None:
        """The pair ((1-rate) Q + rate P, Q) of the inner pair (P, Q), named where it has a name."""
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
                "replace_one and capped batches are priced for Gaussian releases only, "
                f"got a sample of {leaf.event}; use Gaussian noise, or Poisson sampling under add_remove"
            )
        if len(inner) == 1 and inner[0][1] == 1:
            self.sampled_one(inner[0][0], rate, count)
        else:
            self.by_profile(Composed(events=tuple(n * e for e, n in inner)), count, rate)

    def sampled_one(self, inner: Event, rate: float, count: int) -> None:
        match inner:
            case Laplace(noise=noise):
                self.compose(SampledLaplace(noise=min(noise, ENDLESS), rate=rate), count)
            case Pure(epsilon=epsilon):
                self.compose(ResponsePair(epsilon=epsilon, rate=rate), count)
            case RandomisedResponse(epsilon=epsilon, classes=classes):
                self.compose(ResponsePair(epsilon=epsilon, classes=classes, rate=rate), count)
            case Approximate(epsilon=epsilon, delta=delta):
                # Balle, Barthe and Gaboardi 2018: ln(1 + rate (e^epsilon - 1)) and rate * delta.
                self.fail(rate * delta, count)
                if epsilon > 0:
                    self.compose(ResponsePair(epsilon=epsilon, rate=rate), count)
            case ZCDP(rho=rho):
                self.rho += count * rho  # nothing is gained for a bare curve, and nothing lost
            case Sampled(relation="add_remove", cap=None):
                self.sampled(Sampled(event=inner.event, rate=rate * inner.rate), count)
            case Unproven():
                self.add(inner, count)
            case _:
                self.by_profile(inner, count, rate)

    def group(self, event: Event, size: int, count: int) -> None:
        """A unit of `size` rows. Each release of a composition is priced for the whole unit.

        A chance of failure that is proven for fewer rows is not: the release beside it may fail more often for the
        unit than its rows do one by one. Then the composition is one release, which the group lemma prices.
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
                self.compose(SampledLaplace(noise=min(noise, ENDLESS) / size), count)
            case Pure(epsilon=epsilon):
                self.compose(ResponsePair(epsilon=size * epsilon), count)
            case Approximate(epsilon=epsilon, delta=delta):
                steps = -(-size // _covered(leaf))
                self.fail(math.exp(min(0.0, math.log(delta) + log_growth(steps, epsilon))), count)
                if epsilon > 0:
                    self.compose(ResponsePair(epsilon=steps * epsilon), count)
            case RandomisedResponse():
                self.add(leaf, count * size)  # every row of the unit is randomised on its own
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
    """Whether the event is the chance that a release beside it fails."""
    return isinstance(leaf, Approximate) and leaf.epsilon == 0


def _covered(leaf: Event) -> int:
    """For neighbours how many rows apart the event holds."""
    return getattr(leaf, "rows", None) or 1


def _combined(gaussians: Leaves) -> float:
    """The noise of one Gaussian that costs what these do together."""
    least = min(e.noise for e, _ in gaussians)  # type: ignore[attr-defined]
    return min(ENDLESS, least / math.sqrt(sum(n * (least / e.noise) ** 2 for e, n in gaussians)))  # type: ignore[attr-defined]


def log_growth(size: int, epsilon: float) -> float:
    """ln of 1 + e^epsilon + ... + e^((size - 1) epsilon), by which a group multiplies delta."""
    if epsilon == 0:
        return math.log(size)
    return (size - 1) * epsilon + math.log(math.expm1(-size * epsilon) / math.expm1(-epsilon))


def _bucketed(pairs: dict[DominatingPair, int]) -> dict[DominatingPair, int]:
    """At most `_BUCKETS` noises of sampled Gaussians: those of a long schedule are rounded, downwards, to these."""
    many = [pair for pair in pairs if isinstance(pair, SampledGaussian)]
    if len(many) <= _BUCKETS:
        return pairs
    least = min(pair.noise for pair in many)
    ratio = (max(pair.noise for pair in many) / least) ** (1 / _BUCKETS)
    out: dict[DominatingPair, int] = {}
    for pair, count in pairs.items():
        rounded = pair
        if isinstance(pair, SampledGaussian):
            step = math.floor(math.log(pair.noise / least) / math.log(ratio) + 1e-9)
            rounded = replace(pair, noise=min(pair.noise, least * ratio**step))
        out[rounded] = out.get(rounded, 0) + count
    return out


def contains(event: Event, kind: type[Event]) -> bool:
    """Whether an event of `kind` occurs anywhere inside."""
    if isinstance(event, kind):
        return True
    inner = getattr(event, "events", None) or [getattr(event, "event", None)]
    return any(contains(part, kind) for part in inner if isinstance(part, Event))


def pair_from_profile(epsilons: Array, deltas: Array, reverse: Array | None = None) -> tuple[Array, Array, float]:
    """The pair (losses, probabilities, failure) of a bound delta(epsilon) at epsilons >= 0, by connecting the dots.

    It extends to negative epsilon by delta(-e) = 1 - e^-e + e^-e delta'(e), delta' being that of the other direction
    (`reverse`; left out, `deltas` bounds both). A true one is convex in e^epsilon, so it lies below the lower convex
    hull of any bound on it. The straight lines between the dots (in e^epsilon) belong to losses at the dots.
    """
    deltas = np.minimum.accumulate(np.minimum(deltas, 1.0))
    reverse = deltas if reverse is None else np.minimum.accumulate(np.minimum(reverse, 1.0))
    top = float(epsilons[-1])
    if deltas[-1] == 1:  # nothing is proven at any epsilon
        return np.zeros(1), np.ones(1), 1.0
    if top < 1e-9:  # too close together to tell the dots apart: any release with these epsilon and delta
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
    some[[0, -1]] = True  # the ends say how large a loss can be
    return e[some], probs[some] / probs.sum(), float(d[-1])


def _hull(epsilons: Array, deltas: Array) -> Array:
    """Lower convex hull of the points (e^epsilon, delta), evaluated at the same epsilons.

    Only ratios (e^b - e^a) / (e^c - e^a) with a <= b <= c are taken, so no epsilon is too large.
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
