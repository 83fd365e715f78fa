"""The costs that Bao et al. print for their searches, recomputed by the printed formulas, and the errors in these.

Nothing here is a valid cost: it reproduces Table VIII for comparison. `privaware search` charges a search by
composition or private selection.

* Equation 8 is advanced composition, `epsilon * sqrt(2 c ln(1/d)) + c * epsilon * (e^epsilon - 1)`, typeset with the
  root over both terms. For PAAS (60 models at 2.11) it gives 996, or 101 as typeset. The printed 22.3 is
  10 x 2.11 + 60 x 0.02, which follows from neither. The deltas of the 60 models, 6e-4 in total, are left out.
* Equation 9 is meant to be the cost of taking the best of k: the smallest e' with `x v >= (4 / e') ln(1 / (e' d k))`,
  and `epsilon + 8 e'` in total. Three things are wrong. In the theorem the argument is `k / (e' d)`, so as printed more
  candidates cost less. The theorem needs a pure-DP base and a random number of runs, and neither is the case. Training
  and validation rows are disjoint, so the larger of the two costs counts and not their sum. With the single pair
  x v = 111.3, d = 1.1e-4, the printed form gives both printed numbers, 3.51 (RS) and 8.53 (MGRS); the corrected form
  cannot.

Paper: Bao, Bauer and Bindschaedler, section VIII-C; Gupta et al. 2010, theorem 10.2, as used by Abadi et al. 2016.
Privacy: none; these are comparisons of published numbers.
Use when: a reader asks where 22.3, 3.51 and 8.53 come from.

>>> for row in table():
...     print(row["search"], row["printed"], round(row["as_printed"], 2), round(row["corrected"], 2))
paas 22.3 101.17 996.05
rs 3.51 3.51 6.62
mgrs 8.53 8.53 13.22
"""

from __future__ import annotations

import math
from typing import Any

from privaware.errors import WrongInput

__all__ = ["best_of", "composed", "table"]

MODEL = 2.11
"""Epsilon of one model in the paper."""
XV = 111.3
"""Value of x v that reproduces both printed numbers together with `FAILS` (inferred, not in the paper)."""
FAILS = 1.1e-4
"""Value of d that reproduces both printed numbers together with `XV` (inferred, not in the paper)."""


def composed(epsilon: float, count: int, delta: float, *, typeset: bool = False) -> float:
    """Compute equation 8 for `count` models, as the theorem states it or as `typeset`, with the root over both terms.

    >>> round(composed(0.1, 2315, 1e-6), 1)  # PAFS: 49.63 is printed
    49.6
    """
    first = 2 * count * math.log(1 / delta)
    second = count * epsilon * math.expm1(epsilon)
    if typeset:
        return epsilon * math.sqrt(first + second)
    return epsilon * math.sqrt(first) + second


def best_of(count: int, *, xv: float = XV, delta: float = FAILS, corrected: bool = False) -> float:
    """Compute the e' of equation 9 for the best of `count`, as printed or with the corrected argument."""
    if count < 1:
        raise WrongInput(f"expected at least one candidate, got {count!r}")
    scale = count if corrected else 1 / count

    def short(extra: float) -> bool:
        return 4 / extra * math.log(max(scale / (extra * delta), 1.0)) > xv

    low, high = 1e-9, 1e3
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if short(middle) else (low, middle)
    return high


def table() -> list[dict[str, Any]]:
    """Return Table VIII: the printed costs, the costs by the printed formulas, and by the corrected formulas."""
    searches = {"rs": ((400,), 3.51), "mgrs": ((40, 20, 10), 8.53)}
    rows: list[dict[str, Any]] = [
        {
            "search": "paas",
            "printed": 22.3,
            "as_printed": composed(MODEL, 60, 1e-5, typeset=True),
            "corrected": composed(MODEL, 60, 1e-5),
        }
    ]
    for name, (counts, printed) in searches.items():
        totals = {
            kind: MODEL + 8 * sum(best_of(count, corrected=right) for count in counts)
            for kind, right in (("as_printed", False), ("corrected", True))
        }
        rows.append({"search": name, "printed": printed, **totals})
    return rows
