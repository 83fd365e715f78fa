"""One event, looked at by every accountant: which bounds exist, which is reported, and what must agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from privaware.accounting import _cf, _gaussian, _pld, _rdp, _selection
from privaware.accounting._grid import OutOfReach
from privaware.accounting._pairs import Array, GaussianPair
from privaware.accounting._terms import (
    Leaves,
    Terms,
    alternatives,
    contains,
    expect_priceable,
    flatten,
    pair_from_profile,
)
from privaware.errors import Refused
from privaware.events import AnyOf, Composed, Disjoint, Event, Group, Sampled, Selected, Unproven

AGREEMENT = 5e-3
# Below this epsilon nothing is distinguishable: the smallest target anyone calibrates to is a thousand times
# larger, and a relative comparison of two numbers that are both zero but for rounding would refuse perfect
# privacy.
FLOOR = 1e-6


def bounds(event: Event, delta: float, orders: Sequence[float]) -> dict[str, Any]:
    """Every bound of the dearest way a row can meet the event."""
    expect_priceable(event)
    ways = [_way(way, delta, tuple(orders), full=True) for way in alternatives(event)]
    return max(ways, key=lambda way: float(way["epsilon"]))


def epsilon(event: Event, delta: float) -> float:
    """What is reported, without the bounds that are only for comparison."""
    expect_priceable(event)
    ways = alternatives(event)
    return max(float(_way(way, delta, _rdp.ORDERS, full=False)["epsilon"]) for way in ways)


def quick(event: Event, delta: float) -> float:
    """Close to `epsilon` and faster: the characteristic function alone, where the distribution would be reported."""
    expect_priceable(event)
    worst = 0.0
    for way in alternatives(event):
        terms = None if any(contains(leaf, Selected) for leaf, _ in way) else _terms_or_none(way)
        if terms is None:
            worst = max(worst, float(_way(way, delta, _rdp.ORDERS, full=False)["epsilon"]))
        elif (mu := _negligible(terms, delta).gaussian()) is not None:
            worst = max(worst, _gaussian.epsilon(mu, delta))
        elif terms.rho or not _pld.reachable(terms):
            worst = max(worst, min(_rdp.epsilon(terms, delta), _pure(terms, delta)))
        else:
            try:
                worst = max(worst, _cf.epsilon(terms, delta))
            except _cf.TooSlow:
                worst = max(worst, _rdp.epsilon(terms, delta))
    return worst


def delta(event: Event, epsilon: float) -> float:
    """By the privacy loss distribution; by Renyi divergences where there is none."""
    expect_priceable(event)
    return max(min(_delta_of(way, epsilon), 1.0) for way in alternatives(event))


def _delta_of(way: Leaves, epsilon: float) -> float:
    terms = None if _only_curves(way) else _terms_or_none(way)
    if terms is not None:
        with suppress(OutOfReach):
            return float(_profile_of(terms)(np.array([epsilon]))[0])
    curve, failure = _rdp_curve(way, _rdp.ORDERS)
    return failure + (1 - failure) * _rdp.delta(_rdp.ORDERS, curve, epsilon)


def _way(way: Leaves, delta: float, orders: tuple[float, ...], *, full: bool) -> dict[str, Any]:
    out: dict[str, Any] = dict.fromkeys(("pld", "cf", "rdp", "rdp_classic"))
    selected = any(contains(leaf, Selected) for leaf, _ in way)
    terms = _terms_or_none(way) if not _only_curves(way) else None
    if terms is not None and _composable(terms := _negligible(terms, delta)):
        try:
            out["pld"], out["cf"] = _distributions(way, terms, delta)
        except (OutOfReach, _cf.TooSlow):
            terms = None
        else:
            agree(out["pld"], out["cf"])
            if out["pld"] == math.inf:  # delta is below the tail that a grid leaves out
                out["pld"] = out["cf"] = None
    if full or selected or out["pld"] is None:
        curve, failure = _rdp_curve(way, orders)
        if failure < delta:
            rest = (delta - failure) / (1 - failure)
            out["rdp"] = _rdp.convert(orders, curve, rest)
            out["rdp_classic"] = _rdp.convert(orders, curve, rest, classic=True)
    candidates = {
        "privacy_profile" if selected else "pld": out["pld"],
        "papernot_steinke" if selected else "rdp": (out["rdp"] if selected or out["pld"] is None else None),
    }
    if terms is not None:
        candidates["pure"] = _pure(terms, delta) if out["pld"] is None else None
    known = {name: value for name, value in candidates.items() if value is not None}
    if not known:
        known = {"rdp": math.inf}
    out["method"] = min(known, key=lambda name: known[name])
    out["epsilon"] = known[out["method"]]
    return out


def agree(pld: float, cf: float) -> None:
    """Fails closed: two accountants that share no numerics must say the same."""
    if pld == cf or abs(pld - cf) <= max(AGREEMENT * max(pld, cf), FLOOR):
        return
    raise Refused(
        f"the accountants disagree (privacy loss distribution {pld:.6g}, characteristic function {cf:.6g}), "
        "so no epsilon is reported; please report the event"
    )


def _distributions(way: Leaves, terms: Terms, delta: float) -> tuple[float, float]:
    if len(way) == 1 and isinstance(leaf := way[0][0], Selected) and way[0][1] == 1:
        return _selected_alone(leaf, delta)
    return _by_distribution(terms, delta), _cf.epsilon(terms, delta)


def _by_distribution(terms: Terms, delta: float) -> float:
    mu = terms.gaussian()
    return _pld.epsilon(terms, delta) if mu is None else _gaussian.epsilon(mu, delta)


def _composable(terms: Terms) -> bool:
    return not terms.rho and (terms.gaussian() is not None or _pld.reachable(terms))


def _negligible(terms: Terms, delta: float) -> Terms:
    """Gaussian releases that cost next to nothing even without sampling are priced so: no grid resolves them."""
    mu = terms.without_sampling()
    if mu is None or terms.gaussian() is not None or _gaussian.epsilon(mu, delta) > FLOOR:
        return terms
    return Terms(pairs=((GaussianPair(mu=mu), 1),))


def _pure(terms: Terms, delta: float) -> float:
    return terms.pure() if terms.failure <= delta else math.inf


def _only_curves(way: Leaves) -> bool:
    """Poisson selection and anything on top of zCDP has no profile here."""
    return any(contains(leaf, Selected) and not _has_profile(leaf) for leaf, _ in way)


def _has_profile(event: Event) -> bool:
    if isinstance(event, Selected):
        inner = [flatten(w, dominating_pair) for w in alternatives(event.event)] if _no_selection(event.event) else []
        return event.distribution != "poisson" and all(_composable(t) for t in inner)
    parts = getattr(event, "events", None) or [getattr(event, "event", None)]
    return all(_has_profile(part) for part in parts if isinstance(part, Event))


def _no_selection(event: Event) -> bool:
    return not contains(event, Selected)


def _terms_or_none(way: Leaves) -> Terms | None:
    try:
        return flatten(way, dominating_pair)
    except OutOfReach:
        return None


def _rdp_curve(way: Leaves, orders: tuple[float, ...]) -> tuple[Array, float]:
    """Divergences at the orders, and the probability of outright failure."""
    plain = [(leaf, n) for leaf, n in way if _has_pair(leaf)]
    terms = flatten(plain, dominating_pair)
    total, survive = _rdp.curve(terms, orders), terms.survive
    for leaf, count in way:
        if not _has_pair(leaf):
            curve, failure = _curve_without_pair(leaf, orders)
            total = total + count * curve
            survive += count * math.log1p(-failure) if failure < 1 else -math.inf
    return total, -math.expm1(survive)


def _has_pair(leaf: Event) -> bool:
    return not isinstance(leaf, Selected) and _terms_or_none([(leaf, 1)]) is not None


def _curve_without_pair(leaf: Event, orders: tuple[float, ...]) -> tuple[Array, float]:
    """Where losses are too large for a distribution: the dearest part at each order, and nothing for sampling."""
    if isinstance(leaf, Selected):
        return _selected_curve(leaf, orders)
    if isinstance(leaf, (AnyOf, Disjoint, Sampled)):
        parts = leaf.events if isinstance(leaf, (AnyOf, Disjoint)) else (leaf.event,)
        curves = [_rdp_curve(way, orders) for part in parts for way in alternatives(part)]
        return np.max([curve for curve, _ in curves], axis=0), max(failure for _, failure in curves)
    return np.full(len(orders), math.inf), 0.0


@lru_cache(maxsize=64)
def _selected_curve(selected: Selected, orders: tuple[float, ...]) -> tuple[Array, float]:
    """The curve of runs that do not fail outright, and the probability that any of them does."""
    curves = [_rdp_curve(way, orders) for way in alternatives(selected.event)]
    base = np.max([curve for curve, _ in curves], axis=0)
    chance = None
    if selected.distribution == "poisson":
        chance = _profile_or_curve(selected, base, orders)
    failure = _selection.failure(selected, max(failure for _, failure in curves))
    return _selection.renyi(selected, np.asarray(orders), base, chance), failure


def _profile_or_curve(selected: Selected, base: Array, orders: tuple[float, ...]) -> _selection.Profile:
    try:
        return _largest_profile(_runs(selected)[0])
    except OutOfReach:
        return lambda epsilons: np.array([_rdp.delta(orders, base, float(e)) for e in epsilons])


def _runs(selected: Selected) -> tuple[list[Terms], float]:
    """One run that does not fail outright, every way, and the probability that any run does."""
    ways = [flatten(way, dominating_pair) for way in alternatives(selected.event)]
    failure = _selection.failure(selected, max(terms.failure for terms in ways))
    return [replace(terms, survive=0.0) for terms in ways], failure


def _selected_alone(selected: Selected, delta: float) -> tuple[float, float]:
    """Epsilon by the profile bound, from either accountant's profile of one run: no grid in between."""
    runs, failure = _runs(selected)
    if failure >= delta:
        return math.inf, math.inf
    rest = (delta - failure) / (1 - failure) / selected.mean
    price = _selection.shift(selected, _largest_profile(runs), max(_top_of(terms, 1e-9) for terms in runs))
    pld = max(_by_distribution(terms, rest) for terms in runs)
    cf = max(_cf.epsilon(terms, rest) for terms in runs)
    pure = (2 + _selection.parameters(selected)[0]) * max(terms.pure() for terms in runs)
    return min(price + pld, pure), min(price + cf, pure)


