"""Mechanisms in sequence: the second one costs no more than was charged before the first had run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from privaware.errors import Refused
from privaware.mechanism import Then
from privaware.noise import Rng
from privaware.selectors.random import Random
from privaware.testing import example, rows_for
from tests.testing.planted_releases import CheaperWithColumns, Sums


def test_p14_mechanism_that_costs_more_than_charged_is_refused() -> None:
    data = rows_for(example(), 24)
    select = Then(first=Random(columns=1), second=Sums(), join=lambda part, released: part.keep(("age",)))
    assert len(select.run(data, 1.0, Rng(seed=0))) == 1
    dearer = replace(select, second=CheaperWithColumns())
    with pytest.raises(Refused, match=r"to cost at most the epsilon .* that was charged"):
        dearer.run(data, 1.0, Rng(seed=0))
