"""Apply every accountant to an event, check that they agree, and decide which epsilon is reported.

A "way" or alternative is one way in which an event can affect a row, such as one part of a `Disjoint`. It is a list of
pairs of a simple event and its number of repetitions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

from privaware.accounting import _cf_tree, _profiles, _rdp, _selection
from privaware.accounting._cf_sum import TooSlow
from privaware.accounting._grid import OutOfReach
from privaware.accounting._pairs import Array
from privaware.accounting._profiles import FLOOR, composable, dominating_pair, negligible
from privaware.accounting._quadrature import Profile
from privaware.accounting._terms import Leaves, Terms, alternatives, contains, expect_priceable, flatten
from privaware.errors import Refused
from privaware.events import AnyOf, Disjoint, Event, Sampled, Selected

AGREEMENT = 5e-3
"""Largest relative difference at which the PLD and the CF accountant agree."""

NEARLY = 3e-2
"""Largest relative difference, for private selection, at which a larger Rényi bound is reported instead of none."""

SELECTION_FLOOR = 2e-5
"""Epsilons of a private selection that differ by at most this number count as equal.

The trade-off bound is computed on intervals, which adds about 1e-5 to a small epsilon.
"""

SMALL_SELECTION = 0.1
"""Largest trade-off bound of a private selection that is reported although the CF accountant has less.

