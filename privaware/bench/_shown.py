"""How results are shown: mean and spread of repeats, and Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, stdev
from typing import Any


def spread(values: Iterable[float]) -> tuple[float, float]:
    """Return mean and sample standard deviation of at least one value; the deviation of a single value is 0."""
    listed = list(values)
    return mean(listed), stdev(listed) if len(listed) > 1 else 0.0


def markdown(head: Sequence[Any], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table with the titles `head`, without a line break at its end; nothing is escaped.

    >>> print(markdown(["a", "b"], [[1, 2]]))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
