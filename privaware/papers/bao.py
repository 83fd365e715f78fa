"""Bao, Bauer and Bindschaedler, "On the importance of architecture and feature selection in differentially private
machine learning" (2022): simple models win under noise."""

from __future__ import annotations

from privaware.papers import Item, grid
from privaware.papers._bao_small import lemma

__all__ = ["ITEMS"]

ITEMS = [
    Item(
        id="bao/lemma",
        title="Lemma 1 and Corollary 1",
        columns=("epsilon",),
        runs=grid(draws=20_000),
        quick=grid(draws=2_000),
        run=lemma,
        page="studies",
    )
]
