"""Studies, one a file: plain functions with small results that can be written as JSON and drawn.

Some only compute (`feature_cost`, `cost_of_privacy`, `sample_size`); the others train many models, which is a release
of many models: on built-in public data they are evaluations and say so, on private rows everything is charged.
"""

from __future__ import annotations

from research.studies._sweep import Store
from research.studies._trials import Rows, Setting

__all__ = ["Rows", "Setting", "Store"]
