"""The choices of the default policy on a grid of public facts are those of the golden file."""

from __future__ import annotations

import json

from tests.workflow.auto.grid import GOLDEN, chosen, packed


def test_choices_are_those_of_the_golden_file() -> None:
    golden, today = json.loads(GOLDEN.read_text()), packed(chosen())
    assert today["choices"] == golden["choices"]
    assert today["runs"] == golden["runs"]
