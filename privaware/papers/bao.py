"""Bao, Bauer and Bindschaedler, "On the importance of architecture and feature selection in differentially private
machine learning" (2022): simple models win under noise."""

from __future__ import annotations

from privaware.papers._bao_feature_items import FEATURES
from privaware.papers._bao_items import STUDIES

__all__ = ["ITEMS"]

ITEMS = [*STUDIES, *FEATURES]
