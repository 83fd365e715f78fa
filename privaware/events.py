"""Events: immutable values that describe the privacy cost of releases, built from public numbers only.

Events are added and multiplied:

>>> 1000 * Gaussian(noise=1.1).sampled(rate=0.01) + Laplace(noise=5.0)
Composed(events=(Repeated(event=Sampled(event=Gaussian(noise=1.1), rate=0.01), count=1000), Laplace(noise=5.0)))

The constructor of an event checks its numbers:

>>> Gaussian(noise=1.0).sampled(rate=1.5)
Traceback (most recent call last):
privaware.errors.WrongInput: Sampled: expected rate in (0, 1], got 1.5

`noise` is always a noise multiplier: the scale of the noise divided by the sensitivity of the value it is added to.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from privaware._rounded import number
from privaware._validate import expect
from privaware.errors import WrongInput

__all__ = [
    "AnyOf",
    "Approximate",
    "Composed",
    "Disjoint",
    "Event",
    "Gaussian",
    "Group",
    "Laplace",
    "NOTHING",
    "Pure",
    "RandomisedResponse",
    "Repeated",
    "Sampled",
    "Selected",
    "Unproven",
    "ZCDP",
    "describe",
    "divided_anew",
    "from_json",
    "leaves",
    "to_json",
]

RELATIONS = ("add_remove", "replace_one")
"""Allowed neighbouring relations."""

TRIAL_COUNTS = ("negative_binomial", "logarithmic", "poisson")
"""Allowed trial-count distributions of `Selected`."""

LARGEST_FLOAT = sys.float_info.max
"""Largest absolute value of a number in an event."""

MAX_DESCRIBED = 4
"""Largest number of releases of a composition that `describe` writes out."""

_FIELD_WORDS = {"noise": "noise multiplier", "rows": "proven for groups of rows up to"}
"""Words for the fields of events in descriptions; other fields are called by their names."""

MAX_DEPTH = 100
"""Largest number of nested levels that `from_json` accepts, because deeper input would exceed the recursion limit."""


class Event:
    """The privacy cost of a release, as a value built from public numbers only.

    `first + second` is the composition of two events, and `count * event` is `count` repetitions of one (`NOTHING` if
    `count` is 0).
    """

    def __add__(self, other: Event) -> Event:
        both = (*_parts(self), *_parts(other))
        return both[0] if len(both) == 1 else Composed(events=both)

    def __rmul__(self, count: int) -> Event:
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise WrongInput(f"expected a whole number of repetitions, at least 0, got {count!r}")
        if count == 0:
            return NOTHING
        return self if count == 1 else Repeated(event=self, count=count)

    def sampled(self, rate: float) -> Event:
        """Return this event on a Poisson sample of the rows, or this event itself if `rate` is 1.

        Parameters
        ----------
        rate : float
            The probability, in (0, 1], with which each row is in the sample, independently of other rows.

        Returns
        -------
        Event
            The event, amplified by sampling.
        """
        return self if rate == 1 else Sampled(event=self, rate=rate)

    def _shown(self) -> str:
        """Return the event as text, without fields that have their default values."""
        values = [(item, getattr(self, item.name)) for item in fields(self)]  # type: ignore[arg-type]
        shown = [f"{item.name}={value!r}" for item, value in values if value != item.default]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _expect(self, name: str, words: str, good: bool) -> None:
        expect(good, type(self).__name__, f"{name} {words}", getattr(self, name))

    def _expect_number(self, name: str, low: float, *, open_low: bool = True, high: float = math.inf) -> None:
        """Raise `WrongInput` unless field `name` is a finite number in [low, high], or (low, high] if `open_low`."""
        value = getattr(self, name)
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST_FLOAT
        inside = number and (value > low if open_low else value >= low) and value <= high
        words = (
            f"in {'(' if open_low else '['}{low:g}, {high:g}]"
            if math.isfinite(high)
            else f"{'>' if open_low else '>='} {low:g}"
        )
        self._expect(name, words, bool(inside))

    def _expect_count(self, name: str, *, optional: bool = False) -> None:
        value = getattr(self, name)
        counted = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        words = "as a whole number >= 1, or None" if optional else "as a whole number >= 1"
        self._expect(name, words, counted or (optional and value is None))

    def _expect_event(self, value: Any) -> None:
        expect(isinstance(value, Event), type(self).__name__, "an event inside", value)


@dataclass(frozen=True, kw_only=True)
class Gaussian(Event):
    """The release of a value with Gaussian noise.

    Parameters
    ----------
    noise : float
        The noise multiplier: the standard deviation of the noise divided by the L2 sensitivity.
    """

    noise: float

    def __post_init__(self) -> None:
        self._expect_number("noise", 0)


@dataclass(frozen=True, kw_only=True)
class Laplace(Event):
    """The release of a value with Laplace noise.

    Parameters
    ----------
    noise : float
        The noise multiplier: the scale of the noise divided by the L1 sensitivity.
    """

    noise: float

    def __post_init__(self) -> None:
        self._expect_number("noise", 0)


@dataclass(frozen=True, kw_only=True)
class Pure(Event):
    """A mechanism that is known to be epsilon-DP and about which nothing else is known, such as report-noisy-max.

    Parameters
    ----------
    epsilon : float
        The epsilon of the guarantee.
    """

    epsilon: float

    def __post_init__(self) -> None:
        self._expect_number("epsilon", 0)


@dataclass(frozen=True, kw_only=True, repr=False)
class Approximate(Event):
    """A mechanism that is known to be (epsilon, delta)-DP and about which nothing else is known.

    With `epsilon=0` it describes the failure probability `delta` of another release in the same composition. A failure
    probability that is proven for one row says nothing about a unit of several rows. So `Group` accounts for it
    separately from the other release only if `rows` is at least the size of the unit.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    rows : int, optional
        Largest number of rows in which neighbouring data may differ for the guarantee to hold; None means one row.
    """

    epsilon: float
    delta: float
    rows: int | None = None

    def __repr__(self) -> str:
        return self._shown()

    def __post_init__(self) -> None:
        self._expect_number("epsilon", 0, open_low=False)
        self._expect_number("delta", 0, high=1)
        self._expect_count("rows", optional=True)


@dataclass(frozen=True, kw_only=True)
class ZCDP(Event):
    """A mechanism that is known to be rho-zCDP (zero-concentrated DP) and about which nothing else is known.

    Parameters
    ----------
    rho : float
        The rho of the guarantee.
    """

    rho: float

    def __post_init__(self) -> None:
        self._expect_number("rho", 0)


@dataclass(frozen=True, kw_only=True)
class RandomisedResponse(Event):
    """Randomised response: the release of one of several values, which is true with a known probability.

    The true value is kept with probability `e**epsilon / (e**epsilon + classes - 1)`. Otherwise one of the other values
    is released, each with the same probability.

    Parameters
    ----------
    epsilon : float
        The epsilon of the guarantee.
    classes : int
        Number of values, at least 2.
    """

    epsilon: float
    classes: int

    def __post_init__(self) -> None:
        self._expect_number("epsilon", 0)
        self._expect("classes", "as a whole number >= 2", isinstance(self.classes, int) and self.classes >= 2)


@dataclass(frozen=True, kw_only=True, repr=False)
class Sampled(Event):
    """An event on a Poisson sample of the rows.

    Parameters
    ----------
    event : Event
        The event on the sample. Its noise multiplier is relative to the sensitivity to adding one row, under the
        relation `replace_one` too.
    rate : float
        The sampling rate, in (0, 1].
    relation : str
        The neighbouring relation: "add_remove" or "replace_one".
    rows : int, optional
        Largest number of rows of the data; given with `cap`.
    cap : int, optional
        Largest size of a sample. A larger sample is cut to `cap` rows, and the cost accounts for this truncation.
    """

    event: Event
    rate: float
    relation: str = "add_remove"
    rows: int | None = None
    cap: int | None = None

    def __repr__(self) -> str:
        return self._shown()

    def __post_init__(self) -> None:
        self._expect_event(self.event)
        self._expect_number("rate", 0, high=1)
        self._expect("relation", f"one of {', '.join(RELATIONS)}", self.relation in RELATIONS)
        fits = self.rows is None if self.cap is None else self.rows is not None and 1 <= self.cap <= self.rows
        self._expect("cap", "with rows, and 1 <= cap <= rows", fits)


@dataclass(frozen=True, kw_only=True)
class Repeated(Event):
    """Repetitions of one event. Each repetition may depend on earlier outputs (adaptive composition).

    Parameters
    ----------
    event : Event
        The repeated event.
    count : int
        Number of repetitions, at least 1.
    """

    event: Event
    count: int

    def __post_init__(self) -> None:
        self._expect_event(self.event)
        self._expect_count("count")


@dataclass(frozen=True, kw_only=True)
class Composed(Event):
    """Several events on the same rows (adaptive composition).

    Parameters
    ----------
    events : tuple of Event
        The events. The empty composition has no privacy cost.
    """

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        self._expect("events", "as a tuple of events", isinstance(self.events, tuple))
        for event in self.events:
            self._expect_event(event)


@dataclass(frozen=True, kw_only=True)
class _OneOf(Event):
    """Alternatives, exactly one of which applies: the base class of `Disjoint` and `AnyOf`."""

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        self._expect("events", "as a tuple of at least one event", isinstance(self.events, tuple) and bool(self.events))
        for event in self.events:
            self._expect_event(event)


@dataclass(frozen=True, kw_only=True)
class Disjoint(_OneOf):
    """One event for each of several disjoint parts of the rows (parallel composition). The largest cost counts.

    In a `Repeated` event a row is in the same part each time. `divided_anew` is for parts that are drawn anew.

    Parameters
    ----------
    events : tuple of Event
        The event of each part.
    """


@dataclass(frozen=True, kw_only=True)
class AnyOf(_OneOf):
    """One of several events, chosen at random or by earlier releases. At each epsilon the largest delta counts.

    Unlike the parts of `Disjoint`, the chosen event may differ between repetitions.

    Parameters
    ----------
    events : tuple of Event
        The events to choose from.
    """


@dataclass(frozen=True, kw_only=True)
class Selected(Event):
    """Private selection: an event runs a secret random number of times, and only the best output is released.

    Parameters
    ----------
    event : Event
        The event of one trial.
    distribution : str
        The trial-count distribution: "negative_binomial" (truncated), "logarithmic" or "poisson".
    mean : float
        The expected number of trials: above 1, or above 0 for "poisson".
    shape : float or None
        The parameter eta of the truncated negative binomial distribution, above -1 and not 0; 1 is the geometric
        distribution. (The logarithmic distribution is the limit eta = 0.) None for the other distributions.
    """

    event: Event
    distribution: str
    mean: float
    shape: float | None = None

    def __post_init__(self) -> None:
        self._expect_event(self.event)
        self._expect("distribution", f"one of {', '.join(TRIAL_COUNTS)}", self.distribution in TRIAL_COUNTS)
        self._expect_number("mean", 0 if self.distribution == "poisson" else 1)
        good = self.shape is None
        if self.distribution == "negative_binomial":
            good = self.shape is not None and self.shape > -1 and self.shape != 0
        self._expect("shape", "> -1 and not 0 for negative_binomial, None for the other distributions", good)


@dataclass(frozen=True, kw_only=True)
class Group(Event):
    """An event for units of several rows (group privacy).

    Parameters
    ----------
    event : Event
        The event for a unit of one row.
    size : int
        Largest number of rows of a unit.
    """

    event: Event
    size: int

    def __post_init__(self) -> None:
        self._expect_event(self.event)
        self._expect_count("size")


@dataclass(frozen=True, kw_only=True)
class Unproven(Event):
    """A release without a proven guarantee. Every accountant and ledger refuses it.

    Parameters
    ----------
    reason : str
        Why there is no proof; the refusal quotes it.
    """

    reason: str


NOTHING: Event = Composed(events=())
"""The event without privacy cost."""


def leaves(event: Event, count: int = 1) -> Iterator[tuple[Event, int]]:
    """Yield the events inside `event` that are neither `Repeated` nor `Composed`, with their numbers of repetitions.

    Other events that contain events, such as `Sampled`, `Group` or `Selected`, are yielded whole.

    Parameters
    ----------
    event : Event
        The event.
    count : int
        Number of repetitions of `event` itself.

    Returns
    -------
    iterator of (Event, int)
        Each event and how often it occurs, times `count`.

    Examples
    --------
    >>> list(leaves(2 * (3 * Pure(epsilon=0.1) + Gaussian(noise=2.0))))
    [(Pure(epsilon=0.1), 6), (Gaussian(noise=2.0), 2)]
    """
    if isinstance(event, Repeated):
        yield from leaves(event.event, count * event.count)
    elif isinstance(event, Composed):
        for part in event.events:
            yield from leaves(part, count)
    else:
        yield event, count


def divided_anew(event: Event) -> Event:
    """Return `event` for a release that is repeated and divides the rows anew each time: at least as much cost.

    A `Disjoint` in it becomes part of an `AnyOf`, because a row may be in other parts of the repetitions.

    >>> parts = Disjoint(events=(Gaussian(noise=3.73), Laplace(noise=1.17)))
    >>> type(divided_anew(parts)).__name__, divided_anew(Pure(epsilon=0.1))
    ('AnyOf', Pure(epsilon=0.1))
    """
    divides = any(isinstance(leaf, Disjoint) for leaf, _ in leaves(event))
    return AnyOf(events=(event,)) if divides else event


def nested(event: Event) -> Iterator[Event]:
    """Yield `event` and every event inside it, at any depth; an event comes before the events inside it.

    >>> [type(each).__name__ for each in nested(3 * Pure(epsilon=0.1).sampled(rate=0.5))]
    ['Repeated', 'Sampled', 'Pure']
    """
    yield event
    for part in (getattr(event, "event", None), *getattr(event, "events", ())):
        if part is not None:
            yield from nested(part)


def describe(event: Event, *, most: int = MAX_DESCRIBED) -> str:
    """Describe an event in words, for plans, reports and ledgers.

    The first `most` releases of a composition are described, and all others are only counted.

    Parameters
    ----------
    event : Event
        The event.
    most : int, optional
        The largest number of releases of a composition that are described.

    Returns
    -------
    str
        The description.

    Examples
    --------
    >>> describe(400 * Gaussian(noise=1.1).sampled(rate=0.02) + Pure(epsilon=0.1))
    '400 x Gaussian, noise multiplier 1.1, on Poisson samples at rate 0.02 and 1 x Pure, epsilon 0.1'
    >>> describe(Selected(event=Laplace(noise=5.0), distribution="logarithmic", mean=10.0))
    'the best of about 10 runs (logarithmic trial-count distribution), each 1 x Laplace, noise multiplier 5'
    >>> describe(NOTHING)
    'no privacy cost (data-independent)'
    """
    parts = [_describe_leaf(leaf, count, most) for leaf, count in leaves(event)]
    more = len(parts) - most
    if more > 0:
        parts = [*parts[:most], f"{more:,} more release{'s' if more > 1 else ''}"]
    return " and ".join(parts) or "no privacy cost (data-independent)"


def _describe_leaf(leaf: Event, count: int, most: int) -> str:
    times = "" if count == 1 else f"{count:,} x "
    match leaf:
        case Disjoint(events=events):
            return f"{times}on disjoint parts, " + " or ".join(describe(part, most=most) for part in events)
        case AnyOf(events=events):
            return f"{count:,} x one of " + " or ".join(f"({describe(part, most=most)})" for part in events)
        case Selected(event=inner):
            name = leaf.distribution.replace("_", " ")
            runs = f"the best of about {number(leaf.mean)} runs ({name} trial-count distribution)"
            return f"{times}{runs}, each {describe(inner, most=most)}"
        case Group(event=inner, size=size):
            return f"{describe(count * inner, most=most)}, for a unit of up to {size:,} rows"
        case Sampled(event=inner, rate=rate):
            cut = f", cut to {leaf.cap:,} of {leaf.rows:,} rows" if leaf.cap else ""
            single = describe(inner, most=most).removeprefix("1 x ")
            one = single if len(list(leaves(inner))) == 1 else f"({single})"
            return f"{count:,} x {one}, on Poisson samples at rate {number(rate)}{cut}"
        case Unproven(reason=reason):
            return f"no proven guarantee: {reason}"
        case _:
            settings = [(item.name, getattr(leaf, item.name)) for item in fields(leaf)]  # type: ignore[arg-type]
            shown = ", ".join(
                f"{_FIELD_WORDS.get(name, name)} {number(value, 4)}" for name, value in settings if value is not None
            )
            return f"{count:,} x {type(leaf).__name__}, {shown}"


def to_json(event: Event) -> dict[str, Any]:
    """Turn an event into a dictionary of plain values, which `from_json` turns back into an equal event.

    Parameters
    ----------
    event : Event
        The event.

    Returns
    -------
    dict
        The name of the event's class as `kind`, and its fields that are not None.

    Examples
    --------
    >>> to_json(Gaussian(noise=2.0).sampled(rate=0.5))
    {'kind': 'Sampled', 'event': {'kind': 'Gaussian', 'noise': 2.0}, 'rate': 0.5, 'relation': 'add_remove'}
    """
    out: dict[str, Any] = {"kind": type(event).__name__}
    for item in fields(event):  # type: ignore[arg-type]
        value = getattr(event, item.name)
        if isinstance(value, Event):
            value = to_json(value)
        elif isinstance(value, tuple):
            value = [to_json(part) for part in value]
        if value is not None:
            out[item.name] = value
    return out


def from_json(value: Any, depth: int = 0) -> Event:
    """Build the event that `to_json` described.

    Parameters
    ----------
    value : dict
        The dictionary, as read from JSON.
    depth : int
        The number of events that contain this event.

    Returns
    -------
    Event
        The event.

    Raises
    ------
    WrongInput
        If `value` does not describe an event, or its events are nested more than `MAX_DEPTH` levels deep.
    """
    if depth > MAX_DEPTH:
        raise WrongInput(f"expected events nested at most {MAX_DEPTH} levels deep, got more")
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise WrongInput(f"expected an event with a kind among {', '.join(_KINDS)}, got {value!r:.120}")
    cls = _KINDS[kind]
    arguments = {name: item for name, item in value.items() if name != "kind"}
    if cls is Selected and "law" in arguments and "distribution" not in arguments:  # as earlier versions wrote it
        arguments["distribution"] = arguments.pop("law")
    if unknown := set(arguments) - {item.name for item in fields(cls)}:  # type: ignore[arg-type]
        raise WrongInput(f"{kind}: unknown fields {sorted(unknown)!s:.120}")
    if "event" in arguments:
        arguments["event"] = from_json(arguments["event"], depth + 1)
    if "events" in arguments:
        if not isinstance(arguments["events"], list):
            raise WrongInput(f"{kind}: expected a list of events, got {arguments['events']!r:.120}")
        arguments["events"] = tuple(from_json(part, depth + 1) for part in arguments["events"])
    try:
        return cls(**arguments)
    except TypeError as problem:
        raise WrongInput(f"{kind}: {problem!s:.200}") from None


def _parts(event: Event) -> tuple[Event, ...]:
    return event.events if isinstance(event, Composed) else (event,)


_KINDS: dict[str, type[Event]] = {
    cls.__name__: cls
    for cls in (
        Gaussian,
        Laplace,
        Pure,
        Approximate,
        ZCDP,
        RandomisedResponse,
        Sampled,
        Repeated,
        Composed,
        Disjoint,
        AnyOf,
        Selected,
        Group,
        Unproven,
    )
}
