"""Bao, Bauer and Bindschaedler, "On the importance of architecture and feature selection in differentially private
machine learning" (2022): simple models win under noise."""

from __future__ import annotations

from research.papers import Item, grid
from research.papers import _bao_features as features
from research.papers import _bao_features_descent as descent
from research.papers import _bao_figures as figures
from research.papers import _bao_search as search
from research.papers import _bao_small as small
from research.papers import _bao_tables as tables
from research.papers._published import load_items

__all__ = ["ITEMS"]


def softmax(id: str, number: str, data: str) -> Item:
    """Tables II and XVIII; one epsilon of each is none, which TOML cannot write."""
    published = descent.published_softmax(data)
    return Item(
        id=id,
        title=f"Table {number} by DP-SGD (captions are swapped in the paper)",
        run=descent.softmax,
        runs=[
            cell
            for epsilon, row in published.items()
            for cell in grid(data=data, epsilon=epsilon, columns=tuple(row), repeats=10)
        ],
        quick=grid(data=data, epsilon=0.236, columns=(2, 43), repeats=2) if data == "breast" else (),
        columns=("epsilon", "columns"),
        published={f"{e} {size}": value for e, row in published.items() for size, value in row.items()},
        page="features",
    )


ITEMS = [
    *load_items("bao", features=features, descent=descent, figures=figures, search=search, small=small, tables=tables),
    softmax("bao/table2", "II: columns of Breast Cancer", "breast"),
    softmax("bao/table18", "XVIII: columns of Adult", "adult"),
    Item(
        id="bao/table18/again",
        title="Table XVIII: SGD on columns of Adult, printed a second time",
        run=descent.softmax,
        runs=grid(data="adult", epsilon=None, columns=tuple(descent.published_again()), repeats=10, first_seed=1000),
        columns=("columns",),
        published={str(size): value for size, value in descent.published_again().items()},
        page="features",
    ),
]
