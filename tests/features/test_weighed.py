"""Entries times released weights."""

from __future__ import annotations

import numpy as np
import pytest

from privaware import features
from privaware.errors import WrongInput
from privaware.features.weighed import Weighed


def test_squared_weights_move_to_the_nearest_power_of_two() -> None:
    squares = np.array([1.0, 0.26, 0.13, 2.0**-25, 2.0**-30, 0.0])
    weighed = Weighed.of(squares)
    assert weighed.letters == "acdz--"
    expected = [1.0, 0.5, 8**-0.5, 2.0**-12.5, 0.0, 0.0]
    assert np.allclose(weighed(np.ones((2, 6))), expected)
    assert features.build(features.describe(weighed)) == weighed


@pytest.mark.parametrize("letters", ["aB", "a b", ("a", "b")])
def test_other_letters_are_refused(letters: str) -> None:
    with pytest.raises(WrongInput, match="letters from a to z"):
        Weighed(letters=letters)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(WrongInput, match="rows of 2 entries"):
        Weighed(letters="ab")(np.ones((1, 3)))
