"""The networks that the papers name, with their exact numbers of parameters: one table for tests and lists.

>>> network = named()["bao.fcn.cifar10.19914"]
>>> network.parameters, network.source
(19914, 'Bao et al., Table XXIII (PAW)')
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from privaware.models import _published_bao, _published_images

__all__ = ["Published", "named"]


@dataclass(frozen=True, kw_only=True)
class Published:
    """A network of a paper: how to build it, its number of parameters, where it stands, what to know about it."""

    description: dict[str, Any]
    parameters: int
    source: str
    note: str = ""


def named() -> dict[str, Published]:
    """Every published network by name: paper, family, data, number of parameters."""
    table: dict[str, Published] = {}
    for rows in (_published_bao.ROWS, _published_images.ROWS):
        table.update(_entries(rows))
    return table


def _entries(rows: Iterable[tuple[str, int, str, dict[str, Any], str]]) -> dict[str, Published]:
    return {
        f"{prefix}.{parameters}": Published(
            description=copy.deepcopy(description), parameters=parameters, source=source, note=note
        )
        for prefix, parameters, source, description, note in rows
    }
