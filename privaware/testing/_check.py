"""`check_mechanism`: check all promises that the contract of `Mechanism` makes, in one call."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privaware import accounting
from privaware.attacks._bounds import epsilon_lower
from privaware.data import Data
from privaware.errors import PrivawareError, WrongInput
from privaware.events import Composed, Disjoint, Event, Selected, leaves
from privaware.mechanism import Mechanism, unit
from privaware.schema import Schema
from privaware.testing._call import BrokenPromise
from privaware.testing._game import canary_game, most_provable
from privaware.testing._price import spent
from privaware.testing._release import name_of, released_numbers
from privaware.testing._replay import Replay, record, replay
from privaware.testing._rows import Edit, example, extremes, joined, neighbours, rows_for
from privaware.testing._transcript import redrawn_losses

SIZES = (0, 1, 2, 8)
"""Numbers of rows to check on; one row has the largest effect among few.

The canary games use the smallest size at which a row has an effect, and the last size.
"""

LARGE_DELTA = 0.1
"""A second delta for the canary game, at which few games suffice to refute a wrong noise multiplier.

The claimed epsilon at this delta follows from the same event.
"""

AS_PASSED = "as passed"
"""Description of the neighbour that the caller of `check_mechanism` passed."""

COPIES = 200
"""Number of copies of each column in the table on which a mechanism must cost no less than on one column."""

SEEDS = 12
"""Number of seeds whose releases must not all be equal; a fair coin's releases are all equal in 1 of 2,048 checks."""


def check_mechanism(
    mechanism: Mechanism[Any],
    *,
    schema: Schema | None = None,
    data: Data | None = None,
    epsilon: float = 1.0,
    delta: float = accounting.DEFAULT_DELTA,
    games: int = 500,
    neighbour: Data | Callable[[Data], Data] | None = None,
) -> float:
    """Check that a mechanism keeps the contract; raise `BrokenPromise`, an AssertionError, if it does not.

    The checks are:

    1. The cost depends on public facts only, and neither more noise nor fewer columns of a table raise it.
    2. The mechanism does not crash, and its release is finite, on 0, 1 and 2 rows and on rows that are not finite.
    3. All randomness comes from `rng`.
    4. Record and replay on neighbouring rows, by the schema's `relation` and the mechanism's `unit`, finds no exceeded
       sensitivity; recorded calls cost no more than stated (not for private selection).
    5. A run leaves no state in the mechanism.
    6. Two-sided canary games prove no more than `epsilon`. They attack the release, and also all noised values if these
       can be noised again without another run.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    schema, data : Schema and Data, optional
        The schema (default: `data.schema`, or `example()`), and the rows (default: synthetic rows of the schema).
    epsilon, delta : float
        The budget at which to check.
    games : int
        Number of runs on each side in each of at most two canary games (among 8 rows, and among as few as possible).
        Games on the release are skipped if this number is too small to refute `epsilon` (below 65 for epsilon 1). 0
        skips the games on noised values too.
    neighbour : Data or callable, optional
        A neighbour of the rows, or a function that makes one. It is then the only canary, in one game.

    Returns
    -------
    float
        The largest epsilon that the canary games proved at `delta`; 0 if no game was played.
    """
    schema = schema or (data.schema if data is not None else example())
    check = _Check(mechanism=mechanism, schema=schema, delta=delta)
    try:
        check.cost()
        check.monotone()
        check.columns()
        noise = check.calibrated(epsilon)
        rows = data if data is not None else rows_for(schema, 24)
        fields, event = released_numbers(mechanism), mechanism.cost(schema, noise)
        check.edge_cases(rows, noise)
        check.unchanged(noise, fields, event)
        check.seeds(rows, noise)
        canaries = check.replays(rows, noise, neighbour)
        check.unchanged(noise, fields, event)
        return check.game(canaries, noise, epsilon, games)
    except BrokenPromise as problem:
        raise BrokenPromise(f"{name_of(mechanism)}: {problem}") from problem


