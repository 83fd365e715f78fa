"""Random tables: codes within their levels, coded as real tables are, and columns that say something of the class."""

from __future__ import annotations

import pytest
import torch

from privaware.features.codes import public_edges
from research.pretraining.random_tables import RandomTables, TableShape, _public_edges

SHAPES = {
    "public cells": TableShape(tables=12, rows=600, columns=5, classes=2),
    "bins": TableShape(tables=12, rows=600, columns=5, classes=4, cells=0, bins=6),
}


def tables(name: str, seed: int = 0) -> RandomTables:
    return RandomTables.generate(SHAPES[name], torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", SHAPES)
def test_codes_lie_within_the_levels_of_their_column(name: str) -> None:
    generated, shape = tables(name), SHAPES[name]
    assert generated.codes.shape == (12, 5, 600)
    assert (generated.codes >= 0).all()
    assert (generated.codes < generated.levels[..., None]).all()
    assert int(generated.levels.max()) <= shape.levels
    assert set(generated.classes.unique().tolist()) == set(range(shape.classes))
    assert generated.ordered.any()
    assert not generated.ordered.all()


def test_same_seed_gives_the_same_tables() -> None:
    first, again, other = tables("bins"), tables("bins"), tables("bins", seed=1)
    assert torch.equal(first.codes, again.codes)
    assert torch.equal(first.classes, again.classes)
    assert not torch.equal(first.codes, other.codes)


@pytest.mark.parametrize(("low", "high"), [(0.0, 50.0), (-20.0, 57.0)])
def test_cells_are_those_of_the_codes_that_real_tables_have(low: float, high: float) -> None:
    anchor = torch.tensor([[[(min(max(0.0, low), high) - low) / (high - low)]]])
    edges = _public_edges(anchor, 32)[0, 0]
    expected = torch.tensor((public_edges(low, high, 32) - low) / (high - low)).float()
    assert torch.allclose(edges[edges <= 1], expected, atol=2e-6)


def mutual_information(codes: torch.Tensor, classes: torch.Tensor) -> float:
    joint = torch.zeros(int(codes.max()) + 1, int(classes.max()) + 1)
    joint.index_put_((codes, classes), torch.ones(len(codes)), accumulate=True)
    joint /= len(codes)
    independent = joint.sum(1, keepdim=True) * joint.sum(0, keepdim=True)
    return float((joint * torch.where(joint > 0, joint / independent.clamp(min=1e-12), 1.0).log()).sum())


def test_only_some_columns_tell_something_of_the_class() -> None:
    shape = TableShape(tables=30, rows=4000, columns=4, classes=2, cells=0, bins=4)
    generated = RandomTables.generate(shape, torch.Generator().manual_seed(2))
    told = [mutual_information(generated.codes[t, c], generated.classes[t]) for t in range(30) for c in range(4)]
    assert max(told) > 0.1
    assert sum(each < 0.01 for each in told) > 20
    assert sum(each > 0.02 for each in told) > 20
