"""The form of the tables of published networks: a row, and the shapes of images."""

from __future__ import annotations

from typing import Any

__all__ = ["COLOUR", "GREY", "MNIST", "Row"]

Row = tuple[str, int, str, dict[str, Any], str]
"""Name, number of parameters, where the network is printed, description, and a note."""

MNIST = [1, 28, 28]
"""Input shape of MNIST."""

GREY = [1, 32, 32]
"""Input shape of grey images of 32 x 32 pixels."""

COLOUR = [3, 32, 32]
"""Input shape of colour images of 32 x 32 pixels."""