@dataclass(frozen=True, kw_only=True)
class _Check:
    """The checks of `check_mechanism` on `mechanism`; a check raises `BrokenPromise` if its promise does not hold.

    `schema` describes the rows. Epsilons are computed at `delta`.
    """

    mechanism: Mechanism[Any]
    schema: Schema
    delta: float

    def cost(self) -> None:
        """Check that the cost is an event, and equal for equal public facts."""
        event = self.mechanism.cost(self.schema, 2.0)
        if not isinstance(event, Event):
            raise BrokenPromise(f"cost is not an event: expected a privaware.events.Event, got {event!r:.80}")
        again = self.mechanism.cost(Schema.from_json(self.schema.json()), 2.0)
        if again != event:
            raise BrokenPromise(
                f"cost is not a function of public facts: {event!r:.200} at first, {again!r:.200} for the same schema"
            )

    def monotone(self) -> None:
        """Check that more noise does not cost more, at four noise multipliers from 0.5 to 8."""
        grid = (0.5, 1.0, 2.0, 8.0)
        epsilons = [_epsilon(self.mechanism.cost(self.schema, noise), self.delta) for noise in grid]
        for at in range(1, len(grid)):
            if epsilons[at] > epsilons[at - 1] * (1 + 1e-6) + 1e-9:
                raise BrokenPromise(
                    f"more noise costs more: epsilon {epsilons[at - 1]:.4g} at noise {grid[at - 1]:g}, "
                    f"{epsilons[at]:.4g} at noise {grid[at]:g}"
                )

    def columns(self) -> None:
        """Check that a table never costs more with fewer columns.

        The costs of three tables are compared: all columns in `COPIES` copies, all columns, and one column. A selection
        of columns leaves fewer than were charged for. Schemas that the mechanism refuses are left out.
        """
        if self.schema.form != "table" or not self.schema.used:
            return
        wide, narrow = _copied(self.schema), self.schema.keep((self.schema.used[0].name,))
        for noise in (1.0, 8.0):
            events = [self._cost_or_none(schema, noise) for schema in (wide, self.schema, narrow)]
            epsilons = [_epsilon(event, self.delta) for event in events if event is not None]
            if any(fewer > more * (1 + 1e-6) + 1e-9 for more, fewer in itertools.pairwise(epsilons)):
                shown = ", ".join(f"{epsilon:.4g}" for epsilon in epsilons)
                raise BrokenPromise(
                    f"fewer columns cost more: epsilon {shown} at noise {noise:g}, for fewer and fewer columns"
                )

    def _cost_or_none(self, schema: Schema, noise: float) -> Event | None:
        """Return the cost, or None if the mechanism refuses `schema`."""
        try:
            return self.mechanism.cost(schema, noise)
        except PrivawareError:
            return None

    def calibrated(self, epsilon: float) -> float:
        """Return the noise multiplier (at least 1e-6) that costs `epsilon` at `self.delta`.

        Raise `BrokenPromise` if there is none.
        """
        try:
            noise = accounting.calibrate(lambda noise: self.mechanism.cost(self.schema, noise), epsilon, self.delta)
        except PrivawareError as problem:
            raise BrokenPromise(f"no noise brings the cost to epsilon {epsilon:g}: {problem}") from problem
        return max(float(noise), 1e-6)

    def edge_cases(self, rows: Data, noise: float) -> None:
        """Check that runs raise no error and give finite releases on the first 0, 1 and 2 rows and on extreme rows."""
        cases = [(f"{size} rows", rows.take(np.arange(size))) for size in SIZES[:3] if size <= len(rows)]
        cases += [
            (f"a row with {words}", joined(rows.take(np.arange(min(2, len(rows)))), x, y))
            for words, x, y in extremes(self.schema)
        ]
        for words, few in cases:
            try:
                last = Edit(kind="changed", at=len(few) - 1, rows=len(few))  # in every sample
                run = record(self.mechanism, few, noise, edit=last)
            except BrokenPromise as problem:
                raise BrokenPromise(f"{problem}; the data had {words}") from problem
            if not np.isfinite(released_numbers(run.released)).all():
                raise BrokenPromise(f"the release is not finite on data with {words}")

    def seeds(self, rows: Data, noise: float) -> None:
        """Check that equal seeds give equal releases, and that `SEEDS` different seeds do not all give the same.

        The different seeds run with `64 * noise`. They are not checked if the cost is epsilon 0.
        """
        once, again = (released_numbers(record(self.mechanism, rows, noise, seed=7).released) for _ in range(2))
        if not np.array_equal(once, again, equal_nan=True):
            raise BrokenPromise("the same seed gives different releases: there is randomness outside rng")
        if _epsilon(self.mechanism.cost(self.schema, noise), self.delta) == 0:
            return
        releases = (
            released_numbers(record(self.mechanism, rows, 64 * noise, seed=seed).released) for seed in range(SEEDS)
        )
        first = next(releases)
        if all(np.array_equal(first, other) for other in releases):
            raise BrokenPromise(
                "the same release for different seeds: the noise is missing, or drawn from a fixed seed"
            )

    def replays(
        self, rows: Data, noise: float, neighbour: Data | Callable[[Data], Data] | None
    ) -> list[tuple[Data, Data]]:
        """Check by record and replay that no run costs more than stated; return pairs of neighbours for the games.

        The pair of `rows` and `neighbour`, and pairs of `SIZES[-1]` rows (or of all `rows` if there are fewer), are
        replayed in both directions. All other pairs are replayed in one direction, which alternates from pair to pair.
        If `neighbour` is given, only its pair is returned. Otherwise the pairs with the largest effect are returned for
        two numbers of rows: the smallest at which a row has an effect, and `SIZES[-1]` if a row has an effect there.
        """
        for multiplier in (noise, 4 * noise):
            self.paid(record(self.mechanism, rows, multiplier), multiplier, set())
        worst: dict[int, tuple[float, tuple[Data, Data]]] = {}
        for seed, (words, few, other) in enumerate(self._pairs(rows, neighbour)):
            ways = [(few, other), (other, few)]
            if len(few) != min(SIZES[-1], len(rows)) and words != AS_PASSED:
                ways = ways[seed % 2 :][:1]
            try:
                distance = max(self.distance(*way, noise, seed) for way in ways)
            except BrokenPromise as problem:
                raise BrokenPromise(f"{problem}; seen on {len(few)} rows and the same {words}") from problem
            if distance > worst.get(len(few), (0.0,))[0]:
                worst[len(few)] = distance, (few, other)
        if neighbour is not None:
            return [next((few, other) for _, few, other in self._pairs(rows, neighbour))]
        sizes = sorted({min(worst, default=0), SIZES[-1]} & set(worst))
        return [worst[size][1] for size in sizes]

    def _pairs(self, rows: Data, neighbour: Data | Callable[[Data], Data] | None) -> Iterator[tuple[str, Data, Data]]:
        if neighbour is not None:
            yield AS_PASSED, rows, neighbour(rows) if callable(neighbour) else neighbour
        for size in (*(size for size in SIZES if size < len(rows)), len(rows)):
            few = rows.take(np.arange(size))
            stride = 1 if size == SIZES[-1] or len(rows) <= SIZES[-1] else 3
            for at, (words, other) in enumerate(neighbours(few, unit(self.mechanism))):
                if at % stride == 0:
                    yield words, few, other

    def distance(self, one: Data, two: Data, noise: float, seed: int) -> float:
        """Run the mechanism on `one`, replay the run on its neighbour `two`, and return the sum of squared ratios.

        A ratio is the change of an exact value divided by its sensitivity, when the row that differs is in every
        Poisson sample. `noise` is the noise multiplier and `seed` the seed of the run. Raise `BrokenPromise` if the run
        costs more than stated.
        """
        within = replay(self.mechanism, one, two, noise, seed=seed)
        outside: set[int] = set()
        sampled = any(call.kind == "poisson" and call.public["rate"] < 1 for call in within.calls)
        if sampled:
            outside = replay(self.mechanism, one, two, noise, seed=seed, inside=False).changed_calls
        self.paid(within, noise, outside)
        many = min(len(one), len(two)) > SIZES[-1]
        for part in range(0 if sampled or many else self.disjoint_parts(within, noise)):
            self.paid(replay(self.mechanism, one, two, noise, seed=seed, part=part), noise, outside)
        return sum(ratio**2 for ratio in within.ratios.values())

    def disjoint_parts(self, run: Replay, noise: float) -> int:
        """Return the largest number of parts into which a call of `run` splits the rows; 0 if it splits none.

        The caller puts the row that differs into each part in turn. Also return 0 if the stated cost at `noise`
        contains no parallel composition (`Disjoint`), or contains private selection (`Selected`).
        """
        stated = self.mechanism.cost(self.schema, noise)
        if _contains(stated, Selected) or not _contains(stated, Disjoint):
            return 0
        return max((len(call.public["shares"]) for call in run.calls if call.kind == "shards"), default=0)

    def paid(self, run: Replay, noise: float, outside: set[int]) -> None:
        """Check that the recorded calls of `run` cost no more than the mechanism states for noise multiplier `noise`.

        `outside` holds the positions of calls that a row outside the Poisson sample changes; sampling does not lower
        their cost. Nothing is checked for private selection, or for parallel composition if `run` was not replayed.
        """
        stated = self.mechanism.cost(self.schema, noise)
        if _contains(stated, Selected) or (_contains(stated, Disjoint) and not run.ratios):
            return  # the cost covers only the best of many runs, or one part at a time
        changing = unit(self.mechanism) == "label" or self.schema.relation == "replace_one"
        actual = spent(
            run.calls,
            unsampled=outside,
            only=run.changed_calls if _contains(stated, Disjoint) else None,
            relation="replace_one" if changing else "add_remove",
        )
        if _event_counts(actual) == _event_counts(stated):
            return
        stated_epsilon, actual_epsilon = _epsilon(stated, self.delta), _epsilon(actual, self.delta)
        if actual_epsilon > stated_epsilon * (1 + 1e-6) + 1e-9:
            reason = " (some values are moved by a row outside the sample)" if outside else ""
            raise BrokenPromise(
                f"the stated cost is too low: epsilon {stated_epsilon:.4g} for {stated!r:.200}, but the recorded "
                f"calls cost {actual_epsilon:.4g}{reason}: {actual!r:.200}"
            )

    def unchanged(self, noise: float, fields: np.ndarray, event: Event) -> None:
        """Check that the cost and the numbers in the mechanism's fields still equal `event` and `fields`."""
        if self.mechanism.cost(self.schema, noise) != event:
            raise BrokenPromise("the cost changed after a run: it depends on the rows, not on public facts alone")
        if not np.array_equal(released_numbers(self.mechanism), fields, equal_nan=True):
            raise BrokenPromise("run changed the fields of the mechanism: they must hold public settings only")

    def game(self, canaries: list[tuple[Data, Data]], noise: float, epsilon: float, games: int) -> float:
        """Check that attacks on releases and on all noised values prove no more than the stated epsilon.

        Return the largest epsilon that they prove at `self.delta`, or 0 if `games` is 0 or there are no `canaries`.
        """
        lower = 0.0
        for data, neighbour in canaries if games else []:
            proofs = self.noise_game(data, neighbour, noise)
            released = 0.0
            if most_provable(games, self.delta) > epsilon:
                released = canary_game(self.mechanism, data, neighbour, noise, delta=self.delta, games=games)
            for proved, claim in [(released, epsilon), *proofs]:
                if proved > claim + 1e-9:
                    raise BrokenPromise(
                        f"the canary game proves epsilon of at least {proved:.3g}, the claim is {claim:.3g}"
                    )
            lower = max(lower, released, *(proved for proved, _ in proofs[:1]))
        return lower

    def noise_game(self, data: Data, neighbour: Data, noise: float) -> list[tuple[float, float]]:
        """Attack all noised values; return (proved epsilon, claimed epsilon) at `self.delta`, then at `LARGE_DELTA`.

        Return no pairs if the values cannot be noised again without another run, or if the stated cost contains private
        selection, which does not cover all noised values.
        """
        stated = self.mechanism.cost(self.schema, noise)
        if _contains(stated, Selected):
            return []
        if len(neighbour) < len(data):
            data, neighbour = neighbour, data
        try:
            scores = redrawn_losses(self.mechanism, data, neighbour, noise)
        except WrongInput:
            return []
        return [
            (epsilon_lower(*scores, delta=delta, confidence=0.999), _epsilon(stated, delta))
            for delta in (self.delta, LARGE_DELTA)
        ]


