"""The wide residual network of De et al. and of the prior features."""

from __future__ import annotations

from privaware.models._named_row import COLOUR, Row

__all__ = ["ROWS"]

ROWS: list[Row] = [
    (
        "wrn.16_4.colour",
        2_751_146,
        "WRN-16-4 with group norm and weight standardisation",
        {"name": "wrn", "inputs": COLOUR, "outputs": 10},
        "In none of the four papers; convolutions have biases, the weight standardisation no gains.",
    )
]
