"""The networks that the papers print, with their exact numbers of parameters.

>>> network = named()["bao.fcn.cifar10.19914"]
>>> network.parameters, network.source
(19914, 'Bao et al., Table XXIII (PAW)')
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from privaware.models import _named_bao, _named_dpmlbench, _named_dpnas, _named_tramer_boneh, _named_wrn
from privaware.models._named_row import Row

__all__ = ["NamedNetwork", "named"]


@dataclass(frozen=True, kw_only=True)
class NamedNetwork:
    """A network of a paper: its description, its number of parameters, where it is printed, and a note."""

    description: dict[str, Any]
    parameters: int
    source: str
    note: str = ""


def named() -> dict[str, NamedNetwork]:
    """Return every published network by a name such as "bao.fcn.cifar10.19914".

    A name begins with the paper and ends with the number of parameters; family and data stand between them.
    """
    papers = (_named_bao, _named_tramer_boneh, _named_dpmlbench, _named_dpnas, _named_wrn)
    return {f"{row[0]}.{row[1]}": _entry(row) for paper in papers for row in paper.ROWS}


def _entry(row: Row) -> NamedNetwork:
    _, parameters, source, description, note = row
    return NamedNetwork(description=copy.deepcopy(description), parameters=parameters, source=source, note=note)