def profile(event: Event) -> _selection.Profile:
    """delta as a function of epsilon, the dearest way."""
    return _largest_profile([flatten(way, dominating_pair) for way in alternatives(event)])


def _largest_profile(ways: Sequence[Terms]) -> _selection.Profile:
    parts = [_profile_of(terms) for terms in ways]

    def deltas(epsilons: Array) -> Array:
        return np.max([part(epsilons) for part in parts], axis=0)  # type: ignore[no-any-return]

    return deltas


def _profile_of(terms: Terms) -> _selection.Profile:
    if not _composable(terms):
        raise OutOfReach
    if (mu := terms.gaussian()) is not None:
        return lambda epsilons: _gaussian.delta(mu, epsilons)
    return _pld.profile(terms)


def _top(event: Event, delta: float) -> float:
    """Where the profile is down to `delta`, or to what outright failure leaves."""
    failure = max(flatten(way, dominating_pair).failure for way in alternatives(event))
    return epsilon(event, min(delta + 1.01 * failure, 0.999))


def _top_of(terms: Terms, delta: float) -> float:
    """`_top` of one way that does not fail outright."""
    terms, epsilon = _negligible(terms, delta), math.inf
    with suppress(OutOfReach, _cf.TooSlow):
        epsilon = _by_distribution(terms, delta)
        agree(epsilon, _cf.epsilon(terms, delta))
    return epsilon if epsilon < math.inf else min(_rdp.epsilon(terms, delta), terms.pure())


