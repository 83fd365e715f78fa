"""What docs/results/tramer_boneh_cnn.md shares with the page of scattering features."""

from __future__ import annotations

from typing import Any

from privaware.papers import tramer_boneh as paper
from privaware.papers._page import Page
from privaware.papers._prices import Prices

__all__ = ["functions"]


def functions(page: Page) -> dict[str, Any]:
    return {"paper": paper, "prices": Prices("tramer_boneh").known}
