"""Studies, one in each file: functions with small results that can be written as JSON and drawn.

Some studies only compute (`feature_cost`, `cost_of_privacy`, `sample_size`). The others train many models, which is a
release of many models. On built-in public data they are evaluations and say so. On private rows everything is charged.
"""

from __future__ import annotations

from research.studies._sweep import Store
from research.studies._trials import Rows, Setting

__all__ = ["Rows", "Setting", "Store"]