@lru_cache(maxsize=64)
def dominating_pair(event: Event) -> tuple[Array, Array, float]:
    """A dominating pair for an event that has none by name, from a bound on its profile."""
    if isinstance(event, Unproven):
        raise Refused(f"no guarantee can be computed: {event.reason}")
    if isinstance(event, Selected):
        return _selected_pair(event)
    if isinstance(event, Group):
        run, size = profile(event.event), event.size
        epsilons = np.linspace(0.0, size * _top(event.event, 1e-13), 4001)
        each = epsilons / size
        # The group lemma: sum over i < size of e^(i e/size) delta(e/size).
        growth = sum(np.exp(np.minimum(i * each, 700.0)) for i in range(size))
        deltas = growth * run(each)
    elif isinstance(event, AnyOf):
        # The largest of convex profiles is one, so a pair has it, and it dominates whichever event is chosen; the
        # adaptive composition of dominated releases is dominated by the pairs' (Zhu, Dong and Wang 2022).
        epsilons = np.linspace(0.0, max(_top(part, 1e-12) for part in event.events), 4001)
        deltas = np.max([profile(part)(epsilons) for part in event.events], axis=0)
    elif isinstance(event, (Composed, Disjoint)):
        epsilons = np.linspace(0.0, _top(event, 1e-12), 4001)
        deltas = profile(event)(epsilons)
    else:
        raise Refused(f"no accountant knows {type(event).__name__}")
    return pair_from_profile(epsilons, deltas)


def _selected_pair(selected: Selected) -> tuple[Array, Array, float]:
    if selected.distribution == "poisson":
        raise OutOfReach
    runs, failure = _runs(selected)
    run = _largest_profile(runs)
    price = _selection.shift(selected, run, max(_top_of(terms, 1e-9) for terms in runs))
    top = price + max(_top_of(terms, 1e-11 / selected.mean) for terms in runs)
    epsilons = np.linspace(0.0, top, 4001)
    deltas = np.where(epsilons >= price, selected.mean * run(np.maximum(epsilons - price, 0.0)), 1.0)
    losses, probs, tail = pair_from_profile(epsilons, deltas)
    return losses, probs, failure + (1 - failure) * tail