@functools.lru_cache(maxsize=8)
def _copied(schema: Schema) -> Schema:
    """Return `schema` with `COPIES` copies of each declared column that is coded into numbers."""
    copied = [column for column in schema.declared if not column.is_whole]
    copies = (replace(column, name=f"{column.name} {copy}") for copy in range(1, COPIES) for column in copied)
    return replace(schema, columns=(*schema.columns, *copies))


@functools.lru_cache(maxsize=256)
def _epsilon(event: Event, delta: float) -> float:
    try:
        return float(accounting.epsilon(event, delta))
    except PrivawareError as problem:
        raise BrokenPromise(f"the cost {event!r:.200} has no epsilon: {problem}") from problem


def _contains(event: Event, kind: type[Event]) -> bool:
    parts = event.events if isinstance(event, (Composed, Disjoint)) else ()
    inner = getattr(event, "event", None) if not isinstance(event, kind) else None
    return isinstance(event, kind) or any(
        _contains(part, kind) for part in (*parts, *([inner] if isinstance(inner, Event) else []))
    )


def _event_counts(event: Event) -> Counter[str]:
    """Return how often each event that contains no other event occurs in `event`, by its `repr` and relation."""
    counts: Counter[str] = Counter()
    for leaf, count in leaves(event):
        counts[repr(leaf) + getattr(leaf, "relation", "")] += count
    return counts
