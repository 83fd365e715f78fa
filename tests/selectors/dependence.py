"""The score of `top` for rows in memory."""

from __future__ import annotations

import numpy as np

from privaware.data import Data
from privaware.selectors._tables import slots
from privaware.selectors.top import TargetCounts, dependence


def dependence_of(data: Data, bins: int = 8) -> np.ndarray:
    counts = TargetCounts(schema=data.schema, bins=bins, columns=1)
    return dependence(counts.partial(data), slots(data.schema, bins))
