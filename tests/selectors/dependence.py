"""The score of `top` for rows in memory."""

from __future__ import annotations

import numpy as np

from privaware.data import Data
from privaware.selectors._tables import slots
from privaware.selectors.top import TargetCounts, distances


def dependence_of(data: Data, bins: int = 8) -> np.ndarray:
    counts, sizes = TargetCounts(schema=data.schema, bins=bins, columns=1), slots(data.schema, bins)
    table, with_itself = np.split(counts.partial(data), [sum(sizes[:-1])])
    return distances(table, np.diagonal(with_itself), sizes[:-1])