Intervals add relatively more to a smaller epsilon.
"""

LARGE = 100.0
"""Largest epsilon of a private selection computed from distributions; above it only Rényi divergences are used."""


def bounds(event: Event, delta: float, orders: Sequence[float]) -> dict[str, Any]:
    """Return every accountant's bound on the epsilon of `event` at `delta`.

    An event such as `Disjoint` can affect a row in several ways. The bounds are given for the way with the largest
    epsilon. The keys are "pld", "cf", "rdp" and "rdp_classic" (None if an accountant gives no bound), the reported
    "epsilon", and the "method" that gave it, as in `privaware.accounting.bounds`. `orders` are the Rényi orders. Raise
    `Refused` if the accountants disagree.
    """
    return _dearest(event, delta, tuple(orders), full=True)


@lru_cache(maxsize=1024)
def epsilon(event: Event, delta: float) -> float:
    """Return the reported epsilon of `event` at `delta`; equal events are computed once.

    Bounds that serve comparison only are not computed. Raise `Refused` if the accountants disagree.
    """
    return float(_dearest(event, delta, _rdp.ORDERS, full=False)["epsilon"])


def quick(event: Event, delta: float) -> float:
    """Return an approximation of `epsilon(event, delta)` by one accountant only, for a search; it may be smaller.

    The CF accountant is used if it covers the event and there is no private selection, otherwise the PLD or the RDP
    accountant.
    """
    expect_priceable(event)
    if not contains(event, Selected):
        with suppress(TooSlow):
            parts = [_terms_or_none(way) for way in alternatives(event)]
            if all(terms is not None and composable(terms) for terms in parts):
                return _cf_tree.epsilon(event, delta) or 0.0
    for distribution in (True, False):
        ways = [_way(way, delta, _rdp.ORDERS, full=False, distribution=distribution) for way in alternatives(event)]
        largest = max(float(way["epsilon"]) for way in ways)
        if not contains(event, Selected) or largest <= LARGE:
            break
    return largest


def delta(event: Event, epsilon: float) -> float:
    """Return an upper bound on the delta of `event` at `epsilon`, the largest over the ways in which it affects a row.

    It comes from the privacy loss distribution, or from Rényi divergences if there is no distribution.
    """
    expect_priceable(event)
    return max(min(_delta_of(way, epsilon), 1.0) for way in alternatives(event))


def _delta_of(way: Leaves, epsilon: float) -> float:
    terms = None if _only_curves(way) else _terms_or_none(way)
    if terms is not None:
        with suppress(OutOfReach):
            return float(_profiles.largest([terms])(np.array([epsilon]))[0])
    curve, failure = _rdp_curve(way, _rdp.ORDERS)
    return failure + (1 - failure) * _rdp.delta(_rdp.ORDERS, curve, epsilon)


def _dearest(event: Event, delta: float, orders: tuple[float, ...], *, full: bool) -> dict[str, Any]:
    """Return the bounds of `bounds` for the way with the largest epsilon, after the accountants were compared.

    1. If the CF accountant gives no epsilon for the whole event, Rényi bounds replace the PLD bound.
    2. If the CF and the PLD accountant disagree, raise `Refused`, except in the cases of points 3 and 4.
    3. If they differ on a private selection by a fraction of at most `NEARLY`, and a Rényi bound is at least as large
       as both, this bound is reported.
    4. If the PLD bound of a private selection is at most `SMALL_SELECTION`, and above the epsilon of the CF accountant,
       the PLD bound is reported.

    `orders` are the Rényi orders. Without `full`, Rényi bounds that the reported epsilon does not need are left out.
    """
    expect_priceable(event)
    ways = alternatives(event)
    bounds = by_distribution = [_way(way, delta, orders, full=full) for way in ways]
    known = max((float(way["pld"]) for way in bounds if way["pld"] is not None), default=None)
    second = None
    if known is not None:
        selected = contains(event, Selected)
        if not (selected and known > LARGE):
            with suppress(TooSlow):
                second = _cf_tree.epsilon(event, delta)
        nearly = second is not None and selected and _nearly(known, second)
        if second is None or nearly:
            bounds = [_way(way, delta, orders, full=full, distribution=False) for way in ways]
        if second is not None:
            above_both = max(float(way["epsilon"]) for way in bounds) >= max(known, second)
            if selected and second < known <= SMALL_SELECTION and not _agree(known, second, SELECTION_FLOOR):
                bounds = bounds if nearly and above_both else [_by_distribution(way) for way in by_distribution]
            elif not (nearly and above_both):
                agree(known, second, floor=SELECTION_FLOOR if selected else FLOOR)
    dearest = max(bounds, key=lambda way: float(way["epsilon"]))
    return dearest | {"cf": None if dearest["pld"] is None else second}


def _way(
    way: Leaves, delta: float, orders: tuple[float, ...], *, full: bool, distribution: bool = True
) -> dict[str, Any]:
    out: dict[str, Any] = dict.fromkeys(("pld", "cf", "rdp", "rdp_classic"))
    selected = any(contains(leaf, Selected) for leaf, _ in way)
    alone = way[0][0] if len(way) == 1 and way[0][1] == 1 else None
    terms = None
    if isinstance(alone, Selected):
        if distribution and _has_profile(alone):
            with suppress(OutOfReach):
                out["pld"] = _profiles.selected_epsilon(alone, delta)
    elif not _only_curves(way) and (terms := _terms_or_none(way)) is not None:
        terms = negligible(terms, delta)
        if distribution and composable(terms):
            with suppress(OutOfReach):
                out["pld"] = _profiles.epsilon(terms, delta)
    if out["pld"] == math.inf:  # delta is below the tail that a grid leaves out
        out["pld"] = None
    if full or selected or out["pld"] is None:
        curve, failure = _rdp_curve(way, orders)
        if failure < delta:
            rest = (delta - failure) / (1 - failure)
            out["rdp"] = _rdp.convert(orders, curve, rest)
            out["rdp_classic"] = _rdp.convert(orders, curve, rest, classic=True)
    candidates = {
        "trade_off" if selected else "pld": out["pld"],
        "papernot_steinke" if selected else "rdp": (out["rdp"] if selected or out["pld"] is None else None),
    }
    if terms is not None:
        pure = terms.pure() if terms.failure <= delta else math.inf
        candidates["pure"] = pure if out["pld"] is None else None
    known = {name: value for name, value in candidates.items() if value is not None} or {"rdp": math.inf}
    out["method"] = min(known, key=lambda name: known[name])
    out["epsilon"] = known[out["method"]]
    return out


def _by_distribution(way: dict[str, Any]) -> dict[str, Any]:
    """Return the bounds `way` of an alternative. If `way` has a PLD bound, the result reports this bound."""
    if way["pld"] is None or way["epsilon"] == way["pld"]:
        return way
    return way | {"epsilon": way["pld"], "method": "trade_off"}


def agree(pld: float, cf: float, floor: float = FLOOR) -> None:
    """Raise `Refused` unless the epsilons of the PLD and the CF accountant agree.

    They agree if they differ by at most the fraction `AGREEMENT` of the larger one, or by at most `floor`.
    The two accountants share neither the reading of events nor numerical methods.
    """
    if not _agree(pld, cf, floor):
        raise Refused(
            f"the accountants disagree (privacy loss distribution {pld:.6g}, characteristic function {cf:.6g}), "
            "so no epsilon is reported; please report the event"
        )


def _agree(pld: float, cf: float, floor: float) -> bool:
    """Return whether the epsilons of the PLD and the CF accountant agree; `agree` says when."""
    return pld == cf or (math.isfinite(max(pld, cf)) and abs(pld - cf) <= max(AGREEMENT * max(pld, cf), floor))


def _nearly(pld: float, cf: float) -> bool:
    """Return whether the PLD and CF epsilons disagree, but by at most the fraction `NEARLY` of the larger one."""
    gap = abs(pld - cf) / max(pld, cf, FLOOR)
    return AGREEMENT < gap <= NEARLY and abs(pld - cf) > FLOOR


def _only_curves(way: Leaves) -> bool:
    """Return whether `way` contains a private selection without a privacy profile, so that only RDP applies.

    A selection has no profile if its runs contain zCDP, or losses too large for floating point.
    """
    return any(contains(leaf, Selected) and not _has_profile(leaf) for leaf, _ in way)


def _has_profile(event: Event) -> bool:
    if isinstance(event, Selected):
        inner = [] if contains(event.event, Selected) else alternatives(event.event)
        return all(composable(flatten(way, dominating_pair)) for way in inner)
    parts = getattr(event, "events", None) or [getattr(event, "event", None)]
    return all(_has_profile(part) for part in parts if isinstance(part, Event))


def _terms_or_none(way: Leaves) -> Terms | None:
    try:
        return flatten(way, dominating_pair)
    except OutOfReach:
        return None


def _rdp_curve(way: Leaves, orders: tuple[float, ...]) -> tuple[Array, float]:
    """Return the Rényi divergences of `way` at `orders` if no release fails, and the probability of outright failure.

    `way` is a list of pairs of a simple event and its number of repetitions.
    """
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
    """Return the Rényi divergences at `orders` of `leaf`, an event without a dominating pair, and its failure chance.

    For a choice among several events the largest divergence at each order counts, and sampling is not credited. The
    divergences are infinite for an event that is no private selection, choice, disjoint release or sample.
    """
    if isinstance(leaf, Selected):
        return _selected_curve(leaf, orders)
    if isinstance(leaf, (AnyOf, Disjoint, Sampled)):
        parts = leaf.events if isinstance(leaf, (AnyOf, Disjoint)) else (leaf.event,)
        curves = [_rdp_curve(way, orders) for part in parts for way in alternatives(part)]
        return np.max([curve for curve, _ in curves], axis=0), max(failure for _, failure in curves)
    return np.full(len(orders), math.inf), 0.0


@lru_cache(maxsize=64)
def _selected_curve(selected: Selected, orders: tuple[float, ...]) -> tuple[Array, float]:
    """Return the Rényi divergences at `orders` of the private selection `selected` if no run fails outright.

    Return also an upper bound on the probability that any run fails.
    """
    curves = [_rdp_curve(way, orders) for way in alternatives(selected.event)]
    base = np.max([curve for curve, _ in curves], axis=0)
    chance = _profile_or_curve(selected, base, orders) if selected.distribution == "poisson" else None
    failure = _selection.failure(selected, max(failure for _, failure in curves))
    return _selection.renyi(selected, np.asarray(orders), base, chance), failure


def _profile_or_curve(selected: Selected, base: Array, orders: tuple[float, ...]) -> Profile:
    try:
        return _profiles.largest(_profiles.runs(selected)[0])
    except OutOfReach:
        return lambda epsilons: np.array([_rdp.delta(orders, base, float(e)) for e in epsilons])
