"""Profiles of compositions in the PLD accountant, and dominating pairs for events that have no formula.

A profile is delta as a function of epsilon, computed from the privacy loss distribution; it is an upper bound. An event
without its own pair (private selection, a choice, a group, a composition on one sample) gets the pair of an upper bound
on its profile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

import numpy as np

from privaware.accounting import _gaussian, _pld, _rdp, _selection
from privaware.accounting._grid import OutOfReach
from privaware.accounting._pairs import Array, GaussianPair
from privaware.accounting._quadrature import Profile
from privaware.accounting._selection import SelectionTradeOff
from privaware.accounting._terms import Terms, alternatives, flatten, log_growth, pair_from_profile
from privaware.errors import Refused
from privaware.events import AnyOf, Composed, Disjoint, Event, Group, Selected, Unproven

FLOOR = 1e-6
"""Epsilons that differ by at most this number count as equal; below it, a relative difference is only rounding."""

_DOTS = 4001
"""Number of epsilons at which a privacy profile is tabulated."""

_MAX_POINTS = 40_000
"""Largest number of lattice points in the privacy profile of a private selection."""


def epsilon(terms: Terms, delta: float) -> float:
    """Return the epsilon of the composition `terms` at `delta`, by the privacy loss distribution.

    If there are only Gaussians without sampling, a closed form is used. Raise `OutOfReach` if the losses do not fit a
    grid.
    """
    mu = terms.gaussian()
    return _pld.epsilon(terms, delta) if mu is None else _gaussian.epsilon(mu, delta)


def composable(terms: Terms) -> bool:
    """Return whether `terms` has a privacy loss distribution: no zCDP, and losses that fit into floating point."""
    return not terms.rho and (terms.gaussian() is not None or _pld.reachable(terms))


def negligible(terms: Terms, delta: float) -> Terms:
    """Return `terms` with Gaussian releases of negligible cost replaced by one Gaussian without sampling.

    No grid resolves the losses of such small releases. The cost is negligible if that Gaussian, as costly as all
    releases without sampling, has an epsilon of at most `FLOOR` at `delta`. Otherwise `terms` is returned unchanged. It
    is also returned unchanged if it has other releases or if a release may fail.
    """
    mu = terms.without_sampling()
    if mu is None or terms.gaussian() is not None or _gaussian.epsilon(mu, delta) > FLOOR:
        return terms
    return Terms(pairs=((GaussianPair(mu=mu), 1),))


def profile(event: Event, aims: tuple[float, ...] = _pld.AIMS) -> Profile:
    """Return a function from an array of epsilons to the deltas of `event`.

    Each delta is the largest over both directions and over all ways in which the event can affect a row, such as one
    part of a `Disjoint`. It is precise near the deltas `aims`. Raise `OutOfReach` if there is no privacy loss
    distribution, and `Refused` for an unproven event or more than 1000 ways.
    """
    return largest([flatten(way, dominating_pair) for way in alternatives(event)], aims)


def largest(ways: Sequence[Terms], aims: tuple[float, ...] = _pld.AIMS) -> Profile:
    """Return a function from epsilons to the largest delta over the compositions `ways` and both directions.

    It is precise near the deltas in `aims`. Raise `OutOfReach` if a composition has no privacy loss distribution.
    """
    parts = [part for terms in ways for part in directed(terms, aims)]

    def deltas(epsilons: Array) -> Array:
        return np.max([part(epsilons) for part in parts], axis=0)  # type: ignore[no-any-return]

    return deltas


def directed(terms: Terms, aims: tuple[float, ...] = _pld.AIMS) -> list[Profile]:
    """Return the profile of the composition `terms` for each direction, or one profile if both are equal.

    Raise `OutOfReach` if there is no privacy loss distribution. `aims` are the deltas near which it is precise.
    """
    if not composable(terms):
        raise OutOfReach
    if (mu := terms.gaussian()) is not None:
        return [lambda epsilons: _gaussian.delta(mu, epsilons)]
    return _pld.profiles(terms, aims)


def _top(event: Event, delta: float) -> float:
    """Return an epsilon at which the profile of `event` is at most `delta` plus about its failure probability."""
    ways = [flatten(way, dominating_pair) for way in alternatives(event)]
    failure = max(terms.failure for terms in ways)
    return max(_top_of(terms, min(delta + 1.01 * failure, 0.999)) for terms in ways)


def _top_of(terms: Terms, delta: float) -> float:
    terms, top = negligible(terms, delta), math.inf
    if composable(terms):
        with suppress(OutOfReach):
            top = epsilon(terms, delta)
    return top if top < math.inf else min(_rdp.epsilon(terms, delta), terms.pure())


@lru_cache(maxsize=64)
def dominating_pair(event: Event) -> tuple[Array, Array, float]:
    """Return (losses, probabilities if nothing fails, probability of failure) of a pair that dominates `event`.

    `event` is a private selection, a group, a choice of events, a composition or an event on disjoint parts. The pair
    holds in both directions. It is computed from an upper bound on the privacy profile. Raise `Refused` for an unproven
    event, and for an event of another kind, which has a formula of its own. Raise `OutOfReach` if the losses do not fit
    a grid.
    """
    if isinstance(event, Unproven):
        raise Refused(f"no guarantee can be computed: {event.reason}")
    if isinstance(event, Selected):
        return _selected_pair(event)
    if isinstance(event, Group):
        run, size = profile(event.event), event.size
        epsilons = np.linspace(0.0, size * _top(event.event, 1e-13), _DOTS)
        each = epsilons / size
        # Group privacy: delta_group(e) <= sum over i < size of exp(i e/size) delta(e/size).
        growth = np.exp(np.minimum([log_growth(size, e) for e in each.tolist()], 700.0))
        deltas = growth * run(each)
    elif isinstance(event, AnyOf):
        # The largest of convex profiles is convex, so some pair has it. This pair dominates every event that may be
        # chosen, and adaptive composition preserves dominance (Zhu, Dong and Wang 2022).
        epsilons = np.linspace(0.0, max(_top(part, 1e-12) for part in event.events), _DOTS)
        deltas = np.max([profile(part)(epsilons) for part in event.events], axis=0)
    elif isinstance(event, (Composed, Disjoint)):
        epsilons = np.linspace(0.0, _top(event, 1e-12), _DOTS)
        deltas = profile(event)(epsilons)
    else:
        raise Refused(f"no accountant knows {type(event).__name__}")
    return pair_from_profile(epsilons, deltas)


def runs(selected: Selected) -> tuple[list[Terms], float]:
    """Return the `Terms` of one run of `selected` that does not fail, for every way in which it can affect a row.

    Return also an upper bound on the probability that any run fails.
    """
    ways = [flatten(way, dominating_pair) for way in alternatives(selected.event)]
    failure = _selection.failure(selected, max(terms.failure for terms in ways))
    return [replace(terms, survive=0.0) for terms in ways], failure


def _trade_offs(selected: Selected, delta: float) -> list[SelectionTradeOff]:
    """Return the trade-off bound for every alternative and direction of a run of the private selection `selected`.

    The bounds are for runs that do not fail, and are precise where the delta of the selection is `delta` or more. Raise
    `OutOfReach` if the losses do not fit a grid.
    """
    out = []
    for terms in runs(selected)[0]:
        aim = delta / selected.mean
        top = _top_of(terms, min(1e-11 / selected.mean, 1e-4 * aim))
        if not math.isfinite(top):
            raise OutOfReach
        epsilons = np.linspace(0.0, top, _DOTS)
        sides = [side(epsilons) for side in directed(terms, (*_pld.AIMS, aim, 1e-3 * aim))]
        for here, other in zip(sides, reversed(sides)):
            losses, probs, tail = pair_from_profile(epsilons, here, other)
            out.append(SelectionTradeOff(selected=selected, losses=losses, probs=probs * (1 - tail)))
    return out


def selected_epsilon(selected: Selected, delta: float) -> float:
    """Return the epsilon at `delta` of the private selection `selected` without other releases.

    It is the trade-off bound, without a grid for the selection, or the bound on pure epsilon if that is smaller. The
    result is infinite if the bound on the probability that any run fails is `delta` or more. Raise `OutOfReach` if the
    losses of a run do not fit a grid.
    """
    ways, failure = runs(selected)
    if failure >= delta:
        return math.inf
    rest = (delta - failure) / (1 - failure)
    by_trade_off = max(bound.epsilon(rest) for bound in _trade_offs(selected, rest))
    return min(by_trade_off, _selection.pure(selected, max(terms.pure() for terms in ways)))


def _selected_pair(selected: Selected) -> tuple[Array, Array, float]:
    failure = runs(selected)[1]
    bounds = _trade_offs(selected, 1e-9)
    top = max(bound.epsilon(1e-11) for bound in bounds)
    if not math.isfinite(top):
        raise OutOfReach
    epsilons = np.linspace(0.0, top, _DOTS)
    deltas = np.max([_on_lattice(bound, epsilons) for bound in bounds], axis=0)
    deltas[-1] = max(bound.delta(top) for bound in bounds)  # the delta at the top counts as failure
    losses, probs, tail = pair_from_profile(epsilons, deltas)
    return losses, probs, failure + (1 - failure) * tail


def _on_lattice(bound: SelectionTradeOff, epsilons: Array) -> Array:
    """Return an upper bound on delta at each of `epsilons`, all at once: `bound.delta` takes them one by one.

    The losses of `bound` are multiples of one width, so at multiples of this width the sums are one convolution.
    Between two multiples delta is interpolated by a straight line in e^epsilon; delta is convex there, so the line is
    an upper bound. If there are more than `_MAX_POINTS` multiples, `bound.delta` is called for each epsilon instead.
    """
    width = float(bound.losses[-1]) / (_DOTS - 1)
    index = np.rint(bound.losses / width).astype(np.int64)
    low, high = int(index[0]), int(index[-1])
    count = math.ceil(min(float(epsilons[-1]), bound.highest) / width) + 2  # beyond it only infinite losses remain
    if count > _MAX_POINTS:
        return np.array([bound.delta(float(e)) for e in epsilons])
    probs = np.bincount(index - low, weights=bound.probs, minlength=high - low + 1)
    excess = bound.excess(width * np.arange(-high, count - low + 1))
    sums = np.convolve(excess, probs, mode="valid")
    tail = max(0.0, 1 - float(bound.probs.sum())) * bound.selected.mean
    lattice = np.minimum(sums[: count + 1] + tail, 1.0)
    at = np.minimum((epsilons / width).astype(np.int64), len(lattice) - 2)
    part = np.expm1(np.clip(epsilons - width * at, 0.0, width)) / math.expm1(width)
    return lattice[at] + (lattice[at + 1] - lattice[at]) * part  # type: ignore[no-any-return]
