"""Compute the privacy cost of the recorded calls of a run, as an event."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np

from privaware.errors import Refused
from privaware.events import NOTHING, ZCDP, Event, Gaussian, Laplace, Pure, RandomisedResponse, Sampled
from privaware.testing._call import Call, noises


def spent(
    calls: list[Call], *, unsampled: Iterable[int] = (), only: set[int] | None = None, relation: str = "add_remove"
) -> Event:
    """Return the privacy cost of recorded calls.

    A release belongs to the last Poisson sample before it, so that its cost is amplified by sampling. Several releases
    on one sample are one joint event. If n consecutive samples are followed by n separately noised values, the first
    value is on the first sample, and so on. Otherwise consecutive samples count as one sample, whose rate is the sum of
    their rates (at most 1).

    Parameters
    ----------
    calls : list of Call
        The recorded calls.
    unsampled : iterable of int
        Positions of releases that are not on a sample, although they follow one.
    only : set of int, optional
        Positions of the releases to count; all if not given.
    relation : str
        The neighbouring relation: "add_remove" or "replace_one".

    Returns
    -------
    Event
        The composition of all counted releases.
    """
    counts: Counter[Event] = Counter()
    for rates, releases in blocks(calls):
        chosen = [at for at in releases if only is None or at in only]
        bare = [at for at in chosen if not rates or at in set(unsampled)]
        counts.update(event for at in bare for event in _events(calls[at]))
        sampled = [event for at in chosen if at not in bare for event in _events(calls[at])]
        if len(rates) > 1 and len(sampled) == len(rates):  # a population: one sample for each release
            counts.update(_on_sample([event], rate, relation) for event, rate in zip(sampled, rates, strict=True))
        elif sampled:
            counts[_on_sample(sampled, min(1.0, sum(rates)), relation)] += 1
    total = NOTHING
    for event, count in counts.items():
        total = total + count * event
    return total


def blocks(calls: list[Call]) -> list[tuple[list[float], list[int]]]:
    """Return blocks of calls: (rates of consecutive Poisson samples, positions in `calls` of the releases that follow).

    A new block begins with the first sample after a release. The first block has no rates; it holds the releases before
    any Poisson sample.
    """
    groups: list[tuple[list[float], list[int]]] = [([], [])]
    for at, call in enumerate(calls):
        if call.kind == "poisson":
            if groups[-1][1] or not groups[-1][0]:
                groups.append(([], []))
            groups[-1][0].append(float(call.public["rate"]))
        elif not call.samples_rows:
            groups[-1][1].append(at)
    return groups


def _on_sample(events: list[Event], rate: float, relation: str) -> Event:
    joint = events[0]
    if len(events) > 1:
        multipliers = [event.noise for event in events if isinstance(event, Gaussian)]
        joint = Gaussian(noise=1 / math.sqrt(sum(noise**-2 for noise in multipliers))) if multipliers else NOTHING
        for event in events:
            joint = joint if isinstance(event, Gaussian) else joint + event
    return joint if rate == 1 else Sampled(event=joint, rate=rate, relation=relation)


def _events(call: Call) -> list[Event]:
    """Return one event for each separately noised part of a call; raise `Refused` if its kind has no known cost."""
    if call.kind == "choose":
        return [Pure(epsilon=float(call.public["epsilon"]))]
    if call.kind == "perturb":
        return list(call.public["price"])
    if call.kind == "iterate":  # Feldman et al. 2018, for a row that only the last step uses
        return [ZCDP(rho=0.5 / ((1 + call.public["tail"]) * float(call.public["noise"]) ** 2))]
    if call.kind == "respond" and not np.all(call.public.get("candidates", True)):
        return [Pure(epsilon=float(call.public["epsilon"]))]  # the whole epsilon, even with two candidates of a row
    if call.kind == "respond":
        width = max(1, int(np.prod(call.exact.shape[1:])))
        response = RandomisedResponse(epsilon=float(call.public["epsilon"]), classes=int(call.public["classes"]))
        return [response] * width
    if call.kind not in ("gaussian", "laplace"):
        raise Refused(f"expected a call of the noise generator whose cost is known, got {call.kind!r:.80}")
    kind = Gaussian if call.kind == "gaussian" else Laplace
    return [kind(noise=float(noise)) for noise in noises(call)[0].ravel()]
