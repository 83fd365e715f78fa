"""Bao, Bauer and Bindschaedler, "On the importance of architecture and feature selection in differentially private
machine learning" (2022): simple models win under noise."""

from __future__ import annotations

from privaware.papers import Item
from privaware.papers._bao_feature_items import FEATURES
from privaware.papers._bao_items import STUDIES
from privaware.papers._bao_search import SEARCHES

__all__ = ["ITEMS"]

OPEN = {
    "table1/fcn/purchase100": "Table I: FCN on Purchase-100 (STW 66.74, PAW 74.78 at epsilon 1.54)",
    "table17": "Table XVII: training time per epoch of SGD and DP-SGD (19 to 33 times slower)",
}
NOTES = {
    "table1/fcn/purchase100": "the data set has no public download whose checksum is known",
    "table17": "docs/results/descent.md compares steps with plain PyTorch and Opacus on other networks",
}

ITEMS = [
    *STUDIES,
    *FEATURES,
    *SEARCHES,
    *(Item(id=f"bao/{name}", title=title, note=NOTES[name]) for name, title in OPEN.items()),
]
