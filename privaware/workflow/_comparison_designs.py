"""The design of a comparison: which epsilons are tried and how often, chosen so that its cost stays within a total.

The cost of a comparison grows with the number of trainings, and most with the largest epsilon, because every training
at that epsilon is charged. So the choice first takes as many epsilons as fit with one repeat, smallest first, and then
as many repeats as fit.

>>> def price(design):  # a stand-in for the accountant: the sum of all trainings
...     return 2 * design.repeats * sum(design.epsilons)
>>> choose_design(price, epsilons=None, repeats=None, total=6.0)
Design(epsilons=(0.1, 0.3, 1.0), repeats=2)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from privaware._rounded import rounded_up
from privaware.errors import BudgetExceeded

__all__ = ["EPSILONS", "MAX_REPEATS", "TOTAL", "Design", "advice", "choose_design", "designs_sentence"]

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Epsilons that a comparison tries if none are given."""
MAX_REPEATS = 5
"""Largest number of repeats of a comparison if none is given."""
TOTAL = 5.0
"""Largest total epsilon of a comparison on private rows if none is given."""
MIN_EPSILONS = 2
"""Smallest number of epsilons that a chosen design tries; a crossing lies between two epsilons."""
PUBLIC = "a built-in data set like yours costs nothing (`privaware list datasets`)"


@dataclass(frozen=True)
class Design:
    """The size of a comparison of two models: each model is trained `repeats` times at each of `epsilons`.

    `epsilons` are in ascending order.
    """

    epsilons: tuple[float, ...]
    repeats: int

    @property
    def words(self) -> str:
        """The size of the design in words.

        >>> Design((0.1, 1.0), 1).words
        '2 epsilons x 1 repeat'
        """
        return f"{_counted(len(self.epsilons), 'epsilon')} x {_counted(self.repeats, 'repeat')}"

    @property
    def options(self) -> str:
        """The options of `privaware crossover` that name the design.

        >>> Design((0.1, 1.0), 3).options
        '--epsilons 0.1,1 --repeats 3'
        """
        return f"--epsilons {','.join(f'{epsilon:g}' for epsilon in self.epsilons)} --repeats {self.repeats}"


Price = Callable[[Design], float]


def choose_design(price: Price, *, epsilons: Sequence[float] | None, repeats: int | None, total: float) -> Design:
    """Return the largest design whose price is at most `total`: first the most epsilons, then the most repeats.

    Raise `BudgetExceeded`, with advice, if no design fits: given `epsilons` are all tried, and a chosen design tries at
    least `MIN_EPSILONS`.

    Parameters
    ----------
    price
        Returns the total epsilon of a design.
    epsilons
        The epsilons of the design, all of which are used. Default: as many of `EPSILONS` as fit, smallest first.
    repeats
        The repeats of the design. Default: as many as fit, up to `MAX_REPEATS`.
    total
        The largest total epsilon. With infinity, the largest design is taken and nothing is priced.

    Returns
    -------
    Design
        The chosen design.
    """
    grid = EPSILONS if epsilons is None else tuple(epsilons)
    if math.isinf(total):
        return Design(grid, repeats or MAX_REPEATS)
    smallest = len(grid) if epsilons is not None else MIN_EPSILONS
    for count in range(len(grid), smallest - 1, -1):
        if price(Design(grid[:count], repeats or 1)) <= total:
            designs = (Design(grid[:count], times) for times in range(repeats or MAX_REPEATS, 0, -1))
            return next(design for design in designs if price(design) <= total)
    asked = Design(grid[:smallest], repeats or 1)
    raise BudgetExceeded(
        f"a comparison of {asked.words} costs epsilon {rounded_up(price(asked))}, above the total of {total:g}; "
        f"{advice(price, asked, lambda design: price(design) <= total)}, or allow more with --total"
    )


def advice(price: Price, asked: Design, fits: Callable[[Design], bool]) -> str:
    """Return cheaper ways in one phrase: the largest design that is smaller than `asked` and `fits`, and public data.

    The phrase names the options and the price of that design, or says that no smaller design fits.
    """
    smaller = next(filter(fits, _smaller(asked)), None)
    if smaller is None:
        return f"no smaller design fits; {PUBLIC}"
    return f"`{smaller.options}` costs {price(smaller):.4g}, and {PUBLIC}"


def designs_sentence(price: Price, chosen: Design, total: float) -> str:
    """Return a sentence with the price of `chosen`, the limit `total` and, for comparison, the prices of other designs.

    The other designs try all of `EPSILONS` or the epsilons of `chosen`, with `MAX_REPEATS` repeats or with one repeat.
    """
    others = [
        Design(EPSILONS, MAX_REPEATS),
        Design(EPSILONS, 1),
        Design(chosen.epsilons, MAX_REPEATS),
        Design(chosen.epsilons, 1),
    ]
    prices = {design.words: price(design) for design in others if design != chosen}
    listed = "; ".join(f"{words}: {cost:.4g}" for words, cost in sorted(prices.items(), key=lambda item: -item[1]))
    return (
        f"Design: {chosen.words}, epsilon {rounded_up(price(chosen))}, within the total of {total:g} (--total). "
        f"Others: {listed}; a built-in data set: 0."
    )


def _smaller(design: Design) -> Iterator[Design]:
    """Yield smaller designs than `design`, the largest first.

    All epsilons with fewer repeats come first, then fewer epsilons, down to `MIN_EPSILONS`, with one repeat. The
    smallest of `EPSILONS`, with one repeat, come last.
    """
    for repeats in range(design.repeats - 1, 0, -1):
        yield Design(design.epsilons, repeats)
    for count in range(len(design.epsilons) - 1, MIN_EPSILONS - 1, -1):
        yield Design(design.epsilons[:count], 1)
    for count in range(len(EPSILONS), MIN_EPSILONS - 1, -1):
        yield Design(EPSILONS[:count], 1)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
